/** What the chosen range and filters leave: of every stack, how much of it counts, and each measure of it. */

import type { Functions } from "./functions.ts";
import type { Estimate, Payload, Suspect } from "../payload/payload.ts";
import { compileSearch, isMatcher } from "./search.ts";
import { levelsAt, nearest, type Quantity, type Series } from "./series.ts";
import type { Measure, State, Unit } from "./state.ts";

/** The two ends of a 95 % interval lie so many standard errors off. */
const ERRORS = 1.96;

export class Scope {
  /** Indices of the range's ends in the series' times. */
  readonly start: number;
  readonly end: number;
  readonly ranged: boolean;
  readonly filtered: boolean;
  /** The share that the filters leave, by stack: from 0 to 1. */
  readonly share: Float64Array;
  private readonly levels = new Map<string, Float64Array>();

  constructor(
    readonly payload: Payload,
    readonly series: Series,
    functions: Functions,
    state: State,
  ) {
    const last = Math.max(series.times.length - 1, 0);
    this.ranged = state.range !== undefined && last > 0;
    const [from, to] = state.range ?? [0, 0];
    this.end = this.ranged ? Math.max(nearest(series.times, to), 1) : last;
    this.start = this.ranged ? Math.min(nearest(series.times, from), this.end - 1) : 0;
    this.share = shares(payload, functions, state);
    this.filtered = this.share.some((share) => share < 1);
  }

  get seconds(): [number, number] {
    const { times } = this.series;
    return [times[this.start] ?? 0, times[this.end] ?? this.payload.info.duration_seconds];
  }

  /**
   * Since when `grown` counts: over the whole recording from the first snapshot, not from the start,
   * when everything that is live had yet to come.
   */
  get base(): number {
    return this.ranged ? this.start : Math.min(1, this.end);
  }

  /**
   * By stack.  `grown` is below zero where it shrank.  `temporary` is what was allocated in the range
   * and matched by as much freed in it: whether the same blocks were, a stack's sums cannot tell.
   */
  measure(measure: Measure, unit: Unit): Float64Array {
    const live: Quantity = `live_${unit}`;
    const allocated: Quantity = `allocated_${unit}`;
    const difference = (quantity: Quantity, before: Float64Array): Float64Array =>
      this.at(quantity, this.end).map((level, stack) => level - before[stack]!);
    const share = (values: Float64Array): Float64Array => values.map((value, stack) => value * this.share[stack]!);
    switch (measure) {
      case "live":
        return share(this.at(live, this.end));
      case "grown":
        return share(difference(live, this.at(live, this.base)));
      case "allocated":
        return share(difference(allocated, this.before(allocated))).map((value) => Math.max(value, 0));
      case "temporary": {
        const grown = difference(live, this.before(live));
        return share(difference(allocated, this.before(allocated)).map((value, stack) => Math.max(Math.min(value, value - grown[stack]!), 0)));
      }
    }
  }

  /** Figures of one kind of memory, or of all native memory. */
  total(measure: Measure, unit: Unit, kind?: Suspect["kind"]): number {
    const { kind: kinds } = this.payload.stacks;
    const counts = (stack: number): boolean => (kind ? kinds[stack] === kind : kinds[stack] !== "java");
    return this.measure(measure, unit).reduce((sum, value, stack) => (counts(stack) ? sum + value : sum), 0);
  }

  /** Whether anything of a suspect is left. */
  holds(suspect: Suspect): boolean {
    return !this.filtered || suspect.stacks.some((stack) => this.share[stack]! > 0);
  }

