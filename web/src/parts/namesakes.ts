/** What tells sites of one name apart, in words. */

import { h, nameOf } from "./dom.ts";
import { formatPlace } from "../text/format.ts";
import { frameAt, type FrameColumns, type Mark } from "../payload/payload.ts";

const WORDS: Record<Mark["how"], string> = { caller: "called by ", line: "at ", callee: "through ", name: "" };

/** `called by Prices.load, called by Main.run`; undefined for a name of which there is one. */
export function apart(frames: FrameColumns, marks: readonly Mark[]): HTMLElement | undefined {
  if (marks.length === 0) {
    return undefined;
  }
  const parts = marks.flatMap(({ how, frame: index }, position) => {
    const frame = frameAt(frames, index);
    const place = how === "line" ? ` (${formatPlace(frame)})` : "";
    return [position > 0 && ", ", WORDS[how], how === "name" ? nameOf(frame.name) : nameOf(frame.short, "", frame.name), place];
  });
  return h("span", { class: "apart" }, ...parts);
}
