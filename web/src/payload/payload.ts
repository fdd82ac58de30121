/** The JSON that src/offheap/report/html/payload.py writes into the page: what it holds. */

export const SCHEMA = "offheap.report-page/4";

/** A unit of time, and how many seconds it has. */
export interface RateUnit {
  seconds: number;
  name: string;
}

export type FrameKind = "native" | "java" | "jvm" | "kernel" | "class" | "unknown";
export type Verdict = "leak" | "growing" | "steady" | "startup" | "freed" | "cannot tell yet";

/** A quantity with its 95 % interval; null stands for a number JSON cannot write: unbounded or unknown. */
export interface Estimate {
  estimate: number | null;
  low: number | null;
  high: number | null;
}

export interface Info {
  path: string;
  pid: number;
  mode: "sampled" | "exact";
  /** On average; under a budget, of the sizes that are sampled most rarely. */
  interval_bytes: number;
  budget: object | null;
  /** Seconds since the epoch, UTC. */
  start: number;
  duration_seconds: number;
  ended: "recording" | "detached" | "exited" | "killed";
  entry: "preload" | "agentpath" | "attach";
  java_version: string;
  main_class: string;
  command_line: string[];
  jvm_flags: string[];
  lost: Record<string, number>;
  joined: number;
  coverage: string[];
  probe_version: string;
}

/** Columns of equal length; `module` and `file` index `strings`. */
export interface FrameColumns {
  strings: string[];
  name: string[];
  /** The name as it is shown, C++ arguments folded: an index into `strings`, 0 where it is the name itself. */
  short: number[];
  kind: FrameKind[];
  module: number[];
  file: number[];
  line: number[];
  inlined: number[];
}

/** Columns of equal length; a stack's frames are indices into the frame columns, innermost first. */
export interface StackColumns {
  kind: ("malloc" | "mmap" | "java")[];
  frames: number[][];
  live_bytes: number[];
  live_blocks: number[];
  allocated_bytes: number[];
  allocated_blocks: number[];
}

/** What the levels of a quantity are multiples of, 2 ** exponent by stack, and of every cell the step from the cell before. */
export interface PackedLevels {
  exponent: number[];
  steps: number[];
}

/** Read by series.ts. `cells`: how many each stack has; `at`: of every cell, the step of its time's index. */
export interface SeriesColumns {
  time: number[];
  cells: number[];
  at: number[];
  live_bytes: PackedLevels;
  live_blocks: PackedLevels;
  allocated_bytes: PackedLevels;
  allocated_blocks: PackedLevels;
}

/** Who holds what at the end: entries by stack, at most a few a stack; `thread` indexes `name`. */
export interface ThreadColumns {
  name: string[];
  stack: number[];
  thread: number[];
  live_bytes: number[];
}

/** A frame that tells a suspect from others of its name: src/offheap/analysis/stacks/namesakes.py says how. */
export interface Mark {
  how: "caller" | "line" | "callee" | "name";
  frame: number;
}

/** Frames that a short view of a stack leaves out: from the first index to before the second; and what stands for them. */
export type Fold = [number, number, string];

export interface Suspect {
  rank: number;
  verdict: Verdict;
  confidence: number;
  kind: "malloc" | "mmap" | "java";
  why: string;
  /** What would tell a leak from garbage or a cache, and the setting that bounds it; "" where nothing is known. */
  next: string;
  /** Indices into the frame columns. */
  blamed: number;
  apart: Mark[];
  /** The library's outermost method that it called; null where it called none. */
  called: number | null;
  /** The name of an agent's callback that allocated, else "". */
  callback: string;
  /** What ran when that was called: `triggered by allocations in ...`, else "". */
  triggered: string;
  stack: number[];
  folds: Fold[];
  /** Indices into the stack columns. */
  stacks: number[];
  threads: string[];
  live_bytes: Estimate;
  live_blocks: Estimate;
  /** What of both the stack shown holds; null where that is all. */
  part_shown: { live_bytes: Estimate; live_blocks: Estimate } | null;
  old_bytes: Estimate;
  growth_bytes_per_second: Estimate;
  /** Bytes alive at the end, by the equal part of the recording they were born in. */
  births: number[];
  /** Standard errors at the series' times, of live bytes and of bytes allocated until then; empty when exact. */
  live_error: number[];
  allocated_error: number[];
}

/**
 * One entry a snapshot, by time in seconds since the start; rss_bytes is 0 where it could not be read.  Live bytes
 * are apart by malloc and mmap; `suspected` is the part in the sites that have the headline's verdict.
 */
