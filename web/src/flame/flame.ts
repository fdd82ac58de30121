/**
 * The flame graph, on a canvas: half a million nodes of 20,000 stacks stay quick, where one element
 * a node (d3-flame-graph was measured) takes a second to draw and as long for a search.
 * The root is at the top, or at the bottom when `upward`.  Mouse, touch and keyboard reach the same frames.
 */

import { h, nameOf } from "../parts/dom.ts";
import { formatShare, shortName, visible } from "../text/format.ts";
import type { Functions } from "../model/functions.ts";
import { fill } from "../parts/kinds.ts";
import { boxAt, layout, legibleRows, type Box, type Rows } from "../model/layout.ts";
import { colour, onThemeChange } from "../parts/theme.ts";
import { ancestorsOf, childrenOf, type CallTree } from "../model/tree.ts";

const ROW = 20;
const FONT_SIZE = 12;
const PADDING = 5;
/** Pixels under which a frame is not drawn by itself. */
const NARROWEST = 1;
/** And under which it is not worth a row. */
const LEGIBLE = 4;
/** Some browsers refuse a larger canvas. */
const MOST_PIXELS = 16e6;

export interface FlameData {
  tree: CallTree;
  values: Float64Array;
  functions: Functions;
  format: (value: number) => string;
  /** What the root is called. */
  total: string;
  /** The colour of a node, where it is not its function's kind that decides. */
  fill?: (node: number) => string;
  /** More to say of a node in its tooltip. */
  more?: (node: number) => string;
}

