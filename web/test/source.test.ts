import { describe, expect, it } from "vitest";
import type { Payload, Suspect, Verdict } from "../src/payload/payload.ts";
import { drawn, shownSource, sourceAtFirst, sourceWith } from "../src/panels/source.ts";
import { START } from "../src/model/state.ts";

const payload = (first: Partial<Suspect> | undefined, mallocBytes = 5): Payload =>
  ({ suspects: first ? [first] : [], stacks: { kind: ["mmap", "malloc"], live_bytes: [1e9, mallocBytes] } }) as unknown as Payload;

const withJava = (first: Partial<Suspect>, verdict: Verdict): Payload => ({ ...payload(first), java_heap: { suspects: [{ verdict, kind: "java" }] } }) as unknown as Payload;

describe("what the flame graph opens on", () => {
  it.each<[string, Payload, string]>([
    ["a leak of mappings", payload({ verdict: "leak", kind: "mmap" }), "mmap"],
    ["growing blocks", payload({ verdict: "growing", kind: "malloc" }, 0), "malloc"],
    ["a leak of Java objects", withJava({ verdict: "steady", kind: "malloc" }, "leak"), "java"],
    ["leaks of both", withJava({ verdict: "leak", kind: "malloc" }, "leak"), "malloc"],
    ["a heap that does not leak", withJava({ verdict: "steady", kind: "malloc" }, "steady"), "malloc"],
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
    ["malloc", "java", "java"],
    ["all", "java", "java"],
  ] as const)("%s chosen, %s wanted: %s", (source, kind, wanted) =>
    expect(sourceWith(kind, { ...START, source }, given)).toBe(wanted));
});

describe("the part of the page that is shown", () => {
  const given = withJava({ verdict: "leak", kind: "malloc" }, "leak");

  it("decides what the graph can show", () => {
    expect(shownSource({ ...START, part: "java" }, given)).toBe("java");
    expect(shownSource({ ...START, part: "java", source: "mmap" }, given)).toBe("java");
    expect(shownSource({ ...START, part: "native", source: "java" }, given)).toBe("malloc");
    expect(shownSource({ ...START, part: "both", source: "java" }, given)).toBe("java");
  });

  it("never draws Java objects in one graph with native memory", () => {
    expect(drawn("all", "java")).toBe(false);
    expect(drawn("all", "mmap")).toBe(true);
    expect(drawn("java", "malloc")).toBe(false);
  });
});
