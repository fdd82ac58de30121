/** The sites that changed, those beyond chance first. */

import type { Change, ChangedSites, Difference, DiffPayload, SiteChange } from "../payload/diff-payload.ts";
import { h, nameOf, section } from "../parts/dom.ts";
import { formatCount, formatInterval, formatPlace, formatRate, formatRateInterval, formatSize, visible } from "../text/format.ts";
import { frameAt, type Estimate } from "../payload/payload.ts";
import { apart } from "../parts/namesakes.ts";
import { Pager, PAGE, pageOf } from "../parts/pager.ts";
import { stackList } from "../parts/stack-list.ts";
import type { Store } from "../model/state.ts";

const COLUMNS = ["#", "Change", "Allocated by", "Change of live bytes", "Old", "New"];
const COLOURS: Record<Change, string> = { new: "info", grown: "bad", shrunk: "good", gone: "good", same: "info" };

type Find = (name: string) => void;

/** Sites of native memory. */
export function diffSites(payload: DiffPayload, store: Store, find: Find): HTMLElement {
  return table(payload, payload, { prefix: "", title: "Sites", page: "page" }, store, find);
}

/** Sites of Java objects. */
export function javaDiffSites(payload: DiffPayload, heap: ChangedSites, store: Store, find: Find): HTMLElement {
  return table(payload, heap, { prefix: "java-", title: "Sites in the Java heap", page: "javaPage" }, store, find);
}

interface Its {
  /** Before the ids of its elements. */
  prefix: string;
  title: string;
  page: "page" | "javaPage";
}

function table(payload: DiffPayload, changed: ChangedSites, its: Its, store: Store, find: Find): HTMLElement {
  if (changed.sites.length === 0) {
    return section(`${its.prefix}sites`, its.title, h("p", { class: "empty" }, "No allocation site differs."));
  }
  const body = h("tbody");
  const [certain, chance] = [true, false].map((wanted) => changed.sites.filter(({ significant }) => significant === wanted)) as [SiteChange[], SiteChange[]];
  const made = new Map<SiteChange, HTMLElement[]>();
  const rowOf = (site: SiteChange): HTMLElement[] => {
    const elements = made.get(site) ?? row(payload, site, its.prefix, find);
    made.set(site, elements);
    return elements;
  };
  const none = h("p", { class: "empty" }, "No site changed by more than chance explains.");
  const element = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
    body,
  );
  const more = h("button", { type: "button", id: `${its.prefix}more` }, `Show ${formatCount(chance.length)} more, whose change chance explains`);
  more.addEventListener("click", () => store.set({ [its.page]: 1 }));
  const pager = new Pager("sites", (page) => {
    store.set({ [its.page]: page });
    if (whole.getBoundingClientRect().top < 0) {
      whole.scrollIntoView({ block: "start" });
    }
  });
  const left = changed.site_count - changed.sites.length;
  const note = h("p", { class: "hint", id: `${its.prefix}left-out` }, `The table has the first ${formatCount(changed.sites.length)} sites; the other ${formatCount(left)} are in the flame graph only.`);
  const whole = section(`${its.prefix}sites`, its.title, none, element, pager.element, chance.length > 0 && more, left > 0 && note);
  store.follow((state, keys) => {
    if (!keys.has(its.page)) {
      return;
    }
    const page = state[its.page];
    const folded = page === 0 && certain.length <= PAGE;
    const some = folded ? certain : [...certain, ...chance];
    body.replaceChildren(...pageOf(some, page).flatMap(rowOf));
    pager.show(some.length, page);
    more.hidden = !folded;
    element.hidden = some.length === 0;
    none.hidden = !folded || certain.length > 0;
  });
  body.querySelector<HTMLButtonElement>("button.open")?.click();
  return whole;
}

function row(payload: DiffPayload, site: SiteChange, prefix: string, find: Find): HTMLElement[] {
  const blamed = frameAt(payload.frames, site.blamed);
  const id = `${prefix}site-${site.rank}`;
  const open = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": id }, nameOf(blamed.short, "", blamed.name));
  const detail = h("tr", { class: "detail", id, hidden: true }, h("td", { colspan: COLUMNS.length }));
  open.addEventListener("click", () => {
    const cell = detail.firstElementChild;
    if (!cell?.childElementCount) {
      cell?.append(...details(payload, site, blamed.name, find));
    }
    detail.hidden = !detail.hidden;
    open.setAttribute("aria-expanded", String(!detail.hidden));
  });
  const { change, old, new: now } = site.live_bytes;
  const innermost = site.stack[0] === undefined ? undefined : frameAt(payload.frames, site.stack[0]);
  const made = innermost?.kind === "class" && `new ${visible(innermost.name)}`;
  const place = [made, formatPlace(blamed)].filter(Boolean).join(" · ");
  const told = apart(payload.frames, site.apart);
  // At two times of one recording, what is held at a moment is divided by nothing.
  const held = payload.old.time === null ? payload.unit : "";
  return [
    h(
      "tr",
      { class: "suspect" },
      h("td", { class: "rank" }, String(site.rank)),
      h(
        "td",
        { class: "verdict" },
        h("span", { class: `badge ${site.leaks ? "bad" : site.significant ? COLOURS[site.change] : "info"}` }, site.change),
        site.grows && h("span", { class: "note" }, site.grows),
        !site.significant && h("span", { class: "note" }, "chance explains it"),
      ),
      h("td", { class: "site" }, open, told && h("span", { class: "note" }, told), place && h("span", { class: "note" }, place)),
      quantity("Change", `${(change.estimate ?? 0) > 0 ? "+" : ""}${amount(change.estimate, payload.unit)}`, interval(change, payload.unit)),
      quantity("Old", amount(old.estimate, held), interval(old, held)),
      quantity("New", amount(now.estimate, held), interval(now, held)),
    ),
    detail,
  ];
}

function details(payload: DiffPayload, site: SiteChange, name: string, find: Find): HTMLElement[] {
  const held = payload.old.time === null ? payload.unit : "";
  const both = (label: string, { old, new: now }: Difference, format: (quantity: number | null) => string): string =>
    `${label} ${format(old.estimate)} → ${format(now.estimate)}`;
  const list = stackList(payload.frames, site.stack, site.blamed, site.folds);
  const button = h("button", { type: "button" }, "Find in the flame graph");
  button.addEventListener("click", () => find(name));
  list.append(button);
  const facts = [
    site.kind,
    both(`${site.kind === "java" ? "objects" : "blocks"} on all call paths`, site.live_blocks, formatCount),
    both("allocated", site.allocated_bytes, (quantity) => amount(quantity, held)),
  ];
  return [h("p", { class: "muted" }, facts.join(" · ")), list];
}

export function amount(quantity: number | null, unit: DiffPayload["unit"]): string {
  return unit === "second" ? formatRate(quantity) : `${formatSize(quantity)}${unit === "request" ? "/request" : ""}`;
}

function interval(quantity: Estimate, unit: DiffPayload["unit"]): string | null {
  return unit === "second" ? formatRateInterval(quantity) : formatInterval(quantity);
}

function quantity(label: string, value: string, note: string | null): HTMLElement {
  return h("td", { class: "number", "data-label": label }, value, note && h("span", { class: "note" }, note));
}
