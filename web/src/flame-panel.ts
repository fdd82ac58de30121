/** The flame graph with its controls: measure, direction, search, reset, legend. */

import { h, section } from "./dom.ts";
import { FlameGraph, type FlameData } from "./flame.ts";
import { formatCount, formatShare, formatSize } from "./format.ts";
import { mergeFrames, stackPaths } from "./functions.ts";
import { legend } from "./kinds.ts";
import type { Payload } from "./payload.ts";
import { compileSearch } from "./search.ts";
import { buildTree, matchedWeight, sumTree, type CallTree } from "./tree.ts";

const MEASURES = {
  live_bytes: { label: "live bytes", format: formatSize },
  live_blocks: { label: "live blocks", format: (count: number) => `${formatCount(count)} blocks` },
  allocated_bytes: { label: "allocated bytes", format: formatSize },
  allocated_blocks: { label: "allocated blocks", format: (count: number) => `${formatCount(count)} blocks` },
} as const;
type Measure = keyof typeof MEASURES;

const SOURCES = { all: "malloc and mmap", malloc: "malloc only", mmap: "mmap only" } as const;

export interface FlamePanel {
  element: HTMLElement;
  /** Searches for a name as it stands and brings the panel into view. */
  find(name: string): void;
  focusSearch(): void;
  reset(): void;
}

export function flamePanel(payload: Payload): FlamePanel {
  const { stacks } = payload;
  if (stacks.frames.length === 0) {
    const element = section("flame", "Where it was allocated", h("p", { class: "empty" }, "No allocation was recorded."));
    return { element, find: () => undefined, focusSearch: () => undefined, reset: () => undefined };
  }

  const functions = mergeFrames(payload.frames);
  const trees = new Map<boolean, CallTree>();
  const treeOf = (inverted: boolean): CallTree => {
    const tree = trees.get(inverted) ?? buildTree(stackPaths(stacks, functions, inverted));
    trees.set(inverted, tree);
    return tree;
  };

  const measure = h(
    "select",
    { id: "measure", "aria-label": "Measure" },
    ...Object.entries(MEASURES).map(([value, { label }]) => h("option", { value }, label)),
  );
  const source = h(
    "select",
    { id: "source", "aria-label": "Source" },
    ...Object.entries(SOURCES).map(([value, label]) => h("option", { value }, label)),
  );
  const inverted = h("input", { type: "checkbox", id: "inverted" });
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search functions ( / )",
    "aria-label": "Search functions by regular expression",
    "aria-describedby": "matched",
    autocomplete: "off",
    spellcheck: "false",
  });
  const matched = h("output", { id: "matched", for: "search" });
  const reset = h("button", { type: "button", id: "reset", title: "Esc" }, "Reset zoom and search");

  const chosen = (): Measure => measure.value as Measure;
  /** Of every stack; those of another source weigh nothing. */
  const weights = (): number[] => {
    const all = stacks[chosen()];
    return source.value === "all" ? all : all.map((weight, stack) => (stacks.kind[stack] === source.value ? weight : 0));
  };
  const current = (): FlameData => {
    const tree = treeOf(inverted.checked);
    const { label, format } = MEASURES[chosen()];
    return { tree, values: sumTree(tree, weights()), functions, format, total: `all ${label}` };
  };
  let data = current();
  const graph = new FlameGraph(data, () => update());

  const update = (): void => {
    const pattern = compileSearch(search.value);
    search.setAttribute("aria-invalid", String(pattern === "invalid"));
    reset.disabled = graph.zoom === 0 && search.value === "";
    if (pattern === undefined || pattern === "invalid") {
      matched.textContent = pattern === "invalid" ? "not a regular expression" : "";
      graph.highlight(undefined);
      return;
    }
    const hits = Uint8Array.from(functions.name, (name, fn) =>
      pattern.test(name) || pattern.test(functions.module[fn] ?? "") ? 1 : 0,
    );
    const weight = matchedWeight(data.tree, weights(), hits, graph.zoom);
    const whole = data.values[graph.zoom] ?? 0;
    const count = hits.reduce((sum, hit) => sum + hit, 0);
    matched.textContent = `${formatShare(weight, whole)} matched (${MEASURES[chosen()].format(weight)}, ${formatCount(count)} ${count === 1 ? "function" : "functions"})`;
    graph.highlight(hits);
  };
  const refresh = (): void => {
    data = current();
    graph.show(data);
    update();
  };
  const resetAll = (): void => {
    search.value = "";
    graph.zoomTo(0);
  };
  measure.addEventListener("change", refresh);
  source.addEventListener("change", refresh);
  inverted.addEventListener("change", refresh);
  search.addEventListener("input", update);
  reset.addEventListener("click", resetAll);
  update();

  const element = section(
    "flame",
    "Where it was allocated",
    h(
      "div",
      { class: "toolbar" },
      h("label", {}, "Show ", measure, " of ", source),
      h("label", { title: "Allocating functions at the top, their callers below" }, inverted, " inverted"),
      search,
      matched,
      reset,
    ),
    legend(new Set(payload.frames.kind)),
    graph.element,
    h(
      "p",
      { class: "hint" },
      "Callers above, callees below; a frame is as wide as what it holds. Click to zoom, click a frame above to zoom out.",
    ),
  );
  return {
    element,
    find: (name) => {
      search.value = `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
      graph.zoomTo(0);
      element.scrollIntoView({ block: "start" });
      search.focus({ preventScroll: true });
    },
    focusSearch: () => {
      search.focus();
      search.select();
    },
    reset: resetAll,
  };
}
