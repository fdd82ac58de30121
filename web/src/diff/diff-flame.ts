/** The differential flame graph: red has grown, green has shrunk, blue is new. */

import { amount } from "./diff-sites.ts";
import type { ChangedStacks, DiffPayload } from "../payload/diff-payload.ts";
import { h, section } from "../parts/dom.ts";
import { FlameGraph } from "../flame/flame.ts";
import { formatShare } from "../text/format.ts";
import { matches, mergeFrames, stackPaths } from "../model/functions.ts";
import { compileSearch, isMatcher, SYNTAX, wholeName } from "../model/search.ts";
import type { Part, Store, Width } from "../model/state.ts";
import { currentTheme } from "../parts/theme.ts";
import { buildTree, matchedWeight, sumTree, type CallTree } from "../model/tree.ts";

type Memory = Exclude<Part, "both">;
const MEMORIES: Record<Memory, string> = { native: "native", java: "Java heap" };
const WIDTHS: Record<Width, string> = { change: "what changed", new: "what NEW holds", old: "what OLD held" };
/** Changes by less than this share of the larger side look unchanged. */
const SAME = 0.02;

export interface DiffFlame {
  element: HTMLElement;
  find(name: string, memory: Memory): void;
  focusSearch(): void;
}

export function diffFlame(payload: DiffPayload, store: Store): DiffFlame {
  // Both are there only where both sides have Java objects.
  const memories: Partial<Record<Memory, ChangedStacks>> = { native: payload.stacks, ...(payload.java_heap && { java: payload.java_heap.stacks }) };
  if (Object.values(memories).every((stacks) => stacks.frames.length === 0)) {
    const element = section("flame", "Where it was allocated", h("p", { class: "empty" }, "Neither side holds anything."));
    return { element, find: () => undefined, focusSearch: () => undefined };
  }
  const functions = mergeFrames(payload.frames);
  const trees = new Map<string, CallTree>();
  const memoryOf = (part: Part): Memory => (part === "java" && memories.java ? "java" : "native");
  const shown = (): ChangedStacks => memories[memoryOf(store.state.part)]!;
  const treeOf = (inverted: boolean): CallTree => {
    const key = `${memoryOf(store.state.part)} ${inverted}`;
    const tree = trees.get(key) ?? buildTree(stackPaths(shown(), functions, inverted));
    trees.set(key, tree);
    return tree;
  };
  const weights = (width: Width): number[] => {
    const { old_bytes: old, new_bytes: now } = shown();
    return width === "change" ? now.map((bytes, stack) => Math.abs(bytes - old[stack]!)) : width === "new" ? now : old;
  };
  const unit = payload.old.time === null ? payload.unit : "";
  const format = (bytes: number): string => amount(bytes, unit);

  const current = () => {
    const { width, view } = store.state;
    const tree = treeOf(view === "inverted");
    const stacks = shown();
    const [old, now] = [sumTree(tree, stacks.old_bytes), sumTree(tree, stacks.new_bytes)];
    return {
      tree,
      values: sumTree(tree, weights(width)),
      functions,
      format,
      total: `all of ${WIDTHS[width]}`,
      fill: (node: number) => changeColour(old[node]!, now[node]!),
      more: (node: number) => {
        const change = now[node]! - old[node]!;
        const state = old[node] === 0 ? "new" : now[node] === 0 ? "gone" : `${change > 0 ? "+" : ""}${format(change)}`;
        return `${format(old[node]!)} → ${format(now[node]!)} (${state})`;
      },
    };
  };
  let data = current();
  const graph = new FlameGraph(data, (zoom) => store.set({ zoom }));

  const select = (id: string, label: string, choices: Record<string, string>): HTMLSelectElement =>
    h("select", { id, "aria-label": label }, ...Object.entries(choices).map(([value, text]) => h("option", { value }, text)));
  const width = select("width", "Width", WIDTHS);
  const memory = memories.java && select("memory", "Memory", MEMORIES);
  const view = select("view", "View", { callers: "callers first", inverted: "inverted" });
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search functions ( / )",
    "aria-label": 'Search functions: text, "a whole name" or /a regular expression/',
    title: SYNTAX,
    autocomplete: "off",
    spellcheck: "false",
  });
  const matched = h("output", { id: "matched", for: "search" });
  const reset = h("button", { type: "button", id: "reset", title: "Esc" }, "Reset zoom and search");
  memory?.addEventListener("change", () => store.set({ part: memory.value as Memory, zoom: 0 }));
  width.addEventListener("change", () => store.set({ width: width.value as Width }));
  view.addEventListener("change", () => store.set({ view: view.value === "inverted" ? "inverted" : "callers", zoom: 0 }));
  search.addEventListener("input", () => store.set({ search: search.value }));
  reset.addEventListener("click", () => store.set({ search: "", zoom: 0 }));

  store.follow((state, changed) => {
    width.value = state.width;
    if (memory) {
      memory.value = memoryOf(state.part);
    }
    view.value = state.view === "inverted" ? "inverted" : "callers";
    if (search.value !== state.search) {
      search.value = state.search;
    }
    if (changed.has("width") || changed.has("view") || changed.has("part")) {
      data = current();
      graph.show(data);
    }
    graph.zoomTo(state.zoom);
    const pattern = compileSearch(state.search);
    search.setAttribute("aria-invalid", String(pattern === "invalid"));
    const hits = isMatcher(pattern) ? matches(functions, pattern) : undefined;
    graph.highlight(hits);
    const weight = hits && matchedWeight(data.tree, weights(state.width), hits, graph.zoom);
    matched.textContent =
      weight !== undefined ? `${formatShare(weight, data.values[graph.zoom]!)} matched (${format(weight)})` : pattern === "invalid" ? "not a regular expression" : "";
    reset.disabled = graph.zoom === 0 && state.search === "";
    store.set({ zoom: graph.zoom });
  });

  const legend = (["grown", "shrunk", "new", "same"] as const).map((change) => h("span", { class: `chip change-${change}` }, change));
  const element = section(
    "flame",
    "Where it changed",
    h("div", { class: "toolbar" }, memory && h("label", {}, "Memory: ", memory), h("label", {}, "Width: ", width), view, search, matched, reset),
    h("div", { class: "flame-head" }, h("p", { class: "legend", "aria-label": "Colours" }, ...legend)),
    graph.element,
    h("p", { class: "hint" }, "Colours show estimates; a deeper colour is a larger share that changed. The table lists the changes beyond chance. Click to zoom. ? lists the keys."),
  );
  return {
    element,
    find: (name, part) => {
      store.set({ part, search: wholeName(name), zoom: 0 });
      element.scrollIntoView({ block: "start" });
      search.focus({ preventScroll: true });
    },
    focusSearch: () => {
      search.focus();
      search.select();
    },
  };
}

/** By how much of the larger side it changed; dark text on it has a contrast above 4.5. */
export function changeColour(old: number, now: number): string {
  const part = (now - old) / Math.max(old, now, 1e-9);
  const dim = currentTheme() === "dark" ? 8 : 0;
  if (old <= 0 && now > 0) {
    return `hsl(212 78% ${74 - dim}%)`;
  }
  if (Math.abs(part) < SAME) {
    return `hsl(215 9% ${82 - dim}%)`;
  }
  const [hue, saturation] = part > 0 ? [4, 76] : [146, 46];
  const strength = Math.abs(part);
  return `hsl(${hue} ${Math.round(saturation * (0.5 + strength / 2))}% ${Math.round(86 - 16 * strength - dim)}%)`;
}
