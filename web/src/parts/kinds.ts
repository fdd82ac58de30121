/** The kinds of frames: what they are called and how they are coloured. */

import { h } from "./dom.ts";
import type { FrameKind } from "../payload/payload.ts";
import { currentTheme } from "./theme.ts";

export const KINDS: Record<FrameKind, string> = {
  java: "Java",
  native: "native",
  jvm: "JVM",
  kernel: "kernel",
  class: "class",
  unknown: "unknown",
};

/** Hue, saturation, lightness; dark text on them has a contrast above 5 in both themes. */
const FILL: Record<FrameKind, [number, number, number]> = {
  java: [146, 42, 66],
  native: [35, 82, 68],
  jvm: [214, 66, 75],
  kernel: [276, 48, 78],
  class: [182, 45, 72],
  unknown: [215, 9, 76],
};
const SHADES = 4;

/** A shade of the kind's colour that depends on the name, so that neighbours can be told apart. */
export function fill(kind: FrameKind, name: string): string {
  let hash = 0;
  for (let i = 0; i < name.length; i++) {
    hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  }
  const [hue, saturation, lightness] = FILL[kind];
  const shade = (Math.abs(hash) % SHADES) * 2.5 - 4;
  const dim = currentTheme() === "dark" ? 9 : 0;
  return `hsl(${hue} ${saturation - dim}% ${lightness + shade - dim}%)`;
}

/** A small word in the kind's colour, before a frame's name. */
export function kindChip(kind: FrameKind, word = KINDS[kind]): HTMLElement {
  return h("span", { class: `chip kind-${kind}` }, word);
}

export function legend(present: ReadonlySet<FrameKind>): HTMLElement {
  const kinds = (Object.keys(KINDS) as FrameKind[]).filter((kind) => present.has(kind));
  return h("p", { class: "legend", "aria-label": "Colours" }, ...kinds.map((kind) => kindChip(kind)));
}
