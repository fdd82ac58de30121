/** Which nodes of a call tree are drawn, and where: plain numbers, so that it is tested without a canvas. */

import { ancestorsOf, childrenOf, type CallTree } from "./tree.ts";

export interface Box {
  /** -1 for the siblings too narrow to draw, taken together. */
  node: number;
  row: number;
  /** Pixels from the left edge. */
  left: number;
  width: number;
}

/** Rows from the root down; within a row, boxes from left to right. */
export type Rows = Box[][];

/**
 * `zoom` fills the width, its ancestors lie above it as wide; below, children go from the largest to
 * the smallest, and those under `narrowest` pixels are not drawn one by one.
 */
export function layout(
  tree: CallTree,
  values: Float64Array,
  zoom: number,
  width: number,
  narrowest: number,
): Rows {
  const rows: Rows = [];
  const place = (box: Box): void => {
    (rows[box.row] ??= []).push(box);
  };
  for (const node of ancestorsOf(tree, zoom).reverse()) {
    place({ node, row: tree.depth[node]!, left: 0, width });
  }
  const scale = values[zoom]! > 0 ? width / values[zoom]! : 0;
  // Level by level, so that each row fills from left to right and a hit is found by bisection.
  let level: Box[] = [{ node: zoom, row: tree.depth[zoom]!, left: 0, width }];
  while (level.length) {
    const below: Box[] = [];
    for (const box of level) {
      place(box);
      if (box.node < 0) {
        continue;
      }
      const children = childrenOf(tree, box.node).sort((a, b) => values[b]! - values[a]!);
      let left = box.left;
      for (const [index, child] of children.entries()) {
        const childWidth = values[child]! * scale;
        if (childWidth < narrowest) {
          const rest = children.slice(index).reduce((sum, node) => sum + values[node]!, 0) * scale;
          if (rest >= narrowest) {
            below.push({ node: -1, row: box.row + 1, left, width: rest });
          }
          break;
        }
        below.push({ node: child, row: box.row + 1, left, width: childWidth });
        left += childWidth;
      }
    }
    level = below;
  }
  return rows;
}

/**
 * Without the last rows, in which nothing is as wide as `legible` pixels: a compiler that calls itself a hundred
 * times would draw a hair a hundred rows long, and leave the rest of them empty.  Zooming in brings them back.
 */
export function legibleRows(rows: Rows, legible: number): Rows {
  const last = rows.findLastIndex((boxes) => boxes.some((box) => box.width >= legible));
  return rows.slice(0, last + 1);
}

/** The box of a row that covers a point, if any. */
export function boxAt(rows: Rows, row: number, x: number): Box | undefined {
  const boxes = rows[row] ?? [];
  let [low, high] = [0, boxes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes[middle]!.left <= x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const box = boxes[low - 1];
  return box && x < box.left + box.width ? box : undefined;
}
