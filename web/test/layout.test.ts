import { describe, expect, it } from "vitest";
import { boxAt, layout, legibleRows } from "../src/model/layout.ts";
import { buildTree, childrenOf, sumTree } from "../src/model/tree.ts";

const tree = buildTree([[1, 2], [1, 3], [4], [5]].map((path) => Int32Array.from(path)));
const values = sumTree(tree, [500, 300, 199, 1]);
const node = (fn: number): number => Array.from(tree.fn).indexOf(fn);

describe("layout", () => {
  it("puts the largest child first, each as wide as its share", () => {
    const rows = layout(tree, values, 0, 1000, 0.5);
    expect(rows[0]).toEqual([{ node: 0, row: 0, left: 0, width: 1000 }]);
    expect(rows[1]!.map((box) => [box.node, box.left, box.width])).toEqual([
      [node(1), 0, 800], [node(4), 800, 199], [node(5), 999, 1],
    ]);
    expect(rows[2]!.map((box) => [box.node, box.left])).toEqual([[node(2), 0], [node(3), 500]]);
  });

  it("draws children too narrow together, or not at all", () => {
    const rows = layout(tree, values, 0, 100, 1);
    expect(rows[1]!.map((box) => box.node)).toEqual([node(1), node(4)]);
    const together = layout(tree, values, 0, 100, 25);
    expect(together[1]!.map((box) => box.node)).toEqual([node(1)]);
    const twenty = layout(tree, values, 0, 100, 20);
    expect(twenty[1]!.at(-1)).toMatchObject({ node: -1, left: 80 });
    expect(twenty[1]!.at(-1)!.width).toBeCloseTo(20);
  });

  it("widens the zoomed node and its ancestors to the full width", () => {
    const rows = layout(tree, values, node(2), 600, 1);
    expect(rows.map((row) => row.map((box) => [box.node, box.width]))).toEqual([
      [[0, 600]], [[node(1), 600]], [[node(2), 600]],
    ]);
  });

  it("has nothing below the zoomed node when nothing is held", () => {
    const empty = layout(tree, new Float64Array(values.length), 0, 600, 1);
    expect(empty).toEqual([[{ node: 0, row: 0, left: 0, width: 600 }]]);
  });
});

describe("legibleRows", () => {
  const hair = buildTree([[1, 2], [3, 4, 5, 6]].map((path) => Int32Array.from(path)));

  it("leaves out the last rows that hold nothing wide enough, and zooming in brings them back", () => {
    const held = sumTree(hair, [997, 3]);
    const rows = layout(hair, held, 0, 1000, 1);
    expect(rows.length).toBe(5);
    expect(legibleRows(rows, 4)).toEqual(rows.slice(0, 3));
    const zoomed = layout(hair, held, Array.from(hair.fn).indexOf(3), 1000, 1);
    expect(legibleRows(zoomed, 4)).toEqual(zoomed);
  });

  it("keeps a narrow row above a wide one", () => {
    const box = (row: number, width: number) => ({ node: row, row, left: 0, width });
    const rows = [[box(0, 9)], [box(1, 2)], [box(2, 9)], [box(3, 2)]];
    expect(legibleRows(rows, 4)).toEqual(rows.slice(0, 3));
  });
});

describe("boxAt", () => {
  const rows = layout(tree, values, 0, 1000, 0.5);

  it("finds the box that covers a point", () => {
    expect(boxAt(rows, 1, 0)!.node).toBe(node(1));
    expect(boxAt(rows, 1, 799.9)!.node).toBe(node(1));
    expect(boxAt(rows, 1, 800)!.node).toBe(node(4));
    expect(childrenOf(tree, 0)).toContain(boxAt(rows, 1, 999.5)!.node);
  });

  it("finds none outside", () => {
    expect(boxAt(rows, 1, -1)).toBeUndefined();
    expect(boxAt(rows, 2, 900)).toBeUndefined();
    expect(boxAt(rows, 9, 10)).toBeUndefined();
  });
});
