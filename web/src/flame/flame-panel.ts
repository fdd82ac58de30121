/** The flame graph with its controls: measure, direction, search, zoom; and the sandwich of one function. */

import { h, nameOf, section } from "../parts/dom.ts";
import { FlameGraph, type FlameData } from "./flame.ts";
import { formatCount, formatDuration, formatShare } from "../text/format.ts";
import { matches, stackPaths } from "../model/functions.ts";
import { legend } from "../parts/kinds.ts";
import { formatAmount, MEANING, measureSwitch } from "../parts/measure-switch.ts";
import type { Model } from "../model/model.ts";
import { SandwichView } from "./sandwich-view.ts";
import { compileSearch, isMatcher, looksLikeExpression, SYNTAX, wholeName } from "../model/search.ts";
import { drawn as isDrawn, shownSource, sourceSwitch, sourceWith, type Kind } from "../panels/source.ts";
import { copyButton, stackLine } from "../parts/stack-list.ts";
import { sandwichOf, type State, type View } from "../model/state.ts";
import { buildTree, matchedWeight, sumTree, type CallTree } from "../model/tree.ts";

const VIEWS: Record<View, string> = {
  callers: "callers first",
  inverted: "inverted",
  sandwich: "one function's callers and callees",
};

export interface FlamePanel {
  element: HTMLElement;
  /** Searches for a name as it stands, in memory that was taken so, and brings the panel into view. */
  find(name: string, kind: Kind): void;
  /** Shows the function between its callers and its callees. */
  sandwich(name: string, kind: Kind): void;
  /** The name of the zoomed function, if any. */
  zoomed(): string | undefined;
  focusSearch(): void;
}

