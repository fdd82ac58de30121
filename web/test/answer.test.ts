import { describe, expect, it } from "vitest";
import { headline } from "../src/panels/answer.ts";
import { byteRange, tickLabels } from "../src/parts/chart-parts.ts";
import { liveLines } from "../src/panels/charts.ts";
import type { Conclusion, Payload, Suspect, Verdict } from "../src/payload/payload.ts";

const estimate = (value: number) => ({ estimate: value, low: value, high: value });
const suspect = (verdict: Verdict, live: number): Suspect => ({
  rank: 1, verdict, confidence: 1, kind: "malloc", why: "", next: "", blamed: 0, apart: [], called: null, callback: "", triggered: "", folds: [], stack: [], stacks: [0], part_shown: null, threads: [], births: [], live_error: [], allocated_error: [],
  live_bytes: estimate(live), live_blocks: estimate(1), old_bytes: estimate(0), growth_bytes_per_second: estimate(0),
});
const payload = (kind: Conclusion["kind"], place: number | null, ...suspects: Suspect[]): Payload =>
  ({ suspects, conclusion: { kind, place, without_suspect: kind, advice: "" }, stacks: { frames: suspects.map(() => []) } }) as unknown as Payload;

describe("headline", () => {
  it.each<[string, Payload, string, string]>([
    ["leak", payload("leak", 1, suspect("leak", 1), suspect("leak", 2)), "bad", "Yes"],
    ["growing", payload("growing", 0, suspect("growing", 1), suspect("steady", 1)), "warn", "Native memory grows"],
    ["growth of the JVM's own", payload("no leak", null, suspect("growing", 5)), "good", "no leak"],
    ["what is excluded is too much", payload("cannot tell yet", null, suspect("steady", 9)), "info", "cannot tell yet"],
    ["nothing recorded", payload("cannot tell yet", null), "info", "Nothing was recorded"],
  ])("%s", (_name, given, severity, start) => {
    expect(headline(given).severity).toBe(severity);
    expect(headline(given).text.startsWith(start)).toBe(true);
    expect(headline(given).suspect).toBe(given.suspects[given.conclusion.place ?? -1]);
  });
});

describe("charts", () => {
  const process = (part: Partial<Payload["process"]>) => ({
    time: [0, 1], rss_bytes: [9e6, 9e6], malloc_bytes: [1e6, 9e6], malloc_suspected: [0, 0],
    mapped_bytes: [2e9, 2e9], mapped_suspected: [0, 0], ...part,
  });
  const drawn = (part: Partial<Payload["process"]>, verdict: Verdict = "leak") =>
    liveLines({ process: process(part), suspects: [suspect(verdict, 1)] }).map(({ id, title, bytes, part: its }) => [id, title, bytes.at(-1), its?.at(-1)]);

  it("start at zero, whatever they show", () => {
    expect(byteRange(100e6)[0]).toBe(0);
    expect(byteRange(2001e6)).toEqual([0, expect.any(Number)]);
    expect(byteRange(0)[1]).toBeGreaterThan(0);
    expect(byteRange(null)[0]).toBe(0);
  });

  it("have one unit on an axis", () => {
    const labels = (step: number, count = 4) => tickLabels(Array.from({ length: count }, (_tick, index) => index * step)).map((text) => text.replace("\u00a0", " "));
    expect(labels(500 * 1024 ** 2)).toEqual(["0", "500 MiB", "1000 MiB", "1500 MiB"]);
    expect(labels(1024)).toEqual(["0", "1 KiB", "2 KiB", "3 KiB"]);
    expect(labels(20)).toEqual(["0", "20 B", "40 B", "60 B"]);
  });

  it("show what malloc holds without address space, and what of it leaks", () => {
    expect(drawn({}, "steady")).toEqual([["live", "Live by malloc", 9e6, undefined]]);
    expect(drawn({ malloc_suspected: [0, 8e6] })).toEqual([["live", "Live by malloc", 9e6, 8e6]]);
  });

  it("show a small leak in a chart of its own", () => {
    expect(drawn({ malloc_suspected: [0, 2e5] })).toEqual([["live", "Live by malloc, what leaks", 2e5, undefined]]);
    expect(drawn({ malloc_suspected: [0, 2e5] }, "growing")[0]?.[1]).toBe("Live by malloc, what grows");
  });

  it("show mappings where one of them leaks", () => {
    expect(drawn({ mapped_suspected: [0, 1e9] })).toEqual([
      ["mapped", "Mapped address space", 2e9, 1e9],
      ["live", "Live by malloc", 9e6, undefined],
    ]);
  });
});
