/** Callers above, one function, callees below; before a function is chosen, those in which most memory is. */

import { h, nameOf } from "../parts/dom.ts";
import { FlameGraph, type FlameData } from "./flame.ts";
import { formatShare, visible } from "../text/format.ts";
import { matches, stackPaths } from "../model/functions.ts";
import { kindChip } from "../parts/kinds.ts";
import { formatAmount } from "../parts/measure-switch.ts";
import type { Model } from "../model/model.ts";
import { functionNamed, inclusive, sandwich, type Sandwich } from "../model/sandwich.ts";
import { compileSearch, isMatcher } from "../model/search.ts";
import { sandwichOf, type State } from "../model/state.ts";
import { buildTree, sumTree } from "../model/tree.ts";

const MOST_FUNCTIONS = 40;

export class SandwichView {
  readonly element = h("div", { id: "sandwich", hidden: true });
  private readonly callers: FlameGraph;
  private readonly callees: FlameGraph;
  private readonly halves: HTMLElement;
  private readonly heading = h("p", { class: "between" });
  private readonly list = h("ol", { class: "functions" });
  private paths: Int32Array[] | undefined;
  private made: { fn: number; sandwich: Sandwich } | undefined;

  constructor(
    private readonly model: Model,
    private readonly weights: () => Float64Array,
  ) {
    const empty: FlameData = {
      tree: buildTree([]),
      values: new Float64Array(1),
      functions: model.functions,
      format: String,
      total: "",
    };
    this.callers = new FlameGraph(empty, () => undefined, true);
    this.callees = new FlameGraph(empty, () => undefined);
    this.halves = h("div", {}, this.callers.element, this.heading, this.callees.element);
    this.element.append(this.halves, this.list);
  }

  show(state: State): void {
    if (state.view !== "sandwich") {
      return;
    }
    const { functions, payload } = this.model;
    this.paths ??= stackPaths(payload.stacks, functions, false);
    const fn = state.fn ? functionNamed(functions, payload.stacks, state.fn) : -1;
    this.halves.hidden = fn < 0;
    this.list.hidden = fn >= 0;
    if (fn < 0) {
      this.choose(state);
    } else {
      this.between(fn, state);
    }
  }

  /** Applies another search to the list of functions to choose from. */
  searched(state: State): void {
    if (state.view === "sandwich" && !this.list.hidden) {
      this.choose(state);
    }
  }

  highlight(matched: Uint8Array | undefined): void {
    this.callers.highlight(matched);
    this.callees.highlight(matched);
  }

  private between(fn: number, state: State): void {
    if (this.made?.fn !== fn) {
      this.made = { fn, sandwich: sandwich(this.paths!, fn) };
    }
    const { callers, callees, inside } = this.made.sandwich;
    const { functions, store } = this.model;
    const weights = this.weights().map((weight, stack) => weight * inside[stack]!);
    const format = formatAmount(state.unit);
    const name = functions.name[fn]!;
    for (const [graph, tree] of [[this.callers, callers], [this.callees, callees]] as const) {
      graph.show({ tree, values: sumTree(tree, weights), functions, format, total: visible(functions.short[fn]!) });
    }
    const [held, all] = [weights, this.weights()].map((each) => each.reduce((sum, weight) => sum + weight, 0)) as [number, number];
    const other = h("button", { type: "button" }, "Another function");
    other.addEventListener("click", () => store.set({ fn: "" }));
    this.heading.replaceChildren(
      kindChip(functions.kind[fn]!),
      nameOf(functions.short[fn]!, "", name),
      h("strong", {}, format(held)),
      h("span", { class: "muted" }, `${formatShare(held, all)} of all; its callers above, its callees below`),
      other,
    );
  }

  private choose(state: State): void {
    const { functions, store } = this.model;
    const sums = inclusive(this.paths!, this.weights(), functions.name.length);
    const all = this.weights().reduce((sum, weight) => sum + weight, 0);
    const pattern = compileSearch(state.search);
    const wanted = isMatcher(pattern) ? matches(functions, pattern, functions.module) : undefined;
    const order = Array.from(sums.keys()).filter((fn) => sums[fn]! > 0 && (!wanted || wanted[fn])).sort((a, b) => sums[b]! - sums[a]!);
    const format = formatAmount(state.unit);
    this.list.replaceChildren(
      ...order.slice(0, MOST_FUNCTIONS).map((fn) => {
        const button = h("button", { type: "button", class: "link" }, nameOf(functions.short[fn]!, "", functions.name[fn]!));
        button.addEventListener("click", () => store.set(sandwichOf(functions.name[fn]!)));
        return h("li", {}, kindChip(functions.kind[fn]!), button, h("span", { class: "muted" }, `${format(sums[fn]!)}, ${formatShare(sums[fn]!, all)}`));
      }),
    );
  }
}
