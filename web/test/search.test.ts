import { describe, expect, it } from "vitest";
import { compileSearch } from "../src/search.ts";

const matches = (pattern: string, text: string): boolean => {
  const compiled = compileSearch(pattern);
  return compiled instanceof RegExp && compiled.test(text);
};

describe("search", () => {
  it("ignores case until a capital is typed", () => {
    expect(matches("inflater", "java.util.zip.Inflater.init")).toBe(true);
    expect(matches("Inflater", "inflateInit2_")).toBe(false);
    expect(matches("zip\\S+INIT", "java.util.zip.Inflater.init")).toBe(false);
    expect(matches("zip\\S+init", "java.util.zip.Inflater.INIT")).toBe(true);
  });

  it("takes half a pattern as well as it can, and says when it cannot", () => {
    expect(compileSearch("")).toBeUndefined();
    expect(compileSearch("a(")).toBe("invalid");
    expect(compileSearch("[")).toBe("invalid");
    expect(matches("a{", "a{b")).toBe(true);
  });
});
