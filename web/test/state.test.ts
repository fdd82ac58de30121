import { describe, expect, it, vi } from "vitest";
import { decode, encode, sandwichOf, START, Store, type State } from "../src/model/state.ts";

describe("the address", () => {
  it("says nothing while nothing was chosen, and brings everything back that was", () => {
    expect(encode(START)).toBe("");
    const state: State = {
      range: [5.25, 20], source: "mmap", thread: "pool-\\d+&x=1", module: "libz", only: "é \u202e", measure: "temporary",
      unit: "blocks", view: "inverted", width: "old", fn: "a<init>", search: "#%", zoom: 17, page: 3, open: [3, 1],
      part: "java", javaPage: 2, javaOpen: [4],
    };
    expect(decode(encode(state))).toEqual(state);
    expect(decode(encode({ ...START, open: [] })).open).toEqual([]);
  });

  it.each(["range=20-5", "range=a-b", "zoom=-1", "zoom=1.5", "measure=__proto__", "view=", "zoom=NaN", "open=", "page=-2", "page=x", "part=heap", "javaOpen="])(
    "%s is ignored", (hash) => expect({ ...decode(hash), open: undefined, javaOpen: undefined }).toEqual(START),
  );
});

it("a sandwich begins without the search that would dim it", () => {
  expect({ ...START, search: "x", zoom: 4, ...sandwichOf("f") }).toEqual({ ...START, view: "sandwich", fn: "f" });
});

describe("the store", () => {
  it("tells what changed, only if something did, and the newest state when a listener sets more", () => {
    const store = new Store(START);
    const heard = vi.fn();
    store.follow((state) => state.search === "x" && store.set({ zoom: 2 }));
    store.follow((state, changed) => heard(state.zoom, [...changed]));
    store.set({ zoom: 0 });
    expect(heard).toHaveBeenCalledTimes(1);
    store.set({ search: "x" });
    expect(heard.mock.calls.slice(1)).toEqual([[2, ["zoom"]], [2, ["search"]]]);
  });
});
