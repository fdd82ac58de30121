/** The keys, in a dialog that the key ? or the button opens. */

import { h } from "./dom.ts";

export const KEYS: [string, string][] = [
  ["/", 'search for functions in the flame graph: text, "a whole name" or /a regular expression/'],
  ["Esc", "undo search and zoom; then range and filters"],
  ["m", "next measure: live, grown, allocated, temporary"],
  ["b", "bytes or blocks"],
  ["i", "inverted: what allocates at the top, its callers below"],
  ["s", "callers and callees of the zoomed function"],
  ["h", "the last half of the recording, or the whole again"],
  ["t", "light or dark"],
  ["Tab", "to the next control; the flame graph is one"],
  ["↑ ↓ ← →", "in the flame graph: caller, callee, neighbours"],
  ["Enter", "in the flame graph: zoom; Home: back to the zoomed frame"],
  ["?", "this list"],
];

export interface Help {
  dialog: HTMLDialogElement;
  button: HTMLElement;
}

export function help(keys: [string, string][]): Help {
  const close = h("button", { type: "button" }, "Close");
  const dialog = h(
    "dialog",
    { id: "help", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, ...keys.flatMap(([key, meaning]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)])),
    h("p", { class: "hint" }, "The address keeps what you chose: copy it to show another the same view of this file."),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  const button = h("button", { type: "button", class: "quiet", id: "keys", "aria-label": "Keys" }, "?");
  button.addEventListener("click", () => dialog.showModal());
  return { dialog, button };
}
