/**
 * The call tree as columns: a node is a number, 0 the root, and a parent's number is less than its
 * children's, so that sums over half a million nodes are one pass backwards.
 */

export interface CallTree {
  /** By node; the root has parent -1 and function -1. */
  parent: Int32Array;
  fn: Int32Array;
  depth: Int32Array;
  firstChild: Int32Array;
  nextSibling: Int32Array;
  /** The node where its path ends, by stack. */
  stackNode: Int32Array;
}

function comparePaths(a: Int32Array, b: Int32Array): number {
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) {
      return difference;
    }
  }
  return a.length - b.length;
}

/** The prefix tree of the paths, one path a stack, its functions from the root outwards. */
export function buildTree(paths: Int32Array[]): CallTree {
  // Sorted, a path differs from its predecessor in its tail only: no look-up of children is needed.
  const order = Array.from(paths.keys()).sort((a, b) => comparePaths(paths[a]!, paths[b]!));
  const capacity = 1 + paths.reduce((sum, path) => sum + path.length, 0);
  const parent = new Int32Array(capacity).fill(-1);
  const fn = new Int32Array(capacity).fill(-1);
  const depth = new Int32Array(capacity);
  const firstChild = new Int32Array(capacity).fill(-1);
  const nextSibling = new Int32Array(capacity).fill(-1);
  const stackNode = new Int32Array(paths.length);
  let used = 1;
  let previous = new Int32Array(0);
  const branch: number[] = [0]; // the nodes of the previous path, branch[0] the root
  for (const stack of order) {
    const path = paths[stack]!;
    let shared = 0;
    while (shared < path.length && shared < previous.length && path[shared] === previous[shared]) {
      shared += 1;
    }
    for (let level = shared; level < path.length; level++) {
      const node = used++;
      const above = branch[level]!;
      parent[node] = above;
      fn[node] = path[level]!;
      depth[node] = level + 1;
      nextSibling[node] = firstChild[above]!;
      firstChild[above] = node;
      branch[level + 1] = node;
    }
    stackNode[stack] = branch[path.length]!;
    previous = path as Int32Array<ArrayBuffer>;
  }
  return {
    parent: parent.slice(0, used),
    fn: fn.slice(0, used),
    depth: depth.slice(0, used),
    firstChild: firstChild.slice(0, used),
    nextSibling: nextSibling.slice(0, used),
    stackNode,
  };
}

/** The weight of all stacks that pass through it, by node. */
export function sumTree(tree: CallTree, weights: ArrayLike<number>): Float64Array {
  const values = new Float64Array(tree.parent.length);
  tree.stackNode.forEach((node, stack) => {
    values[node] = values[node]! + (weights[stack] ?? 0);
  });
  for (let node = values.length - 1; node > 0; node--) {
    const above = tree.parent[node]!;
    values[above] = values[above]! + values[node]!;
  }
  return values;
}

export function childrenOf(tree: CallTree, node: number): number[] {
  const children: number[] = [];
  for (let child = tree.firstChild[node]!; child >= 0; child = tree.nextSibling[child]!) {
    children.push(child);
  }
  return children;
}

/** From the node's parent up to the root, nearest first. */
export function ancestorsOf(tree: CallTree, node: number): number[] {
  const ancestors: number[] = [];
  for (let above = tree.parent[node]!; above >= 0; above = tree.parent[above]!) {
    ancestors.push(above);
  }
  return ancestors;
}

/** The weight of all stacks that pass through `within` and have a matched function anywhere below or above it. */
export function matchedWeight(
  tree: CallTree,
  weights: ArrayLike<number>,
  matched: ArrayLike<number>,
  within: number,
): number {
  const inside = new Uint8Array(tree.parent.length);
  const hit = new Uint8Array(tree.parent.length);
  for (let node = 0; node < inside.length; node++) {
    const above = tree.parent[node]!;
    inside[node] = node === within || (above >= 0 && inside[above]) ? 1 : 0;
    hit[node] = (above >= 0 && hit[above]) || matched[tree.fn[node]!] ? 1 : 0;
  }
  let sum = 0;
  tree.stackNode.forEach((node, stack) => {
    if (inside[node] && hit[node]) {
      sum += weights[stack] ?? 0;
    }
  });
  return sum;
}
