/** The call graph, a picture that `report/callgraph` draws; folded, since the flame graph has the same and more. */

import { h, section } from "../parts/dom.ts";

const FIT = "Fit to the page's width";
const FULL = "Full size";

/** `picture` is SVG without scripts and without a style of its own: call-graph.css has it. */
export function callGraph(picture: string): HTMLElement {
  const view = h("div", { class: "call-graph-view", tabindex: "0", role: "group", "aria-label": "The picture" });
  const size = h("button", { type: "button" }, FIT);
  size.addEventListener("click", () => {
    size.textContent = view.classList.toggle("fit") ? FULL : FIT;
  });
  const folded = h(
    "details",
    {},
    h("summary", {}, "Show functions as boxes, callers above what they call"),
    h("div", { class: "toolbar" }, size),
    view,
  );
  const draw = (): void => {
    if (!view.firstChild) {
      const parsed = new DOMParser().parseFromString(picture, "image/svg+xml").documentElement;
      view.append(document.importNode(parsed, true));
    }
  };
  folded.addEventListener("toggle", draw);
  return section("calls", "Call graph", folded);
}
