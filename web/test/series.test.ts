import { describe, expect, it } from "vitest";
import { courseOf, levelsAt, nearest, readSeries } from "../src/model/series.ts";
import type { PackedLevels, SeriesColumns, StackColumns } from "../src/payload/payload.ts";

const packed = (exponent: number[], steps: number[]): PackedLevels => ({ exponent, steps });
/** Two stacks over five times: one at 0, 8, 8, 4, 4, the other at 0, 0, 3, 3, 9. */
const levels = packed([2, 0], [2, -1, 3, 6]);
const columns: SeriesColumns = {
  time: [0, 1, 2, 3, 4], cells: [2, 2], at: [1, 2, 2, 2],
  live_bytes: levels, live_blocks: levels, allocated_bytes: levels, allocated_blocks: levels,
};
const stacks = { frames: [[], []], live_bytes: [4.5, 9] } as unknown as StackColumns;

describe("a series", () => {
  const series = readSeries(columns, stacks);

  it("keeps a level until the next cell, and at the end is as exact as the totals", () => {
    const rows = [0, 1, 2, 3, 4].map((index) => Array.from(levelsAt(series, "live_bytes", index)));
    expect(rows).toEqual([[0, 0], [8, 0], [8, 3], [4, 3], [4.5, 9]]);
  });

  it("adds up stacks over time", () => {
    expect(Array.from(courseOf(series, "live_bytes", [0, 1]))).toEqual([0, 8, 11, 7, 13]);
    expect(Array.from(courseOf(series, "live_bytes", []))).toEqual([0, 0, 0, 0, 0]);
  });

  it("finds the nearest time", () => {
    expect([nearest(series.times, -1), nearest(series.times, 1.6), nearest(series.times, 99)]).toEqual([0, 2, 4]);
  });
});
