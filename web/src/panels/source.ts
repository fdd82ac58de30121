/** By what the flame graph's memory was taken: blocks of malloc, mappings, or both in one graph. */

import { h } from "../parts/dom.ts";
import type { Model } from "../model/model.ts";
import type { Payload, Suspect } from "../payload/payload.ts";
import type { Source, State } from "../model/state.ts";
import { SUSPICIOUS } from "./suspects.ts";

export type Kind = Suspect["kind"];

const LABELS: Record<Source, string> = { malloc: "by malloc", mmap: "by mmap", all: "by malloc and mmap" };

/**
 * What the graph opens on: the kind of the first suspect, if that is one. In both together a JVM's reservations,
 * the Java heap's first of all, leave a narrow column to anything that leaks.
 */
export function sourceAtFirst({ suspects, stacks }: Payload): Source {
  const [first] = suspects;
  if (first && SUSPICIOUS.includes(first.verdict)) {
    return sourceOf(first.kind);
  }
  return stacks.kind.some((kind, stack) => kind === "malloc" && stacks.live_bytes[stack]! > 0) ? "malloc" : "all";
}

export function shownSource({ source }: State, payload: Payload): Source {
  return source ?? sourceAtFirst(payload);
}

/** The choice that lets memory of a kind be seen: the present one, if that does. */
export function sourceWith(kind: Kind, state: State, payload: Payload): Source | undefined {
  return ["all", kind].includes(shownSource(state, payload)) ? state.source : sourceOf(kind);
}

function sourceOf(kind: Kind): Source {
  return kind === "java" ? "all" : kind;
}

export function sourceSwitch({ payload, store }: Model): HTMLElement {
  const select = h(
    "select",
    { id: "source", "aria-label": "Taken by" },
    ...Object.entries(LABELS).map(([value, label]) => h("option", { value }, label)),
  );
  select.addEventListener("change", () => store.set({ source: select.value as Source }));
  store.follow((state) => (select.value = shownSource(state, payload)));
  return select;
}