export function flamePanel(model: Model): FlamePanel {
  const { payload, store, functions } = model;
  const { stacks } = payload;
  if (stacks.frames.length === 0) {
    const element = section("flame", "Where it was allocated", h("p", { class: "empty" }, "No allocation was recorded."));
    const nothing = (): undefined => undefined;
    return { element, find: nothing, sandwich: nothing, zoomed: nothing, focusSearch: nothing };
  }

  const trees = new Map<boolean, CallTree>();
  const treeOf = (inverted: boolean): CallTree => {
    const tree = trees.get(inverted) ?? buildTree(stackPaths(stacks, functions, inverted));
    trees.set(inverted, tree);
    return tree;
  };

  const view = h(
    "select",
    { id: "view", "aria-label": "View" },
    ...Object.entries(VIEWS).map(([value, label]) => h("option", { value }, label)),
  );
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search functions ( / )",
    "aria-label": 'Search functions: text, "a whole name" or /a regular expression/',
    title: SYNTAX,
    "aria-describedby": "matched",
    autocomplete: "off",
    spellcheck: "false",
  });
  const matched = h("output", { id: "matched", for: "search" });
  const reset = h("button", { type: "button", id: "reset", title: "Esc" }, "Reset zoom and search");
  const note = h("p", { class: "hint", id: "not-drawn" });
  const meaning = h("p", { class: "hint" });
  const bar = h("p", { id: "zoomed", hidden: true });

  let weights = new Float64Array(0);
  const current = (state: State): FlameData => {
    const { scope } = model;
    const source = shownSource(state, payload);
    const all = scope.measure(state.measure, state.unit);
    const measured = all.map((weight, stack) => (isDrawn(source, stacks.kind[stack]!) ? weight : 0));
    weights = measured.map((weight) => Math.max(weight, 0));
    const shrunk = measured.reduce((sum, weight) => sum + Math.min(weight, 0), 0);
    const format = formatAmount(state.unit);
    const rest = source === "malloc" ? "mmap" : source === "mmap" ? "malloc" : undefined;
    const other = all.reduce((sum, weight, stack) => sum + (stacks.kind[stack] === rest ? Math.max(weight, 0) : 0), 0);
    note.textContent = [
      other > 0 && `Not drawn: ${format(other)} from ${rest}.`,
      source === "java" && scope.ranged && "The live Java objects are known at each collection, and count until the next one.",
      shrunk < 0 && `Not drawn: stacks that hold ${format(-shrunk)} less than at ${formatDuration(model.series.times[scope.base] ?? 0)}.`,
    ].filter(Boolean).join(" ");
    note.hidden = note.textContent === "";
    const tree = treeOf(state.view === "inverted");
    const since = state.measure === "grown" ? ` since ${formatDuration(model.series.times[scope.base] ?? 0)}` : "";
    return { tree, values: sumTree(tree, weights), functions, format, total: `all ${state.measure} ${state.unit}${source === "all" ? "" : source === "java" ? " of Java objects" : ` by ${source}`}${since}` };
  };
  let data = current(store.state);
  const graph = new FlameGraph(data, (zoom) => store.set({ zoom }));
  const middle = new SandwichView(model, () => weights);

  const highlight = ({ search: text, unit }: State): void => {
    const pattern = compileSearch(text);
    search.setAttribute("aria-invalid", String(pattern === "invalid"));
    if (!isMatcher(pattern)) {
      matched.textContent = pattern === "invalid" ? "not a regular expression" : "";
      graph.highlight(undefined);
      middle.highlight(undefined);
      return;
    }
    const hits = matches(functions, pattern, functions.module);
    const weight = matchedWeight(data.tree, weights, hits, graph.zoom);
    const whole = data.values[graph.zoom] ?? 0;
    const count = hits.reduce((sum, hit) => sum + hit, 0);
    matched.textContent = count === 0 && looksLikeExpression(text) ? `nothing is called so; /${text}/ is a regular expression` : `${formatShare(weight, whole)} matched (${formatAmount(unit)(weight)}, ${formatCount(count)} ${count === 1 ? "function" : "functions"})`;
    graph.highlight(hits);
    middle.highlight(hits);
  };
  const describeZoom = (): void => {
    const path = graph.path();
    const fn = path.at(-1);
    bar.hidden = fn === undefined || store.state.view === "sandwich";
    if (fn !== undefined) {
      const name = functions.name[fn] ?? "?";
      const whole = (action: string, change: () => void): HTMLElement => {
        const button = h("button", { type: "button" }, action);
        button.addEventListener("click", change);
        return button;
      };
      const outwards = store.state.view === "inverted" ? path : path.slice().reverse();
      const lines = outwards.map((each) =>
        stackLine({ name: functions.name[each]!, short: functions.short[each]!, kind: functions.kind[each]!, module: functions.module[each]!, file: functions.file[each]!, line: functions.lines[each]?.[0] ?? 0, inlined: false }),
      );
      bar.replaceChildren(
        h("span", {}, "Zoomed to ", nameOf(functions.short[fn] ?? "?", "", name), ", ", h("strong", {}, data.format(data.values[graph.zoom]!))),
        whole("Callers and callees", () => store.set(sandwichOf(name))),
        whole("Only stacks with it", () => store.set({ only: wholeName(name) })),
        copyButton("Copy path", lines.join("\n"), bar),
      );
    }
  };
  const draw = (state: State): void => {
    meaning.textContent = `${MEANING[state.measure]} A frame is as wide as what it holds. Click to zoom, click a frame above to zoom out. ? lists the keys.`;
    data = current(state);
    graph.show(data);
    graph.zoomTo(state.zoom);
    middle.show(state);
    describeZoom();
    highlight(state);
    // A frame of another tree, or one of which nothing is left.
    store.set({ zoom: graph.zoom });
  };
  view.addEventListener("change", () =>
    store.set(view.value === "sandwich" ? sandwichOf(store.state.fn) : { view: view.value as View, zoom: 0 }),
  );
  search.addEventListener("input", () => store.set({ search: search.value }));
  reset.addEventListener("click", () => store.set({ search: "", zoom: 0 }));
  let drawn = false;
  model.follow(() => drawn && draw(store.state));
  store.follow((state, changed) => {
    view.value = state.view;
    if (search.value !== state.search) {
      search.value = state.search;
    }
    graph.element.hidden = state.view === "sandwich";
    middle.element.hidden = state.view !== "sandwich";
    if (["source", "part", "measure", "unit", "view", "fn"].some((key) => changed.has(key as keyof State))) {
      draw(state);
    } else if (changed.has("zoom") || changed.has("search")) {
      graph.zoomTo(state.zoom);
      describeZoom();
      middle.searched(state);
      highlight(state);
    }
    drawn = true;
    reset.disabled = graph.zoom === 0 && state.search === "";
  });

  const element = section(
    "flame",
    "Where it was allocated",
    h("div", { class: "toolbar" }, measureSwitch(model), sourceSwitch(model), view, search, matched, reset),
    h("div", { class: "flame-head" }, legend(new Set(payload.frames.kind)), bar),
    graph.element,
    middle.element,
    note,
    meaning,
  );
  return {
    element,
    find: (name, kind) => {
      store.set({ source: sourceWith(kind, store.state, payload), search: wholeName(name), zoom: 0, view: "callers" });
      element.scrollIntoView({ block: "start" });
      search.focus({ preventScroll: true });
    },
    sandwich: (name, kind) => {
      store.set({ source: sourceWith(kind, store.state, payload), ...sandwichOf(name) });
      element.scrollIntoView({ block: "start" });
      view.focus({ preventScroll: true });
    },
    zoomed: () => {
      const fn = graph.path().at(-1);
      return fn === undefined ? undefined : functions.name[fn];
    },
    focusSearch: () => {
      search.focus();
      search.select();
    },
  };
}
