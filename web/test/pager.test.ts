import { describe, expect, it } from "vitest";
import { PAGE, pageOf, pagesOf } from "../src/parts/pager.ts";

const items = (count: number): number[] => Array.from({ length: count }, (_item, index) => index + 1);

describe("pages", () => {
  it("have thirty items each, and together all of them once", () => {
    expect(PAGE).toBe(30);
    for (const count of [0, 1, 30, 31, 90, 2000]) {
      const all = items(pagesOf(count)).flatMap((page) => pageOf(items(count), page));
      expect(all).toEqual(items(count));
    }
  });

  it.each([[0, 1], [-3, 1], [99, 3]])("page %d of three is page %d", (page, shown) =>
    expect(pageOf(items(70), page)).toEqual(pageOf(items(70), shown)),
  );
});
