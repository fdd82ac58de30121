/** A stack, innermost first, to read and to copy; what is folded away can be shown. */

import { h, nameOf } from "./dom.ts";
import { formatPlace, visible } from "../text/format.ts";
import { kindChip } from "./kinds.ts";
import { frameAt, samePlace, type Fold, type Frame, type FrameColumns } from "../payload/payload.ts";

export function stackList(frames: FrameColumns, stack: number[], blamed: number, folds: Fold[]): HTMLElement {
  const look = stack.findIndex((index) => samePlace(frames, index, blamed));
  const items = (full: boolean): HTMLElement[] =>
    stack.flatMap((index, position) => {
      const fold = full ? undefined : folds.find(([start, stop]) => start <= position && position < stop);
      if (fold) {
        return position === fold[0] ? [h("li", { class: "left-out" }, visible(fold[2]))] : [];
      }
      const here = position === look;
      const frame = frameAt(frames, index);
      const place = formatPlace(frame);
      return h(
        "li",
        { class: here ? "blamed" : undefined },
        frame.kind === "class" ? kindChip("class", "new") : kindChip(frame.kind),
        h(
          "span",
          {},
          full ? nameOf(frame.name) : nameOf(frame.short, "", frame.name),
          place && h("span", { class: "place" }, place),
          frame.inlined && h("span", { class: "place" }, "inlined"),
          here && h("span", { class: "here" }, "look here"),
        ),
      );
    });
  const list = h("ol", { class: "stack" }, ...items(false));
  const text = stack.map((index) => stackLine(frameAt(frames, index))).join("\n");
  const folded = folds.length > 0 || stack.some((index) => frameAt(frames, index).short !== frameAt(frames, index).name);
  return h("div", { class: "stack-box" }, list, copyButton("Copy stack", text, list), folded && foldButton(folds.length > 0 ? "Whole stack" : "Full names", (full) => list.replaceChildren(...items(full))));
}

/** Every frame, and names whole, C++ arguments and all; or folded again. */
function foldButton(label: string, show: (full: boolean) => void): HTMLElement {
  const button = h("button", { type: "button", class: "fold", "aria-pressed": "false" }, label);
  button.addEventListener("click", () => {
    const full = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(full));
    show(full);
  });
  return button;
}

/** A button that copies; where the browser refuses, it selects what is shown instead. */
export function copyButton(label: string, text: string, shown: HTMLElement): HTMLElement {
  const copy = h("button", { type: "button", class: "copy" }, label);
  copy.addEventListener("click", () => {
    void copyText(text).then((done) => {
      copy.textContent = done ? "Copied" : "Press Ctrl+C";
      if (!done) {
        getSelection()?.selectAllChildren(shown);
      }
      setTimeout(() => (copy.textContent = label), 2000);
    });
  });
  return copy;
}

/** One line of the copied text, in the form of a Java stack trace. */
export function stackLine(frame: Frame): string {
  if (frame.kind === "class") {
    return `new ${visible(frame.name)}`;
  }
  const place = formatPlace(frame);
  return `\tat ${visible(frame.name)}${place ? ` (${place})` : ""}`;
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
