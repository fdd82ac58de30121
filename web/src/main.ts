/** Puts the report together, answer first. */

import "./style/theme.css";
import "./style/page.css";
import "./style/answer.css";
import "./style/scope.css";
import "./style/suspects.css";
import "./style/charts.css";
import "./style/java-heap.css";
import "./style/flame.css";
import "./style/call-graph.css";
import "./style/coverage.css";
import "./style/narrow.css";
import "./style/print.css";
import { answer } from "./panels/answer.ts";
import { callGraph } from "./panels/call-graph.ts";
import { charts } from "./panels/charts.ts";
import { coverage, particulars } from "./panels/coverage.ts";
import { renderDiff } from "./diff/diff-page.ts";
import { DIFF_SCHEMA } from "./payload/diff-payload.ts";
import { h, nameOf } from "./parts/dom.ts";
import { javaAnswer, javaHeap, parts } from "./panels/java-heap.ts";
import { figures } from "./panels/figures.ts";
import { flamePanel, type FlamePanel } from "./flame/flame-panel.ts";
import { useRateUnit, visible } from "./text/format.ts";
import { help, KEYS } from "./parts/help.ts";
import { Model } from "./model/model.ts";
import type { Info, Payload } from "./payload/payload.ts";
import { readPayload } from "./payload/read-payload.ts";
import { scopeBar } from "./panels/scope-bar.ts";
import { decode, keepInHash, sandwichOf, Store, type Measure, type State } from "./model/state.ts";
import { javaSuspects, suspects } from "./panels/suspects.ts";
import { startTheme, switchTheme, themeToggle } from "./parts/theme.ts";

function header(info: Info, keys: HTMLElement): HTMLElement {
  const jvm = info.java_version ? `JDK ${visible(info.java_version)}` : "no JVM met: native frames only";
  return h(
    "header",
    {},
    h("span", { class: "brand" }, "offheap"),
    h(
      "span",
      { class: "target" },
      nameOf(title(info)),
      h("span", { class: "muted" }, `pid ${info.pid} · ${jvm}`),
    ),
    keys,
    themeToggle(),
  );
}

function title(info: Info): string {
  const program = info.command_line[0] ?? "";
  return visible(info.main_class || program.slice(program.lastIndexOf("/") + 1) || `process ${info.pid}`);
}

/** Hidden while the Java heap alone is shown. */
function native(element: HTMLElement): HTMLElement {
  element.classList.add("of-native");
  return element;
}

/** The measures in the order in which the key m goes through them. */
const ORDER: Measure[] = ["live", "grown", "allocated", "temporary"];

function shortcuts({ store, series, payload }: Model, panel: FlamePanel, keys: HTMLDialogElement): void {
  const last = series.times.length - 1;
  const acts: Record<string, (state: State) => void> = {
    "/": () => panel.focusSearch(),
    "?": () => keys.showModal(),
    Escape: (state) =>
      store.set(
        state.search || state.zoom
          ? { search: "", zoom: 0 }
          : { range: undefined, thread: "", module: "", only: "", view: "callers", fn: "" },
      ),
    m: ({ measure }) => {
      const order = last < 2 ? ORDER.filter((each) => each !== "grown") : ORDER;
      store.set({ measure: order[(order.indexOf(measure) + 1) % order.length]! });
    },
    b: ({ unit }) => store.set({ unit: unit === "bytes" ? "blocks" : "bytes" }),
    i: ({ view }) => store.set({ view: view === "inverted" ? "callers" : "inverted", zoom: 0 }),
    s: ({ view, fn }) => store.set(view === "sandwich" ? { view: "callers", zoom: 0 } : sandwichOf(panel.zoomed() ?? fn)),
    h: ({ range }) =>
      store.set({ range: range || last < 2 ? undefined : [series.times[Math.floor(last / 2)]!, series.times[last]!] }),
    t: switchTheme,
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const typing = (target instanceof HTMLInputElement && target.type === "search") || target instanceof HTMLSelectElement;
    if (keys.open || event.ctrlKey || event.metaKey || event.altKey || (typing && key !== "Escape") || !acts[key]) {
      return;
    }
    if (payload.stacks.frames.length > 0 || ["?", "t"].includes(key)) {
      event.preventDefault();
      if (typing) {
        // Else the next key would be typed into the search that was just undone.
        target.blur();
      }
      acts[key](store.state);
    }
  });
}

function render(payload: Payload, root: HTMLElement): void {
  document.title = `${title(payload.info)} · offheap`;
  useRateUnit(payload.rate_unit);
  const store = new Store(decode(location.hash.slice(1)));
  const model = new Model(payload, store);
  const panel = flamePanel(model);
  const { dialog, button } = help(KEYS);
  const java = payload.java_heap?.followed ? payload.java_heap : undefined;
  const [some, anchor] = [payload.stacks.frames.length > 0, location.hash];
  root.replaceChildren(
    header(payload.info, button),
    ...(java ? [parts(model, java, root)] : []),
    native(answer(payload)),
    ...(java ? [javaAnswer(java)] : []),
    figures(payload, model),
    native(charts(model)),
    ...(java ? [javaHeap(model, java)] : []),
    ...(some ? [scopeBar(model)] : []),
    native(suspects(model, panel)),
    ...(java ? [javaSuspects(model, java, panel)] : []),
    panel.element,
    ...(payload.call_graph ? [native(callGraph(payload.call_graph))] : []),
    coverage(payload),
    particulars(payload),
    h("footer", {}, `Made by offheap ${payload.offheap_version}. This file is complete in itself and asks nothing of the network.`),
    dialog,
  );
  shortcuts(model, panel, dialog);
  keepInHash(store);
  if (anchor.length > 1 && !anchor.includes("=")) {
    // The page was empty when the browser looked for it.
    document.getElementById(anchor.slice(1))?.scrollIntoView();
  }
}

async function start(): Promise<void> {
  startTheme();
  const root = document.getElementById("report");
  const element = document.getElementById("payload");
  if (!root || !element) {
    return;
  }
  try {
    const payload = await readPayload(element);
    if (payload.schema === DIFF_SCHEMA) {
      renderDiff(payload, root);
    } else {
      render(payload, root);
    }
    root.dataset["ready"] = String(Math.round(performance.now()));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    root.replaceChildren(
      h("section", { class: "answer warn" }, h("h1", {}, "This report cannot be shown."), h("p", {}, `${visible(reason)}. Make it anew with offheap report.`)),
    );
    root.dataset["ready"] = "failed";
  }
}

void start();
