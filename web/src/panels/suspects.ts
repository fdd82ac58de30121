/** The table of suspects: one row each, which opens to the reason, the ages of its blocks and the whole stack. */

import { percent, SEVERITY } from "./answer.ts";
import { h, nameOf, section } from "../parts/dom.ts";
import { formatCount, formatInterval, formatPlace, formatRate, formatRateInterval, formatSize, sentence, visible } from "../text/format.ts";
import { ageHistogram, sparkline } from "../parts/graphics.ts";
import type { Model } from "../model/model.ts";
import { frameAt, type JavaHeap, type Payload, type Suspect, type Verdict } from "../payload/payload.ts";
import type { Scope } from "../model/scope.ts";
import { courseOf } from "../model/series.ts";
import { apart } from "../parts/namesakes.ts";
import { Pager, PAGE, pageOf } from "../parts/pager.ts";
import { stackList } from "../parts/stack-list.ts";

export const SUSPICIOUS: Verdict[] = ["leak", "growing"];
const FEW = 8;
const COLUMNS = ["#", "Verdict", "Allocated by", "Live over time", "Growth", "Live"];

/** What a suspect's buttons do in the flame graph. */
export interface Links {
  find(name: string, kind: Suspect["kind"]): void;
  sandwich(name: string, kind: Suspect["kind"]): void;
}

/** A table of sites, and the parts of the state that are its own. */
interface Table {
  /** Before the ids of its elements. */
  prefix: "" | "java-";
  title: string;
  nothing: string;
  page: "page" | "javaPage";
  open: "open" | "javaOpen";
  /** What a site allocates. */
  things: "blocks" | "objects";
  suspects: Suspect[];
  count: number;
}

/** The sites of native memory. */
export function suspects(model: Model, links: Links): HTMLElement {
  const { suspects: found, suspect_count: count } = model.payload;
  const nothing = "No allocation site is suspect: none keeps old blocks while it grows.";
  return sites(model, links, { prefix: "", title: "Suspects", nothing, page: "page", open: "open", things: "blocks", suspects: found, count });
}

/** The sites of Java objects. */
export function javaSuspects(model: Model, { suspects: found, suspect_count: count }: JavaHeap, links: Links): HTMLElement {
  const nothing = "No Java object was sampled.";
  return sites(model, links, { prefix: "java-", title: "Suspects in the Java heap", nothing, page: "javaPage", open: "javaOpen", things: "objects", suspects: found, count });
}

function sites(model: Model, links: Links, its: Table): HTMLElement {
  const { store } = model;
  if (its.suspects.length === 0) {
    return section(`${its.prefix}suspects`, its.title, h("p", { class: "empty" }, its.nothing));
  }
  const body = h("tbody");
  const made = new Map<Suspect, Row>();
  const rowOf = (suspect: Suspect): Row => {
    const row = made.get(suspect) ?? new Row(model, its, suspect, links);
    made.set(suspect, row);
    return row;
  };
  const [first, rest] = split(its.suspects);
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...[...COLUMNS, capital(its.things)].map((name) => h("th", { scope: "col" }, name)))),
    body,
  );
  const more = h("button", { type: "button", id: `${its.prefix}more` }, `Show the other sites: ${tally(rest)}`);
  more.addEventListener("click", () => store.set({ [its.page]: 1 }));
  const pager = new Pager("sites", (page) => {
    store.set({ [its.page]: page });
    if (element.getBoundingClientRect().top < 0) {
      element.scrollIntoView({ block: "start" });
    }
  });
  const left = its.count - its.suspects.length;
  const note = `The table has the first ${formatCount(its.suspects.length)} sites; the other ${formatCount(left)} are in the flame graph only.`;
  const scoped = h("p", { class: "hint", id: `${its.prefix}scoped` });
  const element = section(`${its.prefix}suspects`, its.title, scoped, table, pager.element, rest.length > 0 && more, left > 0 && h("p", { class: "hint", id: `${its.prefix}left-out` }, note));
  let rows: Row[] = [];
  const show = (): void => {
    const { scope } = model;
    const [page, open] = [store.state[its.page], store.state[its.open]];
    const folded = page === 0 && first.length <= PAGE;
    const wanted = folded ? first : its.suspects;
    const held = wanted.filter((suspect) => scope.holds(suspect));
    const ranks = opened(its, open);
    rows = pageOf(held, page).map(rowOf);
    rows.forEach((row) => {
      row.update(scope);
      row.open(ranks.includes(row.suspect.rank));
    });
    body.replaceChildren(...rows.flatMap((row) => row.elements));
    pager.show(held.length, page);
    more.hidden = !folded;
    table.hidden = held.length === 0;
    const hidden = wanted.length - held.length;
    scoped.textContent =
      scope.ranged || scope.filtered
        ? `Figures are of what the range and the filters leave${hidden ? `, which is nothing of ${formatCount(hidden)} ${hidden === 1 ? "site" : "sites"}` : ""}; verdicts are of the whole recording.`
        : "";
    scoped.hidden = scoped.textContent === "";
  };
  model.follow(show);
  store.follow((state, changed) => {
    const away = opened(its, state[its.open]).map((rank) => its.suspects.findIndex((each) => each.rank === rank)).find((index) => index >= first.length);
    if (state[its.page] === 0 && away !== undefined) {
      // An address that has a site open shows it.
      store.set({ [its.page]: Math.floor(away / PAGE) + 1 });
    } else if (changed.has(its.page)) {
      show();
    } else if (changed.has(its.open)) {
      const ranks = opened(its, state[its.open]);
      rows.forEach((row) => row.open(ranks.includes(row.suspect.rank)));
    }
  });
  return element;
}

