/** A whole stack, innermost first, to read and to copy. */

import { h, nameOf } from "./dom.ts";
import { formatPlace, visible } from "./format.ts";
import { kindChip } from "./kinds.ts";
import { frameAt, samePlace, type Frame, type FrameColumns } from "./payload.ts";

export function stackList(frames: FrameColumns, stack: number[], blamed: number): HTMLElement {
  const look = stack.findIndex((index) => samePlace(frames, index, blamed));
  const items = (full: boolean): HTMLElement[] =>
    stack.map((index, position) => {
      const here = position === look;
      const frame = frameAt(frames, index);
      const place = formatPlace(frame);
      return h(
        "li",
        { class: here ? "blamed" : undefined },
        kindChip(frame.kind),
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
  const folded = stack.some((index) => frameAt(frames, index).short !== frameAt(frames, index).name);
  return h("div", { class: "stack-box" }, list, copyButton("Copy stack", text, list), folded && foldButton((full) => list.replaceChildren(...items(full))));
}

/** Names whole, C++ arguments and all, or folded again. */
function foldButton(show: (full: boolean) => void): HTMLElement {
  const button = h("button", { type: "button", class: "fold", "aria-pressed": "false" }, "Full names");
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
