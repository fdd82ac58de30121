/** The stacks over time, as src/offheap/report/html/payload_series.py packs them. */

import type { SeriesColumns, StackColumns } from "../payload/payload.ts";

export const QUANTITIES = ["live_bytes", "live_blocks", "allocated_bytes", "allocated_blocks"] as const;
export type Quantity = (typeof QUANTITIES)[number];

/** A cell is the state of a stack at one of the times, from which on it holds until the stack's next cell. */
export interface Series {
  /** Seconds since the start, ascending from 0; empty where there is no history. */
  times: number[];
  /** Stack s has the cells first[s] to first[s + 1]. */
  first: Int32Array;
  /** The index of its time, by cell. */
  at: Int32Array;
  levels: Record<Quantity, Float64Array>;
  /** By stack at the end, to the last digit. */
  end: Record<Quantity, number[]>;
}

export function readSeries(columns: SeriesColumns, stacks: StackColumns): Series {
  const count = stacks.frames.length;
  const first = new Int32Array(count + 1);
  for (let stack = 0; stack < count; stack++) {
    first[stack + 1] = first[stack]! + (columns.cells[stack] ?? 0);
  }
  const summed = (steps: number[], unit: (stack: number) => number): Float64Array => {
    const levels = new Float64Array(steps.length);
    for (let stack = 0; stack < count; stack++) {
      const scale = unit(stack);
      let level = 0;
      for (let cell = first[stack]!; cell < first[stack + 1]!; cell++) {
        level += steps[cell]!;
        levels[cell] = level * scale;
      }
    }
    return levels;
  };
  const levels = {} as Record<Quantity, Float64Array>;
  for (const quantity of QUANTITIES) {
    const { exponent, steps } = columns[quantity];
    levels[quantity] = summed(steps, (stack) => 2 ** exponent[stack]!);
  }
  return { times: columns.time, first, at: Int32Array.from(summed(columns.at, () => 1)), levels, end: stacks };
}

/** By stack, its level at the time of that index. */
export function levelsAt(series: Series, quantity: Quantity, index: number): Float64Array {
  if (index >= series.times.length - 1) {
    return Float64Array.from(series.end[quantity]);
  }
  const { first, at, levels } = series;
  const result = new Float64Array(first.length - 1);
  for (let stack = 0; stack < result.length; stack++) {
    for (let cell = first[stack + 1]! - 1; cell >= first[stack]!; cell--) {
      if (at[cell]! <= index) {
        result[stack] = levels[quantity][cell]!;
        break;
      }
    }
  }
  return result;
}

/** What some stacks held together at each of the times. */
export function courseOf(series: Series, quantity: Quantity, stacks: readonly number[]): Float64Array {
  const steps = new Float64Array(series.times.length);
  for (const stack of stacks) {
    let before = 0;
    for (let cell = series.first[stack]!; cell < series.first[stack + 1]!; cell++) {
      const level = series.levels[quantity][cell]!;
      steps[series.at[cell]!]! += level - before;
      before = level;
    }
  }
  let level = 0;
  return steps.map((step) => Math.max((level += step), 0));
}

/** The index of the time nearest to that many seconds. */
export function nearest(times: readonly number[], seconds: number): number {
  return times.reduce((best, time, index) => (Math.abs(time - seconds) < Math.abs(times[best]! - seconds) ? index : best), 0);
}