/** The ranks that lie open: the worst one from the start, if it is bad. */
function opened({ suspects: [first] }: Table, open: readonly number[] | undefined): readonly number[] {
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
  private scope: Scope;

  constructor(
    private readonly model: Model,
    private readonly its: Table,
    readonly suspect: Suspect,
    private readonly links: Links,
  ) {
    const { payload, store } = model;
    this.scope = model.scope;
    const blamed = frameAt(payload.frames, suspect.blamed);
    const id = `${its.prefix}suspect-${suspect.rank}`;
    this.button = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": id }, nameOf(blamed.short, "", blamed.name));
    const through = suspect.called === null ? "" : frameAt(payload.frames, suspect.called).short;
    const innermost = suspect.stack[0] === undefined ? undefined : frameAt(payload.frames, suspect.stack[0]);
    const made = innermost?.kind === "class" && `new ${visible(innermost.name)}`;
    const place = [suspect.kind === "mmap" && "mmap", made, formatPlace(blamed), through && `through ${visible(through)}`, visible(suspect.callback), visible(suspect.triggered)].filter(Boolean).join(" · ");
    const told = apart(payload.frames, suspect.apart);
    this.detail = h("tr", { class: "detail", id, hidden: true }, h("td", { colspan: COLUMNS.length + 1 }));
    this.button.addEventListener("click", () => {
      const open = opened(its, store.state[its.open]);
      const { rank } = suspect;
      store.set({ [its.open]: open.includes(rank) ? open.filter((each) => each !== rank) : [...open, rank] });
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
      h("td", { class: "site" }, this.button, told && h("span", { class: "note" }, told), place && h("span", { class: "note" }, place)),
      ...this.cells,
    );
    this.elements = [this.line, this.detail];
  }

  update(scope: Scope): void {
    this.scope = scope;
    const figures = scope.figures(this.suspect);
    if (figures) {
      const { live, blocks, growth } = figures;
      const [course, ...numbers] = this.cells;
      course!.replaceChildren(...this.sparkline());
      fill(numbers[0]!, "Growth", formatRate(growth.estimate), formatRateInterval(growth));
      fill(numbers[1]!, "Live", formatSize(live.estimate), formatInterval(live));
      fill(numbers[2]!, capital(this.its.things), formatCount(blocks.estimate), formatInterval(blocks, formatCount));
    }
  }

  open(open: boolean): void {
    this.button.setAttribute("aria-expanded", String(open));
    this.detail.hidden = !open;
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
      h("p", { class: "note" }, `When its live ${this.its.things} were born: all along, if it leaks; only lately, if ${this.its.things} come and go.`),
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
  const { part_shown: part } = suspect;
  const blocks = { malloc: "blocks", mmap: "mappings", java: "objects" }[suspect.kind];
  const facts = [
    `${suspect.kind}, ${formatCount(suspect.stacks.length)} ${suspect.stacks.length === 1 ? "stack" : "stacks"}`,
    part && `the stack below holds ${formatSize(part.live_bytes.estimate)} in ${formatCount(part.live_blocks.estimate)} ${blocks}`,
    `old ${blocks} hold ${formatSize(suspect.old_bytes.estimate)}`,
    suspect.threads.length > 0 && `threads: ${some(suspect.threads)}`,
  ].filter(Boolean);
  const list = stackList(payload.frames, suspect.stack, suspect.blamed, suspect.folds);
  list.append(button("Find in the flame graph", links.find), button("Its callers and callees", links.sandwich));
  return [
    h("p", {}, sentence(suspect.why)),
    ...(suspect.next ? [h("p", { class: "next" }, `Next: ${suspect.next}.`)] : []),
    h("p", { class: "muted" }, facts.join(" · ")),
    h("div", { class: "ages-box" }),
    list,
  ];
}

function capital(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

function some(names: string[]): string {
  const shown = names.slice(0, 6).map(visible).join(", ");
  return names.length > 6 ? `${shown} and ${names.length - 6} more` : shown;
}
