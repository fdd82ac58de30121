import { describe, expect, it } from "vitest";
import type { Payload, Suspect } from "../src/payload/payload.ts";
import { sourceAtFirst, sourceWith } from "../src/panels/source.ts";
import { START } from "../src/model/state.ts";

const payload = (first: Partial<Suspect> | undefined, mallocBytes = 5): Payload =>
  ({ suspects: first ? [first] : [], stacks: { kind: ["mmap", "malloc"], live_bytes: [1e9, mallocBytes] } }) as unknown as Payload;

describe("what the flame graph opens on", () => {
  it.each<[string, Payload, string]>([
    ["a leak of mappings", payload({ verdict: "leak", kind: "mmap" }), "mmap"],
    ["growing blocks", payload({ verdict: "growing", kind: "malloc" }, 0), "malloc"],
    ["a leak of Java objects", payload({ verdict: "leak", kind: "java" }), "all"],
    ["mappings that stay", payload({ verdict: "startup", kind: "mmap" }), "malloc"],
    ["nothing", payload(undefined), "malloc"],
    ["nothing but mappings", payload(undefined, 0), "all"],
  ])("%s", (_name, given, source) => expect(sourceAtFirst(given)).toBe(source));
});

describe("the choice that lets a kind be seen", () => {
  const given = payload({ verdict: "leak", kind: "malloc" });

  it.each([
    [undefined, "malloc", undefined],
    [undefined, "mmap", "mmap"],
    ["all", "mmap", "all"],
    ["mmap", "malloc", "malloc"],
    ["malloc", "java", "all"],
  ] as const)("%s chosen, %s wanted: %s", (source, kind, wanted) =>
    expect(sourceWith(kind, { ...START, source }, given)).toBe(wanted));
});
