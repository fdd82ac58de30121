/** One function between its callers and its callees: each half is a call tree that starts at it. */

import type { Functions } from "./functions.ts";
import type { StackColumns } from "../payload/payload.ts";
import { buildTree, type CallTree } from "./tree.ts";

export interface Sandwich {
  callers: CallTree;
  callees: CallTree;
  /** By stack, 1 if the function is in it: weights of other stacks are to be taken as 0. */
  inside: Uint8Array;
}

/**
 * `paths`: every stack as functions, outermost first.  A function that calls itself is taken where it is
 * outermost, so that a stack counts once in each half.
 */
export function sandwich(paths: readonly Int32Array[], fn: number): Sandwich {
  const inside = new Uint8Array(paths.length);
  const [callers, callees]: [Int32Array[], Int32Array[]] = [[], []];
  paths.forEach((path, stack) => {
    const place = path.indexOf(fn);
    inside[stack] = place < 0 ? 0 : 1;
    callers.push(place < 0 ? new Int32Array(0) : path.slice(0, place).reverse());
    callees.push(place < 0 ? new Int32Array(0) : path.slice(place + 1));
  });
  return { callers: buildTree(callers), callees: buildTree(callees), inside };
}

/** The weight of all stacks that a function is in, each once; by function. */
export function inclusive(paths: readonly Int32Array[], weights: ArrayLike<number>, functions: number): Float64Array {
  const sums = new Float64Array(functions);
  const seen = new Int32Array(functions).fill(-1);
  paths.forEach((path, stack) => {
    const weight = weights[stack]!;
    if (weight > 0) {
      for (const fn of path) {
        if (seen[fn] !== stack) {
          seen[fn] = stack;
          sums[fn] = sums[fn]! + weight;
        }
      }
    }
  });
  return sums;
}

/** The number of the function of that name that most stacks' frames are of, or -1. */
export function functionNamed(functions: Functions, stacks: StackColumns, name: string): number {
  const counts = new Map<number, number>();
  for (const frames of stacks.frames) {
    for (const frame of frames) {
      const fn = functions.ofFrame[frame]!;
      if (functions.name[fn] === name) {
        counts.set(fn, (counts.get(fn) ?? 0) + 1);
      }
    }
  }
  return Array.from(counts).sort((a, b) => b[1] - a[1])[0]?.[0] ?? -1;
}
