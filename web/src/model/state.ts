/** What the reader has chosen: one value that every part of the page follows, and that the address's hash keeps. */

export type Measure = "live" | "grown" | "allocated" | "temporary";
export type Unit = "bytes" | "blocks";
/** `all`: native memory, by whatever call. */
export type Source = "all" | "malloc" | "mmap" | "java";
/** Which part of the page is shown. */
export type Part = "both" | "native" | "java";
/** What a frame of the differential flame graph is as wide as. */
export type Width = "change" | "new" | "old";
export type View = "callers" | "inverted" | "sandwich";

export interface State {
  part: Part;
  /** Seconds since the start; undefined: the whole recording. */
  range: readonly [number, number] | undefined;
  /** By what the flame graph's memory was taken; undefined: as the page opens it. */
  source: Source | undefined;
  /** As search.ts reads them, "" for all: names of threads, modules with a frame in the stack, functions in it. */
  thread: string;
  module: string;
  only: string;
  measure: Measure;
  unit: Unit;
  view: View;
  width: Width;
  /** The function between the two halves of the sandwich, "" for none yet. */
  fn: string;
  search: string;
  /** A node of the view's call tree. */
  zoom: number;
  /** Page of the table of sites, from 1; 0: only what the report opens with. */
  page: number;
  /** Ranks of the suspects that lie open; undefined: as the page opens them. */
  open: readonly number[] | undefined;
  /** The same of the table of the Java heap's sites. */
  javaPage: number;
  javaOpen: readonly number[] | undefined;
}

export const START: State = {
  part: "both",
  range: undefined,
  source: undefined,
  thread: "",
  module: "",
  only: "",
  measure: "live",
  unit: "bytes",
  view: "callers",
  width: "change",
  fn: "",
  search: "",
  zoom: 0,
  page: 0,
  open: undefined,
  javaPage: 0,
  javaOpen: undefined,
};

/** Shows a function between its callers and its callees; ends the search, which would only dim them. */
export function sandwichOf(fn: string): Partial<State> {
  return { view: "sandwich", fn, zoom: 0, search: "" };
}

const SOURCES: readonly Source[] = ["all", "malloc", "mmap", "java"];
const CHOICES: { [Key in "part" | "measure" | "unit" | "view" | "width"]: readonly State[Key][] } = {
  part: ["both", "native", "java"],
  measure: ["live", "grown", "allocated", "temporary"],
  unit: ["bytes", "blocks"],
  view: ["callers", "inverted", "sandwich"],
  width: ["change", "new", "old"],
};
const NUMBERS = ["zoom", "page", "javaPage"] as const;
const LISTS = ["open", "javaOpen"] as const;
const TEXTS = ["thread", "module", "only", "fn", "search"] as const;

/** The hash without its "#"; "" for a page as it opens. */
export function encode(state: State): string {
  const fields = new URLSearchParams();
  for (const key of [...TEXTS, ...(Object.keys(CHOICES) as (keyof typeof CHOICES)[])]) {
    if (state[key] !== START[key]) {
      fields.set(key, state[key]);
    }
  }
  if (state.range) {
    fields.set("range", state.range.join("-"));
  }
  if (state.source) {
    fields.set("source", state.source);
  }
  for (const key of NUMBERS) {
    if (state[key]) {
      fields.set(key, String(state[key]));
    }
  }
  for (const key of LISTS) {
    const ranks = state[key];
    if (ranks) {
      fields.set(key, ranks.join(",") || "none");
    }
  }
  return fields.toString();
}

/** Whatever stands in an address: what is not understood is left out. */
export function decode(hash: string): State {
  const fields = new URLSearchParams(hash);
  const state: State = { ...START };
  for (const key of TEXTS) {
    state[key] = fields.get(key) ?? START[key];
  }
  const choose = <Key extends keyof typeof CHOICES>(key: Key): void => {
    state[key] = CHOICES[key].find((choice) => choice === fields.get(key)) ?? START[key];
  };
  choose("part");
  choose("measure");
  choose("unit");
  choose("view");
  choose("width");
  const range = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(fields.get("range") ?? "");
  if (range && Number(range[1]) < Number(range[2])) {
    state.range = [Number(range[1]), Number(range[2])];
  }
  state.source = SOURCES.find((source) => source === fields.get("source"));
  for (const key of NUMBERS) {
    const number = Number(fields.get(key) ?? 0);
    state[key] = Number.isInteger(number) && number > 0 ? number : 0;
  }
  for (const key of LISTS) {
    const open = fields.get(key);
    state[key] = open === null ? undefined : open.split(",").map(Number).filter((rank) => rank > 0);
  }
  return state;
}

export type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

export class Store {
  private readonly listeners: Listener[] = [];
  private value: State;

  constructor(value: State) {
    this.value = value;
  }

  get state(): State {
    return this.value;
  }

  /** Calls the listener after every change, and at once with everything as changed. */
  follow(listener: Listener): void {
    this.listeners.push(listener);
    listener(this.value, new Set(Object.keys(START) as (keyof State)[]));
  }

  set(change: Partial<State>): void {
    const next = { ...this.value, ...change };
    const changed = new Set(
      (Object.keys(change) as (keyof State)[]).filter((key) => String(next[key]) !== String(this.value[key])),
    );
    if (changed.size === 0) {
      return;
    }
    this.value = next;
    for (const listener of this.listeners) {
      // Not `next`: a listener may have set more.
      listener(this.value, changed);
    }
  }
}

/** Keeps the hash as the state is and the state as the hash: a copied address opens the same view. */
export function keepInHash(store: Store): void {
  store.follow((state) => {
    const hash = encode(state);
    // A plain anchor, such as #coverage, is a place on the page: it stays while nothing was chosen.
    if (hash !== location.hash.slice(1) && (hash || location.hash.includes("="))) {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    }
  });
  addEventListener("hashchange", () => {
    if (location.hash.includes("=")) {
      store.set(decode(location.hash.slice(1)));
    }
  });
}
