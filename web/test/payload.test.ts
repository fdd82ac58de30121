import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { matches, mergeFrames, stackPaths } from "../src/model/functions.ts";
import { compileSearch, type Matcher } from "../src/model/search.ts";
import { frameAt, samePlace, SCHEMA, type FrameColumns } from "../src/payload/payload.ts";
import { parsePayload, unzip } from "../src/payload/read-payload.ts";

const frames: FrameColumns = {
  strings: ["", "libz.so", "A.java"],
  name: ["malloc", "A.run", "A.run", "A.run"],
  short: [0, 0, 0, 0],
  kind: ["native", "java", "java", "unknown"],
  module: [1, 0, 0, 0],
  file: [0, 2, 2, 2],
  line: [0, 9, 7, 9],
  inlined: [0, 0, 1, 0],
};

describe("payload", () => {
  it("is refused when its schema is another", () => {
    expect(parsePayload(JSON.stringify({ schema: SCHEMA })).schema).toBe(SCHEMA);
    expect(() => parsePayload('{"schema":"offheap.report-page/9"}')).toThrow("offheap.report-page/9");
    expect(() => parsePayload("null")).toThrow("undefined");
    expect(() => parsePayload("@OFFHEAP_PAYLOAD@")).toThrow();
  });

  it("comes back from gzip and base64 as it went in", async () => {
    const text = JSON.stringify({ name: "</script><script>alert(1)</script>\u202e ü \u{1f600}" });
    expect(await unzip(gzipSync(text).toString("base64"))).toBe(text);
  });

  it("has frames in columns", () => {
    expect(frameAt(frames, 2)).toEqual({ name: "A.run", short: "A.run", kind: "java", module: "", file: "A.java", line: 7, inlined: true });
    expect(samePlace(frames, 1, 3)).toBe(true);
    expect(samePlace(frames, 1, 2)).toBe(false);
  });
});

describe("functions", () => {
  const functions = mergeFrames(frames);

  it("are one for all lines of a method, but not across kinds", () => {
    expect(functions.name).toEqual(["malloc", "A.run", "A.run", "no stack was recorded"]);
    expect(functions.lines).toEqual([[], [7, 9], [9], []]);
  });

  it("have the names that are shown, and are found by them and by the full ones", () => {
    const name = "app::Pool<std::map<int, long>>::take(int)";
    const folded = mergeFrames({ ...frames, strings: [...frames.strings, "app::Pool<…>::take"], name: [name, ...frames.name.slice(1)], short: [3, 0, 0, 0] });
    expect(folded.name[0]).toBe(name);
    expect(folded.short.slice(0, 2)).toEqual(["app::Pool<…>::take", "A.run"]);
    for (const text of ["Pool<…>", "std::map", "pool"]) {
      expect([...matches(folded, compileSearch(text) as Matcher)]).toEqual([1, 0, 0, 0]);
    }
  });

  it("make paths from the root, or from the allocation when inverted; an empty stack says so", () => {
    const stacks = { kind: [], frames: [[0, 1, 3], []], live_bytes: [], live_blocks: [], allocated_bytes: [], allocated_blocks: [] };
    const lists = (inverted: boolean): number[][] => stackPaths(stacks, functions, inverted).map((path) => Array.from(path));
    expect(lists(false)).toEqual([[2, 1, 0], [3]]);
    expect(lists(true)).toEqual([[0, 1, 2], [3]]);
  });
});