export interface ProcessColumns {
  time: number[];
  rss_bytes: number[];
  malloc_bytes: number[];
  malloc_suspected: number[];
  mapped_bytes: number[];
  mapped_suspected: number[];
}

/** Who holds the process's RSS at each reading, empty without readings; `bytes` has a column for each owner. */
export interface OwnerColumns {
  time: number[];
  name: string[];
  bytes: number[][];
  rss_bytes: number[];
}

/** What the recording says as a whole: src/offheap/analysis/leaks/conclusion.py. */
export interface Conclusion {
  kind: "leak" | "growing" | "no leak" | "cannot tell yet";
  /** The index in `suspects` of the one that decided; null without one. */
  place: number | null;
  /** The sentence where none did. */
  without_suspect: string;
  /** What grows beside the suspect, and is not explained by it; "" if nothing does. */
  also: string;
  /** How much longer to record where it cannot be told; "" where it can. */
  advice: string;
}

/** Largest first; `objects` are live, `uncollected_bytes` of objects younger than the last collection. */
export interface ClassColumns {
  name: string[];
  live_bytes: Estimate[];
  live_objects: number[];
  uncollected_bytes: number[];
}

/** One entry a collection, by its begin; `heap_bytes`: in use after it, null where that is not known. */
export interface CollectionColumns {
  time: number[];
  kind: ("young" | "concurrent" | "full")[];
  live_bytes: number[];
  heap_bytes: (number | null)[];
}

/** The Java heap: what is live survived the last collection. */
export interface JavaHeap {
  /** Whether Java objects were followed; else `coverage` says why not. */
  followed: boolean;
  kind: Conclusion["kind"];
  answer: string;
  /** Which of native memory and the Java heap leaks; "" where neither does. */
  compared: string;
  live: Estimate;
  /** In use after the last collection; null where it is not known. */
  heap_bytes: number | null;
  /** Sentences: what is live beside the heap in use, why both differ, what is not yet collected. */
  books: string[];
  coverage: string[];
  /** The first of `suspect_count`, by rank. */
  suspects: Suspect[];
  suspect_count: number;
  classes: ClassColumns;
  class_count: number;
  after_collections: CollectionColumns;
}

export interface Payload {
  schema: typeof SCHEMA;
  offheap_version: string;
  info: Info;
  live_bytes: Estimate;
  live_blocks: Estimate;
  malloc_bytes: Estimate;
  /** In full from mmap to munmap, touched or not. */
  mapped_bytes: Estimate;
  /** The unit of every rate on the page. */
  rate_unit: RateUnit;
  /** Why the headline holds where RSS did not grow with it; "" where it did. */
  rss_note: string;
  conclusion: Conclusion;
  /** The limit of memory: the container's, or what was given; null where none is known. */
  limit_bytes: number | null;
  /** Until all leaks together have filled it, from the end on; `high` null: perhaps never. */
  seconds_to_limit: Estimate | null;
  frames: FrameColumns;
  stacks: StackColumns;
  series: SeriesColumns;
  threads: ThreadColumns;
  /** The first of `suspect_count`, by rank. */
  suspects: Suspect[];
  suspect_count: number;
  process: ProcessColumns;
  owners: OwnerColumns;
  /** null: Java objects were not requested. */
  java_heap: JavaHeap | null;
  /** A picture in SVG; null where nothing is live. */
  call_graph: string | null;
}

export interface Frame {
  name: string;
  /** The name, C++ arguments folded. */
  short: string;
  kind: FrameKind;
  module: string;
  file: string;
  line: number;
  inlined: boolean;
}

export function frameAt(frames: FrameColumns, index: number): Frame {
  const name = frames.name[index] ?? "?";
  return {
    name,
    short: frames.strings[frames.short[index] ?? 0] || name,
    kind: frames.kind[index] ?? "unknown",
    module: frames.strings[frames.module[index] ?? 0] ?? "",
    file: frames.strings[frames.file[index] ?? 0] ?? "",
    line: frames.line[index] ?? 0,
    inlined: frames.inlined[index] === 1,
  };
}

/** Whether two frames are the same place; a suspect's blamed frame may be judged of another kind. */
export function samePlace(frames: FrameColumns, a: number, b: number): boolean {
  return (
    frames.name[a] === frames.name[b] &&
    frames.module[a] === frames.module[b] &&
    frames.file[a] === frames.file[b] &&
    frames.line[a] === frames.line[b]
  );
}
