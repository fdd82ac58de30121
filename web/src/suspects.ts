/** The table of suspects: one row each, which opens to the reason, the ages of its blocks and the whole stack. */

import { calleeOf, percent, SEVERITY } from "./answer.ts";
import { h, nameOf, section } from "./dom.ts";
import { formatCount, formatInterval, formatPlace, formatRate, formatRateInterval, formatSize, sentence, visible } from "./format.ts";
import { ageHistogram, sparkline } from "./graphics.ts";
import type { Model } from "./model.ts";
import { frameAt, type Payload, type Suspect, type Verdict } from "./payload.ts";
import type { Scope } from "./scope.ts";
import { courseOf } from "./series.ts";
import { stackList } from "./stack-list.ts";

export const SUSPICIOUS: Verdict[] = ["leak", "growing"];
const FEW = 8;
const COLUMNS = ["#", "Verdict", "Allocated by", "Live over time", "Growth", "Live", "Blocks"];

/** What a suspect's buttons do in the flame graph. */
export interface Links {
  find(name: string, kind: Suspect["kind"]): void;
  sandwich(name: string, kind: Suspect["kind"]): void;
}

export function suspects(model: Model, links: Links): HTMLElement {
  const { payload, store } = model;
  if (payload.suspects.length === 0) {
    const nothing = "No allocation site is suspect: none keeps old blocks while it grows.";
    return section("suspects", "Suspects", h("p", { class: "empty" }, nothing));
  }
  const body = h("tbody");
  const rows: Row[] = [];
  const show = (some: Suspect[]): void => {
    for (const suspect of some) {
      const row = new Row(model, suspect, links);
      row.update(model.scope);
      rows.push(row);
      body.append(...row.elements);
    }
  };
  const [first, rest] = split(payload.suspects);
  show(first);
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
    body,
  );
  const more = h("button", { type: "button", id: "more" }, `Show the other sites: ${tally(rest)}`);
  let all = false;
  const showRest = (): void => {
    if (!all) {
      all = true;
      more.hidden = true;
      show(rest);
      rows.forEach((row) => row.open(opened(payload, store.state.open).includes(row.suspect.rank)));
    }
  };
  more.addEventListener("click", showRest);
  const left = payload.suspect_count - payload.suspects.length;
  const note = `The other ${formatCount(left)} sites are in the flame graph only.`;
  const scoped = h("p", { class: "hint", id: "scoped" });
  const element = section("suspects", "Suspects", scoped, table, rest.length > 0 && more, left > 0 && h("p", { class: "hint" }, note));
  model.follow((scope) => {
    const hidden = rows.filter((row) => !row.update(scope)).length;
    scoped.textContent =
      scope.ranged || scope.filtered
        ? `Figures are of what the range and the filters leave${hidden ? `, which is nothing of ${formatCount(hidden)} ${hidden === 1 ? "site" : "sites"}` : ""}; verdicts are of the whole recording.`
        : "";
    scoped.hidden = scoped.textContent === "";
    table.hidden = hidden === rows.length;
  });
  store.follow(({ open }, changed) => {
    if (changed.has("open")) {
      const ranks = opened(payload, open);
      if (rest.some((suspect) => ranks.includes(suspect.rank))) {
        showRest();
      }
      rows.forEach((row) => row.open(ranks.includes(row.suspect.rank)));
    }
  });
  return element;
}

/** The ranks that lie open: the worst one from the start, if it is bad. */
function opened(payload: Payload, open: readonly number[] | undefined): readonly number[] {
  const first = payload.suspects[0];
  return open ?? (first && SUSPICIOUS.includes(first.verdict) ? [first.rank] : []);
}

/** What leaks or grows comes first; where nothing does, the few worst sites. */
function split(all: Suspect[]): [Suspect[], Suspect[]] {
  const bad = all.filter((suspect) => SUSPICIOUS.includes(suspect.verdict)).length;
  const cut = bad || FEW;
  return [all.slice(0, cut), all.slice(cut)];
}

/** `5 cannot tell yet, 4 steady`, in the order of first appearance. */
function tally(some: Suspect[]): string {
  const counts = new Map<Verdict, number>();
  for (const { verdict } of some) {
    counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  }
  return Array.from(counts, ([verdict, count]) => `${formatCount(count)} ${verdict}`).join(", ");
}

class Row {
  readonly elements: HTMLElement[];
  private readonly cells = ["course", "number", "number", "number"].map((name) => h("td", { class: name }));
  private readonly button: HTMLButtonElement;
  private readonly line: HTMLElement;
  private readonly detail: HTMLElement;
  private course: Float64Array | undefined;
  private shown = true;
  private scope: Scope;