  /** A suspect's figures; undefined where nothing of it is left. */
  figures(suspect: Suspect): { live: Estimate; blocks: Estimate; growth: Estimate } | undefined {
    if (!this.ranged && !this.filtered) {
      const { live_bytes: live, live_blocks: blocks, growth_bytes_per_second: growth } = suspect;
      return { live, blocks, growth };
    }
    const left = suspect.stacks.filter((stack) => this.share[stack]! > 0);
    if (left.length === 0) {
      return undefined;
    }
    const whole = suspect.stacks.every((stack) => this.share[stack] === 1);
    const sum = (values: Float64Array): number => left.reduce((total, stack) => total + values[stack]!, 0);
    const start = this.base;
    const seconds = (this.series.times[this.end] ?? 0) - (this.series.times[start] ?? 0);
    const live = sum(this.measure("live", "bytes"));
    const rate = seconds > 0 ? sum(this.measure("grown", "bytes")) / seconds : null;
    const errors = whole ? this.errors(suspect, start) : undefined;
    return {
      live: around(live, errors?.live, 0),
      blocks: around(sum(this.measure("live", "blocks")), undefined, 0),
      growth: rate === null ? { estimate: null, low: null, high: null } : around(rate, errors && errors.change / seconds, -Infinity),
    };
  }

  /**
   * Standard errors: of what is live at the end, and of its change, at most.  Blocks alive at both ends add
   * nothing to a change; how many those are, sums do not tell, but its variance is less than that of both
   * ends together, and than that of all that was allocated and freed in between.
   */
  private errors(suspect: Suspect, start: number): { live: number; change: number } | undefined {
    if (this.payload.info.mode === "exact" && suspect.kind !== "java") {
      return { live: 0, change: 0 };
    }
    const square = (errors: number[], index: number): number => (errors[index] ?? 0) ** 2;
    if (suspect.live_error.length === 0) {
      return undefined;
    }
    const [before, after] = [square(suspect.live_error, start), square(suspect.live_error, this.end)];
    const allocated = Math.max(square(suspect.allocated_error, this.end) - square(suspect.allocated_error, start), 0);
    const freed = Math.max(before - after + allocated, 0);
    return { live: Math.sqrt(after), change: Math.sqrt(Math.min(before + after, allocated + freed)) };
  }

  /** At the range's start; a recording without history began with nothing. */
  private before(quantity: Quantity): Float64Array {
    return this.series.times.length > 0 ? this.at(quantity, this.start) : new Float64Array(this.share.length);
  }

  private at(quantity: Quantity, index: number): Float64Array {
    const key = `${quantity} ${index}`;
    let levels = this.levels.get(key);
    if (!levels) {
      levels = index === 0 && this.series.times.length > 0 ? new Float64Array(this.share.length) : levelsAt(this.series, quantity, index);
      this.levels.set(key, levels);
    }
    return levels;
  }
}

function around(estimate: number, error: number | undefined, least: number): Estimate {
  return error === undefined
    ? { estimate, low: estimate, high: estimate }
    : { estimate, low: Math.max(estimate - ERRORS * error, least), high: estimate + ERRORS * error };
}

/** A pattern that is none leaves everything: it is marked where it is typed. */
function shares(payload: Payload, functions: Functions, state: State): Float64Array {
  const { stacks, threads } = payload;
  const share = new Float64Array(stacks.frames.length).fill(1);
  const only = (keep: (stack: number) => boolean): void => {
    share.forEach((_share, stack) => {
      if (!keep(stack)) {
        share[stack] = 0;
      }
    });
  };
  for (const [text, names, shorter] of [[state.module, functions.module, functions.module], [state.only, functions.name, functions.short]] as const) {
    const pattern = compileSearch(text);
    if (isMatcher(pattern)) {
      const hit = names.map((name, fn) => pattern.test(name) || pattern.test(shorter[fn]!));
      only((stack) => stacks.frames[stack]!.some((frame) => hit[functions.ofFrame[frame]!]));
    }
  }
  const pattern = compileSearch(state.thread);
  if (isMatcher(pattern)) {
    const hit = threads.name.map((name) => pattern.test(name));
    const [all, theirs] = [new Float64Array(share.length), new Float64Array(share.length)];
    threads.stack.forEach((stack, entry) => {
      all[stack] = all[stack]! + threads.live_bytes[entry]!;
      theirs[stack] = theirs[stack]! + (hit[threads.thread[entry]!] ? threads.live_bytes[entry]! : 0);
    });
    share.forEach((before, stack) => (share[stack] = all[stack]! > 0 ? before * (theirs[stack]! / all[stack]!) : 0));
  }
  return share;
}
