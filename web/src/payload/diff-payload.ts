/** The JSON that src/offheap/report/html/diff_payload.py writes into the page of a diff. */

import type { Estimate, Fold, FrameColumns, Info, Mark } from "./payload.ts";

export const DIFF_SCHEMA = "offheap.diff-page/5";

export type Change = "new" | "grown" | "shrunk" | "gone" | "same";

export interface Difference {
  old: Estimate;
  new: Estimate;
  change: Estimate;
}

/** `time`: seconds since the recording started, if the side is a moment of one recording. */
export interface Side {
  time: number | null;
  seconds: number;
  info: Info;
}

export interface SiteChange {
  rank: number;
  change: Change;
  significant: boolean;
  kind: "malloc" | "mmap" | "java";
  /** Indices into the frame columns. */
  blamed: number;
  apart: Mark[];
  stack: number[];
  folds: Fold[];
  live_bytes: Difference;
  live_blocks: Difference;
  allocated_bytes: Difference;
  /** How it grows otherwise, in words; "" where that is chance, or the diff is of one recording. */
  grows: string;
  /** Whether it leaks in NEW alone. */
  leaks: boolean;
}

/** Columns of equal length: every distinct stack of either side, innermost frame first. */
export interface ChangedStacks {
  kind: ("malloc" | "mmap" | "java")[];
  frames: number[][];
  old_bytes: number[];
  new_bytes: number[];
}

/** The sites of native memory, or of the Java heap. */
export interface ChangedSites {
  headline: string;
  changed: Partial<Record<Change, number>>;
  by_chance: number;
  /** The first of `site_count` that are not the same. */
  sites: SiteChange[];
  site_count: number;
}

/** With the stacks of its sites. */
export interface ChangedMemory extends ChangedSites {
  stacks: ChangedStacks;
}

export interface DiffPayload extends ChangedMemory {
  schema: typeof DIFF_SCHEMA;
  offheap_version: string;
  hint: string;
  /** What figures are divided by; at two times of one recording only changes are. */
  unit: "" | "second" | "request";
  old: Side;
  new: Side;
  live_bytes: Difference;
  /** The part of `live_bytes` in malloc's blocks; what is mapped is the rest. */
  malloc_bytes: Difference;
  /** null unless both recordings have Java objects; `stacks` is without them. */
  java_heap: ChangedMemory | null;
  frames: FrameColumns;
}
