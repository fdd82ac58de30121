/** By what the flame graph's memory was taken: blocks of malloc, mappings, or both in one graph; or Java objects. */

import { h } from "../parts/dom.ts";
import type { Model } from "../model/model.ts";
import type { Payload, Suspect } from "../payload/payload.ts";
import type { Part, Source, State } from "../model/state.ts";
import { SUSPICIOUS } from "./suspects.ts";

export type Kind = Suspect["kind"];

const LABELS: Record<Source, string> = { malloc: "by malloc", mmap: "by mmap", all: "by malloc and mmap", java: "by Java objects" };

/**
 * What the graph opens on: the kind of the first suspect, if that is one. In both together a JVM's reservations,
 * the Java heap's first of all, leave a narrow column to anything that leaks.
 */
export function sourceAtFirst({ suspects, stacks, java_heap: java }: Payload, part: Part = "both"): Source {
  const [first] = suspects;
  const [worst] = java?.suspects ?? [];
  if (part === "java" || (part === "both" && worst?.verdict === "leak" && first?.verdict !== "leak")) {
    return "java";
  }
  if (first && SUSPICIOUS.includes(first.verdict)) {
    return first.kind;
  }
  return stacks.kind.some((kind, stack) => kind === "malloc" && stacks.live_bytes[stack]! > 0) ? "malloc" : "all";
}

export function shownSource({ source, part }: State, payload: Payload): Source {
  const possible = source === undefined || part === "both" || (source === "java") === (part === "java");
  return possible && source ? source : sourceAtFirst(payload, part);
}

/** Whether memory of a kind is in the graph. */
export function drawn(source: Source, kind: Kind): boolean {
  return source === "all" ? kind !== "java" : kind === source;
}

/** The choice that lets memory of a kind be seen: the present one, if that does. */
export function sourceWith(kind: Kind, state: State, payload: Payload): Source | undefined {
  return drawn(shownSource(state, payload), kind) ? state.source : kind;
}

export function sourceSwitch({ payload, store }: Model): HTMLElement {
  const select = h(
    "select",
    { id: "source", "aria-label": "Taken by" },
    ...Object.entries(LABELS).filter(([value]) => value !== "java" || payload.java_heap?.followed).map(([value, label]) => h("option", { value }, label)),
  );
  select.addEventListener("change", () => {
    const source = select.value as Source;
    const { part } = store.state;
    // A choice that the page does not show brings its part along.
    store.set({ source, part: part === "both" || (source === "java") === (part === "java") ? part : "both" });
  });
  store.follow((state) => (select.value = shownSource(state, payload)));
  return select;
}