export class FlameGraph {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    "aria-label": "Flame graph: arrow keys move between frames, Enter zooms, Escape resets",
  });
  private readonly outline = h("div", { class: "flame-outline", hidden: true });
  private readonly tooltip = h("div", { class: "tooltip", role: "status", hidden: true });
  private rows: Rows = [];
  private zoomed = 0;
  private current = 0;
  private matched: Uint8Array | undefined;

  constructor(
    private data: FlameData,
    private readonly onZoom: (node: number) => void,
    private readonly upward = false,
  ) {
    this.element = h("div", { class: "flame" }, this.canvas, this.outline, this.tooltip);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.hide());
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.hide());
    new ResizeObserver(() => this.draw()).observe(this.element);
    onThemeChange(() => this.draw());
  }

  get zoom(): number {
    return this.zoomed;
  }

  /** A new tree (another direction) or new values of the same tree (another measure). */
  show(data: FlameData): void {
    // A node of another tree, or one that holds nothing now, is no place to stay.
    if (data.tree !== this.data.tree || !(data.values[this.zoomed]! > 0)) {
      this.zoomed = 0;
      this.current = 0;
    }
    this.data = data;
    this.hide();
    this.draw();
  }

  /** 1 for every function that stands out; undefined: all look alike. */
  highlight(matched: Uint8Array | undefined): void {
    this.matched = matched;
    this.draw();
  }

  /** Zooms without telling `onZoom`; a node that is none, or holds nothing, is not zoomed to. */
  zoomTo(node: number): void {
    const there = node === 0 || this.data.values[node]! > 0 ? node : 0;
    if (there !== this.zoomed) {
      this.zoomed = there;
      this.current = there;
      this.hide();
      this.draw();
    }
  }

  /** The zoomed frame's function (-1 for the root) and the functions from the root to it. */
  path(node = this.zoomed): number[] {
    const { tree } = this.data;
    return [node, ...ancestorsOf(tree, node)].reverse().slice(1).map((each) => tree.fn[each]!);
  }

  private choose(node: number): void {
    this.zoomTo(node);
    this.onZoom(this.zoomed);
  }

  /** Pixels from the top edge. */
  private top(row: number): number {
    return (this.upward ? Math.max(this.rows.length, 1) - 1 - row : row) * ROW;
  }

  private get width(): number {
    return this.element.clientWidth;
  }

  private draw(): void {
    const { tree, values } = this.data;
    const width = this.width;
    const context = this.canvas.getContext("2d");
    if (!width || !context) {
      return;
    }
    this.rows = legibleRows(layout(tree, values, this.zoomed, width, NARROWEST), LEGIBLE);
    const height = Math.max(this.rows.length, 1) * ROW;
    const scale = Math.min(devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / (width * height)));
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    context.scale(scale, scale);
    context.font = `${FONT_SIZE}px ${colour("--mono")}`;
    context.textBaseline = "middle";
    // One measurement serves all labels: the font is monospaced.
    const letter = context.measureText("m").width;
    const text = colour("--on-fill");
    const [paled, muted] = [colour("--text"), colour("--muted")];
    const rest = colour("--line");
    for (const box of this.rows.flat()) {
      const top = this.top(box.row);
      if (box.node < 0) {
        context.fillStyle = rest;
        context.fillRect(box.left, top, box.width - 0.5, ROW - 1);
        continue;
      }
      context.globalAlpha = this.strength(box.node);
      context.fillStyle = this.fillOf(box.node);
      context.fillRect(box.left, top, Math.max(box.width - 0.5, 0.5), ROW - 1);
      const letters = Math.floor((box.width - 2 * PADDING) / letter);
      if (letters >= 3) {
        // Faded boxes take on the page's colour, and so does what is written on them.
        context.fillStyle = context.globalAlpha === 1 ? text : context.globalAlpha > 0.5 ? paled : muted;
        context.globalAlpha = 1;
        context.fillText(this.label(box.node, letters), box.left + PADDING, top + ROW / 2);
      }
      context.globalAlpha = 1;
    }
  }

  private strength(node: number): number {
    const above = this.data.tree.depth[node]! < this.data.tree.depth[this.zoomed]!;
    const fn = this.data.tree.fn[node]!;
    const other = this.matched !== undefined && (fn < 0 || !this.matched[fn]);
    return other ? 0.22 : above ? 0.55 : 1;
  }

  private fillOf(node: number): string {
    if (this.data.fill) {
      return this.data.fill(node);
    }
    const fn = this.data.tree.fn[node]!;
    const { kind, name } = this.data.functions;
    return fn < 0 ? colour("--root-fill") : fill(kind[fn] ?? "unknown", name[fn] ?? "");
  }

  private name(node: number): string {
    const fn = this.data.tree.fn[node]!;
    return fn < 0 ? this.data.total : visible(this.data.functions.short[fn] ?? "?");
  }

  /** The longest form of the name that fits: Java's loses its packages, then its class, first. */
  private label(node: number, letters: number): string {
    const name = this.name(node);
    const java = ["java", "class"].includes(this.data.functions.kind[this.data.tree.fn[node]!] ?? "");
    const forms = java ? [name, shortName(name, 2), shortName(name, 1)] : [name];
    const fitting = forms.find((form) => form.length <= letters);
    return fitting ?? `${(forms.at(-1) ?? name).slice(0, letters - 1)}…`;
  }

  private boxUnder(event: MouseEvent): Box | undefined {
    const bounds = this.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - bounds.top) / ROW);
    return boxAt(this.rows, this.upward ? this.rows.length - 1 - row : row, event.clientX - bounds.left);
  }

  private point(event: MouseEvent): void {
    const box = this.boxUnder(event);
    this.canvas.style.cursor = box && box.node >= 0 ? "pointer" : "default";
    if (!box) {
      this.hide();
      return;
    }
    const bounds = this.canvas.getBoundingClientRect();
    this.describe(box, event.clientX - bounds.left + 12);
  }

  private click(event: MouseEvent): void {
    const box = this.boxUnder(event);
    if (box && box.node >= 0) {
      this.choose(box.node);
      // A finger does not hover: the tap that zooms also shows what it hit.
      this.point(event);
    }
  }

  private key(event: KeyboardEvent): void {
    const { tree, values } = this.data;
    const siblings = (node: number): number[] =>
      node === this.zoomed || node === 0
        ? [node]
        : childrenOf(tree, tree.parent[node]!).sort((a, b) => values[b]! - values[a]!);
    const beside = (step: number): number | undefined => {
      const list = siblings(this.current);
      return list[list.indexOf(this.current) + step];
    };
    const largestChild = (): number | undefined =>
      childrenOf(tree, this.current).sort((a, b) => values[b]! - values[a]!)[0];
    const moves: Record<string, () => number | undefined> = {
      [this.upward ? "ArrowUp" : "ArrowDown"]: largestChild,
      [this.upward ? "ArrowDown" : "ArrowUp"]: () => ancestorsOf(tree, this.current)[0],
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      Home: () => this.zoomed,
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(this.current);
      this.describeCurrent();
    } else if (moves[event.key]) {
      event.preventDefault();
      this.current = moves[event.key]?.() ?? this.current;
      this.describeCurrent();
    }
  }

  private describeCurrent(): void {
    const box = this.rows[this.data.tree.depth[this.current]!]?.find((each) => each.node === this.current);
    if (box) {
      this.describe(box, box.left + PADDING);
    }
  }

  /** Outlines a box and says what it is in the tooltip, below it, `left` pixels from the graph's edge. */
  private describe(box: Box, left: number): void {
    Object.assign(this.outline.style, {
      left: `${box.left}px`,
      top: `${this.top(box.row)}px`,
      width: `${Math.max(box.width, 2)}px`,
      height: `${ROW - 1}px`,
    });
    this.outline.hidden = false;
    this.tooltip.replaceChildren(...this.description(box));
    this.tooltip.hidden = false;
    const most = Math.max(this.width - this.tooltip.offsetWidth - 4, 0);
    const below = this.top(box.row) + ROW + 6;
    const bottom = this.canvas.getBoundingClientRect().top + below + this.tooltip.offsetHeight;
    const above = this.top(box.row) - this.tooltip.offsetHeight - 6;
    this.tooltip.style.left = `${Math.min(Math.max(left, 0), most)}px`;
    this.tooltip.style.top = `${bottom > innerHeight && above > 0 ? above : below}px`;
  }

  private description(box: Box): HTMLElement[] {
    const { tree, values, functions, format } = this.data;
    if (box.node < 0) {
      return [h("p", {}, "Callees too narrow to draw: zoom in to see them")];
    }
    const value = values[box.node]!;
    const parent = tree.parent[box.node]!;
    const shares = [`${formatShare(value, values[0]!)} of all`];
    if (this.zoomed !== 0 && box.node !== this.zoomed && values[this.zoomed]! >= value) {
      shares.push(`${formatShare(value, values[this.zoomed]!)} of the zoomed frame`);
    } else if (parent > 0) {
      shares.push(`${formatShare(value, values[parent]!)} of its parent`);
    }
    const fn = tree.fn[box.node]!;
    const where = fn < 0 ? "" : place(functions, fn);
    const more = this.data.more?.(box.node);
    return [
      h("p", {}, nameOf(fn < 0 ? this.name(box.node) : (functions.name[fn] ?? "?"))),
      h("p", {}, h("strong", {}, format(value)), ` · ${shares.join(" · ")}`),
      ...(more ? [h("p", {}, more)] : []),
      ...(where ? [h("p", { class: "muted" }, where)] : []),
    ];
  }

  private hide(): void {
    this.outline.hidden = true;
    this.tooltip.hidden = true;
  }
}

/** The native module, the file and up to five lines of a function. */
function place(functions: Functions, fn: number): string {
  const lines = functions.lines[fn] ?? [];
  const some = lines.slice(0, 5).join(", ") + (lines.length > 5 ? ", …" : "");
  const file = functions.file[fn] ?? "";
  const source = file && some ? `${file}:${some}` : file;
  const module = ["java", "class"].includes(functions.kind[fn] ?? "") ? "" : functions.module[fn];
  return [module, source].filter(Boolean).map((part) => visible(part ?? "")).join(" · ");
}