  constructor(
    private readonly model: Model,
    readonly suspect: Suspect,
    private readonly links: Links,
  ) {
    const { payload, store } = model;
    this.scope = model.scope;
    const blamed = frameAt(payload.frames, suspect.blamed);
    const id = `suspect-${suspect.rank}`;
    this.button = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": id }, nameOf(blamed.name));
    const callee = calleeOf(payload.frames, suspect);
    const through = callee === undefined ? "" : frameAt(payload.frames, callee).name;
    const place = [formatPlace(blamed), through && `through ${visible(through)}`].filter(Boolean).join(" · ");
    this.detail = h("tr", { class: "detail", id, hidden: true }, h("td", { colspan: COLUMNS.length }));
    this.button.addEventListener("click", () => {
      const open = opened(payload, store.state.open);
      const { rank } = suspect;
      store.set({ open: open.includes(rank) ? open.filter((each) => each !== rank) : [...open, rank] });
    });
    this.line = h(
      "tr",
      { class: "suspect" },
      h("td", { class: "rank" }, String(suspect.rank)),
      h(
        "td",
        { class: "verdict" },
        h("span", { class: `badge ${SEVERITY[suspect.verdict]}` }, suspect.verdict),
        sure(suspect) && h("span", { class: "note" }, `${percent(suspect.confidence)} sure`),
      ),
      h("td", { class: "site" }, this.button, place && h("span", { class: "note" }, place)),
      ...this.cells,
    );
    this.elements = [this.line, this.detail];
  }

  /** Whether anything of the suspect is in the scope. */
  update(scope: Scope): boolean {
    this.scope = scope;
    const figures = scope.figures(this.suspect);
    this.shown = figures !== undefined;
    this.line.hidden = !this.shown;
    if (figures) {
      const { live, blocks, growth } = figures;
      const [course, ...numbers] = this.cells;
      course!.replaceChildren(...this.sparkline());
      fill(numbers[0]!, "Growth", formatRate(growth.estimate), formatRateInterval(growth));
      fill(numbers[1]!, "Live", formatSize(live.estimate), formatInterval(live));
      fill(numbers[2]!, "Blocks", formatCount(blocks.estimate), formatInterval(blocks, formatCount));
    }
    this.open(this.button.getAttribute("aria-expanded") === "true");
    return this.shown;
  }

  open(open: boolean): void {
    this.button.setAttribute("aria-expanded", String(open));
    this.detail.hidden = !open || !this.shown;
    if (!this.detail.hidden) {
      // Built when first opened: thousands of closed rows cost nothing.
      const cell = this.detail.firstElementChild!;
      if (!cell.childElementCount) {
        cell.append(...details(this.model.payload, this.suspect, this.links));
      }
      cell.querySelector(".ages-box")?.replaceChildren(...this.ages());
    }
  }

  private sparkline(): Node[] {
    const { series } = this.model;
    if (series.times.length < 3) {
      return [];
    }
    this.course ??= courseOf(series, "live_bytes", this.suspect.stacks);
    const words = `live bytes from ${formatSize(this.course[1] ?? 0)} to ${formatSize(this.course.at(-1) ?? 0)}`;
    return [sparkline(series.times, this.course, this.scope.ranged ? this.scope.seconds : [0, 0], words)];
  }

  private ages(): Node[] {
    const { births } = this.suspect;
    if (!births.some((bytes) => bytes > 0)) {
      return [];
    }
    const { payload } = this.model;
    return [
      h("p", { class: "note" }, "When its live blocks were born: all along, if it leaks; only lately, if blocks come and go."),
      ageHistogram(births, payload.info.duration_seconds, this.scope.ranged ? this.scope.seconds : undefined),
    ];
  }
}

/** Whether there is a confidence to show: of what cannot be told there is none, and 0 % says less than nothing. */
export function sure({ verdict, confidence }: Suspect): boolean {
  return verdict !== "cannot tell yet" && Math.round(100 * confidence) > 0;
}

function fill(cell: HTMLElement, label: string, value: string, interval: string | null): void {
  cell.dataset["label"] = label;
  cell.replaceChildren(value, ...(interval ? [h("span", { class: "note" }, interval)] : []));
}

function details(payload: Payload, suspect: Suspect, links: Links): HTMLElement[] {
  const { name } = frameAt(payload.frames, suspect.blamed);
  const button = (text: string, act: Links["find"]): HTMLElement => {
    const element = h("button", { type: "button" }, text);
    element.addEventListener("click", () => act(name, suspect.kind));
    return element;
  };
  const facts = [
    `${suspect.kind}, ${formatCount(suspect.stacks.length)} ${suspect.stacks.length === 1 ? "stack" : "stacks"}`,
    `old blocks hold ${formatSize(suspect.old_bytes.estimate)}`,
    suspect.threads.length > 0 && `threads: ${some(suspect.threads)}`,
  ].filter(Boolean);
  const list = stackList(payload.frames, suspect.stack, suspect.blamed);
  list.append(button("Find in the flame graph", links.find), button("Its callers and callees", links.sandwich));
  return [
    h("p", {}, sentence(suspect.why)),
    h("p", { class: "muted" }, facts.join(" · ")),
    h("div", { class: "ages-box" }),
    list,
  ];
}

function some(names: string[]): string {
  const shown = names.slice(0, 6).map(visible).join(", ");
  return names.length > 6 ? `${shown} and ${names.length - 6} more` : shown;
}
