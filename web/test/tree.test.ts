import { describe, expect, it } from "vitest";
import { ancestorsOf, buildTree, childrenOf, matchedWeight, sumTree, type CallTree } from "../src/model/tree.ts";

const paths = (...lists: number[][]): Int32Array[] => lists.map((list) => Int32Array.from(list));

/** The path of a node from the root, as text. */
function pathOf(tree: CallTree, node: number): string {
  return [node, ...ancestorsOf(tree, node)].reverse().slice(1).map((each) => tree.fn[each]).join("/");
}

function valuesByPath(tree: CallTree, weights: number[]): Record<string, number> {
  const values = sumTree(tree, weights);
  return Object.fromEntries(Array.from(values, (value, node) => [pathOf(tree, node), value]));
}

/** The same sums, by looking at every prefix of every path. */
function sumPrefixes(lists: number[][], weights: number[]): Record<string, number> {
  const sums: Record<string, number> = {};
  lists.forEach((list, stack) => {
    for (let length = 0; length <= list.length; length++) {
      const key = list.slice(0, length).join("/");
      sums[key] = (sums[key] ?? 0) + weights[stack]!;
    }
  });
  return sums;
}

/** Numbers that look random and are the same in every run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe("buildTree", () => {
  it("merges what paths share and keeps the rest apart", () => {
    const tree = buildTree(paths([1, 2, 3], [1, 2, 4], [5], [1, 2, 3]));
    expect(valuesByPath(tree, [10, 20, 40, 80])).toEqual({
      "": 150, "1": 110, "1/2": 110, "1/2/3": 90, "1/2/4": 20, "5": 40,
    });
    expect(tree.stackNode[0]).toBe(tree.stackNode[3]);
    expect(childrenOf(tree, 0)).toHaveLength(2);
  });

  it("counts a path that ends within another, and a function that calls itself", () => {
    const tree = buildTree(paths([1, 1, 1], [1], []));
    expect(valuesByPath(tree, [1, 2, 4])).toEqual({ "": 7, "1": 3, "1/1": 1, "1/1/1": 1 });
  });

  it("has a root alone when there are no stacks", () => {
    const tree = buildTree([]);
    expect(Array.from(sumTree(tree, []))).toEqual([0]);
  });

  it("agrees with the sums over all prefixes, for 300 paths", () => {
    const random = numbers(7);
    const lists = Array.from({ length: 300 }, () =>
      Array.from({ length: Math.floor(random.next().value * 12) }, () => Math.floor(random.next().value * 3)),
    );
    const weights = lists.map(() => Math.floor(random.next().value * 1000));
    const tree = buildTree(paths(...lists));
    expect(valuesByPath(tree, weights)).toEqual(sumPrefixes(lists, weights));
    expect(Array.from(tree.parent).every((above, node) => above < node)).toBe(true);
  });
});

describe("matchedWeight", () => {
  const tree = buildTree(paths([1, 2, 3], [1, 4], [5, 2]));
  const weights = [1, 10, 100];
  const matching = (...functions: number[]): Uint8Array =>
    Uint8Array.from({ length: 6 }, (_, fn) => (functions.includes(fn) ? 1 : 0));

  it("counts a stack once, however many of its functions match", () => {
    expect(matchedWeight(tree, weights, matching(1, 2, 3), 0)).toBe(111);
    expect(matchedWeight(tree, weights, matching(2), 0)).toBe(101);
    expect(matchedWeight(tree, weights, matching(), 0)).toBe(0);
  });

  it("counts only stacks through the zoomed node, matched above or below it", () => {
    const one = childrenOf(tree, 0).find((node) => tree.fn[node] === 1)!;
    expect(matchedWeight(tree, weights, matching(2), one)).toBe(1);
    expect(matchedWeight(tree, weights, matching(1), one)).toBe(11);
  });
});
