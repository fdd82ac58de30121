/** The Java heap: whether it leaks, its books, what is live after each collection, its classes. */

import { figure } from "./charts.ts";
import { h, nameOf, section } from "../parts/dom.ts";
import { formatCount, formatInterval, formatSize, sentence, visible } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import type { Part } from "../model/state.ts";
import type { Conclusion, JavaHeap } from "../payload/payload.ts";
import type { Severity } from "./answer.ts";

const PARTS: Record<Part, string> = { both: "Both", native: "Native memory", java: "Java heap" };
const SEVERITY: Record<Conclusion["kind"], Severity> = { leak: "bad", growing: "warn", "no leak": "good", "cannot tell yet": "info" };
const HEADLINES: Record<Conclusion["kind"], string> = {
  leak: "Yes, it leaks Java objects.",
  growing: "The Java heap grows; it may be a leak.",
  "no leak": "The Java heap does not leak.",
  "cannot tell yet": "Whether the Java heap leaks is not known yet.",
};

/** The switch between both, native memory alone and the Java heap alone; and which of the two leaks. */
export function parts({ store }: Model, { compared }: JavaHeap, root: HTMLElement): HTMLElement {
  const buttons = (Object.keys(PARTS) as Part[]).map((part) => {
    const button = h("button", { type: "button", "data-part": part }, PARTS[part]);
    button.addEventListener("click", () => store.set({ part, source: undefined, zoom: 0 }));
    return button;
  });
  store.follow(({ part }) => {
    root.dataset["part"] = part;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset["part"] === part)));
  });
  return h("div", { class: "parts" }, h("div", { id: "parts", role: "group", "aria-label": "Memory shown" }, ...buttons), h("strong", { id: "compared" }, compared));
}

export function javaAnswer(heap: JavaHeap): HTMLElement {
  return h(
    "section",
    { id: "java-answer", class: `answer of-java ${SEVERITY[heap.kind]}`, "aria-label": "Answer on the Java heap" },
    h("h1", {}, HEADLINES[heap.kind]),
    h("p", {}, visible(heap.answer)),
    ...heap.books.map((text) => h("p", { class: "why" }, sentence(text))),
  );
}

export function javaHeap(model: Model, heap: JavaHeap): HTMLElement {
  const chart = overTime(model, heap);
  const about = section("java-heap", "Java heap", h("div", { class: "charts" }, chart, histogram(heap)));
  about.classList.add("of-java");
  return about;
}

/** The heap in use after each collection, and the part of it that sampled objects explain. */
function overTime(model: Model, { after_collections: after }: JavaHeap): HTMLElement {
  if (after.time.length === 0) {
    return h("p", { class: "empty" }, "No collection ran, so it is not known which objects are live.");
  }
  const known = after.heap_bytes.some((bytes) => bytes !== null);
  const title = known ? "Heap in use after each collection" : "Live after each collection, estimated";
  const part = known ? { part: after.live_bytes, partTitle: "live objects, estimated" } : {};
  return figure({ id: "java-heap", title, colour: known ? "held" : "live", time: after.time, bytes: known ? after.heap_bytes : after.live_bytes, ...part }, model);
}

function histogram({ classes, class_count: count }: JavaHeap): HTMLElement | undefined {
  const largest = Math.max(...classes.live_bytes.map(({ estimate }) => estimate ?? 0), 1);
  if (classes.name.length === 0) {
    return undefined;
  }
  const rows = classes.name.map((name, index) => {
    const live = classes.live_bytes[index]!;
    const bar = h("div", { class: "bar" });
    bar.style.width = `${(100 * (live.estimate ?? 0)) / largest}%`;
    const interval = formatInterval(live);
    const young = classes.uncollected_bytes[index]!;
    const note = [interval && `95 %: ${interval}`, young > 0 && `${formatSize(young)} younger than the last collection`].filter(Boolean).join("; ");
    return h(
      "tr",
      { title: note || undefined },
      h("td", { class: "number" }, formatSize(live.estimate)),
      h("td", { class: "number" }, formatCount(classes.live_objects[index]!)),
      h("td", { class: "bar-cell" }, nameOf(name), bar),
    );
  });
  const left = count - classes.name.length;
  return h(
    "figure",
    { id: "classes" },
    h("figcaption", {}, "Classes, by live bytes"),
    h("table", { class: "classes" }, h("thead", {}, h("tr", {}, ...["Live", "Objects", "Class"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows)),
    left > 0 && h("p", { class: "hint" }, `${formatCount(left)} more classes`),
  );
}
