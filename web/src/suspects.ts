/** The table of suspects: one row each, which opens to the reason and the whole stack. */

import { calleeOf, percent, SEVERITY } from "./answer.ts";
import { h, nameOf, section } from "./dom.ts";
import { formatCount, formatInterval, formatPlace, formatRate, formatRateInterval, formatSize, sentence, visible } from "./format.ts";
import { frameAt, type Payload, type Suspect, type Verdict } from "./payload.ts";
import { stackList } from "./stack-list.ts";

const SUSPICIOUS: Verdict[] = ["leak", "growing"];
const FEW = 8;
const COLUMNS = ["#", "Verdict", "Allocated by", "Growth", "Live", "Blocks"];

/** `find` shows a function of the given name in the flame graph. */
export function suspects(payload: Payload, find: (name: string) => void): HTMLElement {
  if (payload.suspects.length === 0) {
    const nothing = "No allocation site is suspect: none keeps old blocks while it grows.";
    return section("suspects", "Suspects", h("p", { class: "empty" }, nothing));
  }
  const body = h("tbody");
  const show = (some: Suspect[]): void => {
    body.append(...some.flatMap((suspect) => row(payload, suspect, find)));
  };
  const [first, rest] = split(payload.suspects);
  show(first);
  if (first[0] && SUSPICIOUS.includes(first[0].verdict)) {
    body.querySelector<HTMLButtonElement>("button.open")?.click();
  }
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
    body,
  );
  const more = h("button", { type: "button", id: "more" }, `Show the other sites: ${tally(rest)}`);
  more.addEventListener("click", () => {
    show(rest);
    more.remove();
  });
  const left = payload.suspect_count - payload.suspects.length;
  const note = `The other ${formatCount(left)} sites are in the flame graph only.`;
  return section("suspects", "Suspects", table, rest.length > 0 && more, left > 0 && h("p", { class: "hint" }, note));
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

function row(payload: Payload, suspect: Suspect, find: (name: string) => void): HTMLElement[] {
  const blamed = frameAt(payload.frames, suspect.blamed);
  const id = `suspect-${suspect.rank}`;
  const open = h(
    "button",
    { type: "button", class: "open", "aria-expanded": "false", "aria-controls": id },
    nameOf(blamed.name),
  );
  const callee = calleeOf(payload.frames, suspect);
  const through = callee === undefined ? "" : frameAt(payload.frames, callee).name;
  const place = [formatPlace(blamed), through && `through ${visible(through)}`].filter(Boolean).join(" · ");
  const detail = h(
    "tr",
    { class: "detail", id, hidden: true },
    h("td", { colspan: COLUMNS.length }),
  );
  const cell = detail.firstElementChild;
  open.addEventListener("click", () => {
    // Built when first opened: thousands of closed rows cost nothing.
    if (!cell?.childElementCount) {
      cell?.append(...details(payload, suspect, blamed.name, find));
    }
    detail.hidden = !detail.hidden;
    open.setAttribute("aria-expanded", String(!detail.hidden));
  });
  return [
    h(
      "tr",
      { class: "suspect" },
      h("td", { class: "rank" }, String(suspect.rank)),
      h(
        "td",
        { class: "verdict" },
        h("span", { class: `badge ${SEVERITY[suspect.verdict]}` }, suspect.verdict),
        sure(suspect) && h("span", { class: "note" }, `${percent(suspect.confidence)} sure`),
      ),
      h("td", { class: "site" }, open, place && h("span", { class: "note" }, place)),
      quantity("Growth", formatRate(suspect.growth_bytes_per_second.estimate), formatRateInterval(suspect.growth_bytes_per_second)),
      quantity("Live", formatSize(suspect.live_bytes.estimate), formatInterval(suspect.live_bytes)),
      quantity("Blocks", formatCount(suspect.live_blocks.estimate), formatInterval(suspect.live_blocks, formatCount)),
    ),
    detail,
  ];
}

/** Whether there is a confidence to show: of what cannot be told there is none, and 0 % says less than nothing. */
export function sure({ verdict, confidence }: Suspect): boolean {
  return verdict !== "cannot tell yet" && Math.round(100 * confidence) > 0;
}

function quantity(label: string, value: string, interval: string | null): HTMLElement {
  return h("td", { class: "number", "data-label": label }, value, interval && h("span", { class: "note" }, interval));
}

function details(payload: Payload, suspect: Suspect, name: string, find: (name: string) => void): HTMLElement[] {
  const graph = h("button", { type: "button" }, "Find in the flame graph");
  graph.addEventListener("click", () => find(name));
  const facts = [
    `${suspect.kind}, ${formatCount(suspect.stack_count)} ${suspect.stack_count === 1 ? "stack" : "stacks"}`,
    `old blocks hold ${formatSize(suspect.old_bytes.estimate)}`,
    suspect.threads.length > 0 && `threads: ${some(suspect.threads)}`,
  ].filter(Boolean);
  const list = stackList(payload.frames, suspect.stack, suspect.blamed);
  list.append(graph);
  return [
    h("p", {}, sentence(suspect.why)),
    h("p", { class: "muted" }, facts.join(" · ")),
    list,
  ];
}

function some(names: string[]): string {
  const shown = names.slice(0, 6).map(visible).join(", ");
  return names.length > 6 ? `${shown} and ${names.length - 6} more` : shown;
}
