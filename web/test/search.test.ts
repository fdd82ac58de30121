import { describe, expect, it } from "vitest";
import { compileSearch, isMatcher, looksLikeExpression, wholeName } from "../src/model/search.ts";

const matches = (text: string, name: string): boolean => {
  const compiled = compileSearch(text);
  return isMatcher(compiled) && compiled.test(name);
};

describe("search", () => {
  it("finds plain text as it stands, signs and all", () => {
    expect(matches("f(int*)", "std::f(int*)")).toBe(true);
    expect(matches("a.b", "aXb")).toBe(false);
    expect(matches("a(", "a(b)")).toBe(true);
    expect(matches("$$Lambda[0]", "Shop$$Lambda[0].run")).toBe(true);
    expect(matches("/lib/libz.so", "/usr/lib/libz.so.1")).toBe(true);
    expect(matches('"', 'operator""_kb')).toBe(true);
  });

  it("ignores case until a capital is typed", () => {
    expect(matches("inflater", "java.util.zip.Inflater.init")).toBe(true);
    expect(matches("Inflater", "inflateInit2_")).toBe(false);
    expect(matches("/zip\\S+INIT/", "java.util.zip.Inflater.init")).toBe(false);
    expect(matches("/zip\\S+init/", "java.util.zip.Inflater.INIT")).toBe(true);
  });

  it("takes what is between slashes as a regular expression, as well as it can, and says when it cannot", () => {
    expect(matches("/^malloc$|init_$/", "inflateInit_")).toBe(true);
    expect(matches("^malloc$", "malloc")).toBe(false);
    expect(compileSearch("")).toBeUndefined();
    expect(compileSearch("/a(/")).toBe("invalid");
    expect(compileSearch("/[/")).toBe("invalid");
    expect(matches("/a{/", "a{b")).toBe(true);
    expect(matches("/", "a/b")).toBe(true);
    expect(matches("//", "a//b")).toBe(true);
  });

  it.each(["malloc", "operator new(unsigned long)", "a.b$c", 'operator""_kb', "/x/", "com.example.\u202egpj"])("finds the whole name %s only", (name) => {
    expect(matches(wholeName(name), name)).toBe(true);
    expect(matches(wholeName(name), `${name}2`)).toBe(false);
    expect(matches(wholeName(name), `os::${name}`)).toBe(false);
  });

  it.each([["zip.*init", true], ["^malloc", true], ["a|b", true], ["\\w+Pool", true], ["java.util.zip", false], ["f(int*)", false], ["/a.*/", false], ["operator|", false]])(
    "%s looks like an expression: %s", (text, looks) => expect(looksLikeExpression(text)).toBe(looks),
  );
});
