/** The page of a diff: what changed in words, the sites, the differential flame graph. */

import { diffFlame } from "./diff-flame.ts";
import type { ChangedSites, DiffPayload, Side } from "../payload/diff-payload.ts";
import { diffSites, javaDiffSites } from "./diff-sites.ts";
import { h } from "../parts/dom.ts";
import { formatDuration, formatSize, sentence, useRateUnit, visible } from "../text/format.ts";
import { help } from "../parts/help.ts";
import { decode, keepInHash, Store } from "../model/state.ts";
import { switchTheme, themeToggle } from "../parts/theme.ts";

const DIFF_KEYS: [string, string][] = [
  ["/", 'search for functions in the flame graph: text, "a whole name" or /a regular expression/'],
  ["Esc", "undo search and zoom"],
  ["i", "inverted: what allocates at the top, its callers below"],
  ["t", "light or dark"],
  ["↑ ↓ ← →", "in the flame graph: caller, callee, neighbours"],
  ["Enter", "in the flame graph: zoom; Home: back to the zoomed frame"],
  ["?", "this list"],
];

export function renderDiff(payload: DiffPayload, root: HTMLElement): void {
  document.title = `${sideName(payload.new)} · offheap diff`;
  // What `--per second` asked for.
  useRateUnit({ seconds: 1, name: "s" });
  const store = new Store(decode(location.hash.slice(1)));
  const flame = diffFlame(payload, store);
  const { dialog, button } = help(DIFF_KEYS);
  // Mappings are address space, touched or not.
  const { change } = payload.malloc_bytes;
  const leaks = [...payload.sites, ...(payload.java_heap?.sites ?? [])].some((site) => site.leaks);
  const severity = leaks || (change.low ?? 0) > 0 ? "bad" : (change.high ?? 0) < 0 ? "good" : "info";
  root.replaceChildren(
    h(
      "header",
      {},
      h("span", { class: "brand" }, "offheap"),
      h("span", { class: "target" }, h("span", {}, "diff"), h("span", { class: "muted" }, `${sideName(payload.old)} → ${sideName(payload.new)}`)),
      button,
      themeToggle(),
    ),
    h(
      "section",
      { id: "answer", class: `answer ${severity}`, "aria-label": "Answer" },
      h("h1", {}, visible(payload.headline)),
      h("p", {}, counts(payload)),
      payload.java_heap && h("p", {}, h("strong", {}, visible(payload.java_heap.headline)), ` ${counts(payload.java_heap)}`),
      payload.hint && h("p", { class: "why" }, sentence(payload.hint)),
    ),
    h("dl", { class: "figures" }, side("Old", payload.old), side("New", payload.new)),
    diffSites(payload, store, (name) => flame.find(name, "native")),
    ...(payload.java_heap ? [javaDiffSites(payload, payload.java_heap, store, (name) => flame.find(name, "java"))] : []),
    flame.element,
    h("footer", {}, `Made by offheap ${payload.offheap_version}. This file is complete in itself and asks nothing of the network.`),
    dialog,
  );
  const acts: Record<string, () => void> = {
    "/": flame.focusSearch,
    "?": () => dialog.showModal(),
    Escape: () => store.set({ search: "", zoom: 0 }),
    i: () => store.set({ view: store.state.view === "inverted" ? "callers" : "inverted", zoom: 0 }),
    t: switchTheme,
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const typing = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    if (!dialog.open && !event.ctrlKey && !event.metaKey && !event.altKey && acts[key] && (!typing || key === "Escape")) {
      event.preventDefault();
      if (typing) {
        // As on the report's page: the next key is no text for the search.
        target.blur();
      }
      acts[key]();
    }
  });
  keepInHash(store);
}

function counts({ changed, by_chance: others }: ChangedSites): string {
  const some = (["new", "grown", "shrunk", "gone"] as const).filter((change) => changed[change]);
  const words = some.map((change) => `${changed[change]} ${change}`).join(", ");
  return `Sites: ${words || "none changed beyond chance"}${others ? `; ${others} within what chance explains` : ""}.`;
}

function sideName({ info, time }: Side): string {
  const name = visible(info.path.slice(info.path.lastIndexOf("/") + 1));
  return time === null ? name : `${name} at ${formatDuration(time)}`;
}

function side(label: string, each: Side): HTMLElement {
  const { info } = each;
  const java = info.java_version ? `Java ${visible(info.java_version)}` : "no JVM";
  const mode = info.mode === "exact" ? "every block" : `sampled every ${formatSize(info.interval_bytes)}${info.budget ? " or less" : ""}`;
  const when = each.time === null ? `recorded for ${formatDuration(each.seconds)}` : `at ${formatDuration(each.time)}`;
  return h(
    "div",
    {},
    h("dt", {}, `${label}: ${sideName(each)}`),
    h("dd", {}, [visible(info.main_class), java, `pid ${info.pid}`].filter(Boolean).join(", ")),
    h("dd", { class: "note" }, `${mode}, ${when}`),
  );
}
