/** Frames merged into functions: a flame graph shows a method once, whatever lines of it call. */

import type { Matcher } from "./search.ts";
import type { FrameColumns, FrameKind, StackColumns } from "../payload/payload.ts";

export interface Functions {
  name: string[];
  /** The names, C++ arguments folded. */
  short: string[];
  kind: FrameKind[];
  module: string[];
  file: string[];
  /** Distinct lines of the function that occur, ascending; empty if none is known. */
  lines: number[][];
  /** Its function, by frame. */
  ofFrame: Int32Array;
  /** The function that stands for a stack without frames. */
  noStack: number;
}

export function mergeFrames(frames: FrameColumns): Functions {
  const known = new Map<string, number>();
  const functions: Functions = {
    name: [],
    short: [],
    kind: [],
    module: [],
    file: [],
    lines: [],
    ofFrame: new Int32Array(frames.name.length),
    noStack: 0,
  };
  const add = (name: string, short: string, kind: FrameKind, module: string, file: string): number => {
    functions.name.push(name);
    functions.short.push(short);
    functions.kind.push(kind);
    functions.module.push(module);
    functions.file.push(file);
    functions.lines.push([]);
    return functions.name.length - 1;
  };
  frames.name.forEach((name, frame) => {
    const kind = frames.kind[frame] ?? "unknown";
    const module = frames.strings[frames.module[frame] ?? 0] ?? "";
    const key = JSON.stringify([name, kind, module]);
    let number = known.get(key);
    if (number === undefined) {
      number = add(name, frames.strings[frames.short[frame] ?? 0] || name, kind, module, frames.strings[frames.file[frame] ?? 0] ?? "");
      known.set(key, number);
    }
    functions.ofFrame[frame] = number;
    const line = frames.line[frame] ?? 0;
    const lines = functions.lines[number];
    if (line > 0 && lines && !lines.includes(line)) {
      lines.push(line);
    }
  });
  for (const lines of functions.lines) {
    lines.sort((a, b) => a - b);
  }
  functions.noStack = add("no stack was recorded", "no stack was recorded", "unknown", "", "");
  return functions;
}

/** By function: 1 if its name matches, in full or as it is shown, or `more` of it. */
export function matches(functions: Functions, pattern: Matcher, more?: string[]): Uint8Array {
  return Uint8Array.from(functions.name, (name, fn) =>
    pattern.test(name) || pattern.test(functions.short[fn]!) || (more && pattern.test(more[fn] ?? "")) ? 1 : 0,
  );
}

/** Every stack as functions, outermost first, or innermost first when `inverted`. */
export function stackPaths(stacks: Pick<StackColumns, "frames">, functions: Functions, inverted: boolean): Int32Array[] {
  return stacks.frames.map((frames) => {
    const path = Int32Array.from(frames.length ? frames : [-1], (frame) =>
      frame < 0 ? functions.noStack : (functions.ofFrame[frame] ?? functions.noStack),
    );
    return inverted ? path : path.reverse();
  });
}
