import { describe, expect, it } from "vitest";
import { calleeOf, headline } from "../src/answer.ts";
import { byteRange } from "../src/charts.ts";
import type { FrameColumns, Payload, Suspect, Verdict } from "../src/payload.ts";

const estimate = (value: number) => ({ estimate: value, low: value, high: value });
const suspect = (verdict: Verdict, live: number): Suspect => ({
  rank: 1, verdict, confidence: 1, kind: "malloc", why: "", blamed: 0, stack: [], stacks: [0], threads: [], births: [], live_error: [], allocated_error: [],
  live_bytes: estimate(live), live_blocks: estimate(1), old_bytes: estimate(0), growth_bytes_per_second: estimate(0),
});
const payload = (live: number, ...suspects: Suspect[]): Payload =>
  ({ suspects, live_bytes: estimate(live), stacks: { frames: suspects.map(() => []) } }) as unknown as Payload;

describe("headline", () => {
  it.each<[string, Payload, string]>([
    ["leak", payload(9, suspect("growing", 1), suspect("leak", 1)), "bad"],
    ["growing", payload(9, suspect("steady", 1), suspect("growing", 1)), "warn"],
    ["much that cannot be judged", payload(10, suspect("cannot tell yet", 5), suspect("steady", 5)), "info"],
    ["little that cannot be judged", payload(10, suspect("cannot tell yet", 1), suspect("steady", 9)), "good"],
    ["nothing recorded", payload(0), "info"],
  ])("%s", (_name, given, severity) => expect(headline(given).severity).toBe(severity));
});

describe("calleeOf", () => {
  const frames = { name: ["malloc", "init", "app"], module: [0, 0, 0], file: [0, 0, 0], line: [0, 0, 5] } as unknown as FrameColumns;

  it("is the frame below the blamed one, if there is one", () => {
    expect(calleeOf(frames, { ...suspect("leak", 1), stack: [0, 1, 2], blamed: 2 })).toBe(1);
    expect(calleeOf(frames, { ...suspect("leak", 1), stack: [0, 1, 2], blamed: 0 })).toBeUndefined();
    expect(calleeOf(frames, { ...suspect("leak", 1), stack: [0, 1], blamed: 2 })).toBeUndefined();
  });
});

describe("byteRange", () => {
  it("starts at zero unless the series is large and nearly flat, and then shows little as little", () => {
    expect(byteRange(10e6, 100e6)[0]).toBe(0);
    const [low, high] = byteRange(2000e6, 2001e6);
    expect(low).toBeGreaterThan(1500e6);
    expect(high - low).toBeGreaterThan(200e6);
    expect(byteRange(0, 0)).toEqual([0, expect.any(Number)]);
    expect(byteRange(null, null)[1]).toBeGreaterThan(0);
  });
});
