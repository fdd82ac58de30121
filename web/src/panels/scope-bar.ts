/** The range and the filters that hold for the whole page, and what they leave in all. */

import { h } from "../parts/dom.ts";
import { formatDuration, formatSigned, formatSize, visible } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import type { Scope } from "../model/scope.ts";
import { compileSearch, isMatcher, SYNTAX } from "../model/search.ts";
import type { Part, State } from "../model/state.ts";

const MOST_SUGGESTIONS = 500;

export function scopeBar(model: Model): HTMLElement {
  const { store } = model;
  const clear = h("button", { type: "button", id: "clear", title: "Esc" }, "Show everything");
  clear.addEventListener("click", () => store.set({ range: undefined, thread: "", module: "", only: "" }));
  const totals = h("output", { id: "totals" });
  const bar = h(
    "section",
    { id: "scope", "aria-label": "Range and filters" },
    h(
      "div",
      { class: "toolbar" },
      pattern(model, "thread", "Thread", model.payload.threads.name),
      pattern(model, "module", "Module", nativeModules(model)),
      pattern(model, "only", "Stacks with function", []),
      clear,
    ),
    model.series.times.length > 2 && range(model),
    totals,
  );
  store.follow((state) => {
    clear.hidden = !state.range && !state.thread && !state.module && !state.only;
  });
  const show = (): void => {
    const { scope } = model;
    totals.textContent = sentence(scope, store.state.part);
    bar.classList.toggle("active", scope.ranged || scope.filtered);
  };
  model.follow(show);
  store.follow((_state, changed) => changed.has("part") && show());
  return bar;
}

/** `At 20.0 s: live 47.5 MiB. From 5.0 s to 20.0 s: grown by +12.0 MiB, 1.3 GiB allocated, 1.2 GiB of that freed.` */
function sentence(scope: Scope, part: Part): string {
  const kind = part === "java" ? "java" : undefined;
  const size = (measure: "allocated" | "temporary"): string => formatSize(scope.total(measure, "bytes", kind));
  const [from, to] = scope.seconds;
  const what = scope.filtered ? "What the filters leave: " : "";
  const lately = `${size("allocated")} allocated, ${size("temporary")} of that freed`;
  return scope.ranged
    ? `${what}${live(scope, part)} at ${formatDuration(to)}; since ${formatDuration(from)} ${formatSigned(scope.total("grown", "bytes", kind))}, ${lately}.`
    : `${what || "Whole recording: "}${live(scope, part)}; ${lately}.`;
}

/** Apart by kind: mapped address space beside malloc's blocks is no sum. */
function live(scope: Scope, part: Part): string {
  const objects = `${formatSize(scope.total("live", "bytes", "java"))} of Java objects live`;
  if (part === "java") {
    return objects;
  }
  const mapped = scope.total("live", "bytes", "mmap");
  const blocks = `${formatSize(scope.total("live", "bytes", "malloc"))} live by malloc`;
  const native = mapped > 0 ? `${blocks}, ${formatSize(mapped)} mapped` : blocks;
  return part === "both" && scope.total("live", "bytes", "java") > 0 ? `${native}, ${objects}` : native;
}

/** Two sliders over the snapshots: what dragging on a chart does, for keyboards and fingers. */
function range(model: Model): HTMLElement {
  const { store, series } = model;
  const last = series.times.length - 1;
  const slider = (id: string, label: string): HTMLInputElement =>
    h("input", { type: "range", id, min: 0, max: last, step: 1, "aria-label": label });
  const [from, to] = [slider("range-from", "From"), slider("range-to", "To")];
  const readout = h("output", { id: "range" });
  const whole = h("button", { type: "button" }, "Whole");
  const half = h("button", { type: "button" }, "Last half");
  const set = (start: number, end: number): void =>
    store.set({ range: start <= 0 && end >= last ? undefined : [series.times[start]!, series.times[end]!] });
  from.addEventListener("input", () => set(Math.min(from.valueAsNumber, to.valueAsNumber - 1), Math.max(to.valueAsNumber, 1)));
  to.addEventListener("input", () => set(Math.min(from.valueAsNumber, to.valueAsNumber - 1, last - 1), Math.max(to.valueAsNumber, 1)));
  whole.addEventListener("click", () => set(0, last));
  half.addEventListener("click", () => set(Math.floor(last / 2), last));
  model.follow((scope) => {
    const [start, end] = scope.ranged ? [scope.start, scope.end] : [0, last];
    [from.value, to.value] = [String(start), String(end)];
    const words = [start, end].map((index) => formatDuration(series.times[index]!));
    from.setAttribute("aria-valuetext", words[0]!);
    to.setAttribute("aria-valuetext", words[1]!);
    readout.textContent = words.join(" to ");
  });
  return h("div", { class: "toolbar range" }, h("span", {}, "Time"), from, to, readout, whole, half);
}

function pattern(model: Model, key: "thread" | "module" | "only", label: string, suggestions: string[]): HTMLElement {
  const list = suggestions.length > 0 && h("datalist", { id: `${key}-names` }, ...suggestions.filter(suggestible).slice(0, MOST_SUGGESTIONS).map((value) => h("option", { value })));
  const input = h("input", {
    type: "search",
    id: key,
    list: list ? `${key}-names` : undefined,
    placeholder: label,
    "aria-label": `${label}: text, "a whole name" or /a regular expression/`,
    title: SYNTAX,
    autocomplete: "off",
    spellcheck: "false",
  });
  input.addEventListener("input", () => model.store.set({ [key]: input.value } as Partial<State>));
  model.store.follow((state) => {
    if (input.value !== state[key]) {
      input.value = state[key];
    }
    input.setAttribute("aria-invalid", String(compileSearch(state[key]) === "invalid"));
  });
  return h("span", {}, input, list);
}

/** Whether the name, as it is typed, finds itself, and shows no other text than it has. */
function suggestible(name: string): boolean {
  const own = compileSearch(name);
  return isMatcher(own) && own.test(name) && visible(name) === name;
}

function nativeModules(model: Model): string[] {
  const { module, kind } = model.functions;
  return [...new Set(module.filter((name, fn) => name && !["java", "class"].includes(kind[fn] ?? "")))].sort();
}
