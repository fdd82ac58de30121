/** What every chart over time has: its axes, the range that the page is about, and the brush that chooses it. */

import type uPlot from "uplot";
import { formatDuration, formatSize } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import { nearest } from "../model/series.ts";
import { colour } from "./theme.ts";

export const HEIGHT = 180;
/** Bytes: less than this is drawn as the little it is. */
const SMALLEST_RANGE = 128 * 1024;
const BYTE_STEPS = [0, 1, 2, 3, 4].flatMap((power) =>
  [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * 1024 ** power),
);
const SECOND_STEPS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 604800,
];

/** Seconds below, bytes at the left. */
export function axes(): uPlot.Axis[] {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${colour("--sans")}` };
  return [
    { ...axis, incrs: SECOND_STEPS, size: 26, space: 70, values: (_plot, ticks) => ticks.map(formatElapsed) },
    { ...axis, incrs: BYTE_STEPS, size: 68, space: 28, values: (_plot, ticks) => tickLabels(ticks) },
  ];
}

/** The range that the whole page is about, over the picture. */
export function band(plot: uPlot, { scope }: Model): void {
  if (!scope.ranged) {
    return;
  }
  const [left, right] = scope.seconds.map((seconds) => plot.valToPos(seconds, "x", true)) as [number, number];
  plot.ctx.save();
  plot.ctx.fillStyle = colour("--range");
  plot.ctx.fillRect(left, plot.bbox.top, right - left, plot.bbox.height);
  plot.ctx.restore();
}

/** What was dragged over becomes the range; the drawing of it is `band`'s. */
export function brush(plot: uPlot, { store, series }: Model): void {
  const { left, width } = plot.select;
  if (width < 2) {
    return;
  }
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  const [from, to] = [left, left + width].map((x) => nearest(series.times, plot.posToVal(x, "x"))) as [number, number];
  // Shorter than from one snapshot to the next: the nearest two.
  const start = Math.min(from, series.times.length - 2);
  store.set({ range: [series.times[start]!, series.times[Math.max(to, start + 1)]!] });
}

/** From zero: an axis that is cut makes a trend of noise, and a leak of a reservation. */
export function byteRange(high: number | null): [number, number] {
  return [0, Math.max(high ?? 0, SMALLEST_RANGE) * 1.08];
}

/** All of an axis in the unit of its steps, which are whole numbers of it. */
export function tickLabels(ticks: readonly number[]): string[] {
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : (ticks[0] ?? 0);
  const unit = 1024 ** Math.max(Math.floor(Math.log2(Math.max(step, 1)) / 10), 0);
  const name = formatSize(unit).replace("1.0", "").replace(/^1/, "");
  return ticks.map((bytes) => (bytes === 0 ? "0" : `${Number((bytes / unit).toFixed(1))}${name}`));
}

function formatElapsed(seconds: number): string {
  return seconds < 60 ? `${Number(seconds.toFixed(2))}\u00a0s` : formatDuration(seconds);
}
