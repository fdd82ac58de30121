/** Small pictures within the text: a course over time, and the ages of blocks. */

import { formatDuration } from "../text/format.ts";

const SPACE = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, String(value));
  }
  element.append(...children);
  return element;
}

const points = (xs: number[], ys: number[]): string => xs.map((x, index) => `${x.toFixed(1)},${ys[index]!.toFixed(1)}`).join(" ");

/** Values from zero up over their times; the part in the range, given as two times, stands out. */
export function sparkline(times: readonly number[], values: ArrayLike<number>, range: readonly [number, number], label: string): SVGElement {
  const [width, height] = [96, 26];
  const last = times.at(-1) || 1;
  const top = Math.max(...Array.from(values), 1);
  const xs = times.map((time) => (time / last) * width);
  const ys = Array.from(values, (value) => height - 1 - (value / top) * (height - 3));
  const [left, right] = range.map((time) => (time / last) * width) as [number, number];
  return svg(
    "svg",
    { class: "sparkline", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("rect", { class: "range", x: left, y: 0, width: Math.max(right - left, 0), height }),
    svg("polygon", { points: `0,${height} ${points(xs, ys)} ${width},${height}` }),
    svg("polyline", { points: points(xs, ys) }),
  );
}

/** How much of what is live was born in each equal part of the recording, as bars from its start to its end. */
export function ageHistogram(births: readonly number[], seconds: number, range: readonly [number, number] | undefined): SVGElement {
  const [width, height] = [480, 74];
  const bar = width / births.length;
  const top = Math.max(...births, 1);
  const bars = births.map((bytes, index) => {
    const tall = bytes > 0 ? Math.max((bytes / top) * (height - 20), 1) : 0;
    const middle = ((index + 0.5) / births.length) * seconds;
    const inside = !range || (middle >= range[0] && middle <= range[1]);
    return svg("rect", { class: inside ? "inside" : "outside", x: index * bar + 0.5, y: height - 16 - tall, width: bar - 1, height: tall });
  });
  const text = (x: number, anchor: string, content: string): SVGElement => svg("text", { x, y: height - 3, "text-anchor": anchor }, new Text(content));
  return svg(
    "svg",
    { class: "ages", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "When the blocks that are live were born" },
    ...bars,
    svg("line", { x1: 0, x2: width, y1: height - 15.5, y2: height - 15.5 }),
    text(0, "start", "start"),
    text(width / 2, "middle", formatDuration(seconds / 2)),
    text(width, "end", formatDuration(seconds)),
  );
}
