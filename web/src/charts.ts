/** RSS and live bytes over time, one above the other in time: their cursors move together. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h, section } from "./dom.ts";
import { formatDuration, formatSize } from "./format.ts";
import type { Model } from "./model.ts";
import { owners } from "./owners.ts";
import { nearest } from "./series.ts";
import { colour, onThemeChange } from "./theme.ts";

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

/** What one chart shows: values in bytes, null where unknown. */
interface Line {
  id: string;
  title: string;
  property: string;
  time: number[];
  bytes: (number | null)[];
}

export function charts(model: Model): HTMLElement {
  const { time, rss_bytes, live_bytes } = model.payload.process;
  const looks = model.payload.owners.time.length;
  if (time.length < 2) {
    return section(
      "time",
      "Over time",
      h(
        "p",
        { class: "empty" },
        "This recording is one snapshot, so it has no history. To see change over time, record with ",
        h("code", {}, "offheap attach"),
        " or ",
        h("code", {}, "offheap run"),
        ".",
      ),
    );
  }
  const rss = rss_bytes.map((bytes) => (bytes > 0 ? bytes : null));
  const lines: Line[] = [
    { id: "live", title: "Live native memory", property: "--live", time, bytes: live_bytes },
    // The owners' chart has RSS as its upper edge; of a single look there is only the bar.
    ...(looks > 1 ? [] : [{ id: "rss", title: "RSS of the process", property: "--rss", time, bytes: rss }]),
  ];
  return section(
    "time",
    "Over time",
    h("div", { class: "charts" }, ...lines.map((line) => figure(line, model)), looks > 0 && owners(model)),
    model.series.times.length > 2 && h("p", { class: "hint" }, "Drag over a chart to look at a part of the time: everything below follows."),
  );
}

function figure(line: Line, model: Model): HTMLElement {
  const readout = h("output", { class: "readout" });
  const host = h("div", { class: "chart" });
  const element = h(
    "figure",
    { id: `chart-${line.id}` },
    h("figcaption", {}, h("span", { class: `key key-${line.id}` }), line.title, " ", readout),
    host,
  );
  if (line.bytes.every((bytes) => bytes === null)) {
    host.replaceWith(h("p", { class: "empty" }, "Not recorded: the process could not be read."));
    return element;
  }
  const rest = summary(line.bytes);
  readout.textContent = rest;
  let plot: uPlot | undefined;
  const build = (): void => {
    plot?.destroy();
    plot = host.clientWidth ? new uPlot(options(line, host.clientWidth, readout, rest, model), [line.time, line.bytes], host) : undefined;
  };
  new ResizeObserver(() => {
    if (plot) {
      plot.setSize({ width: host.clientWidth, height: HEIGHT });
    } else {
      build();
    }
  }).observe(host);
  onThemeChange(build);
  model.follow(() => plot?.redraw());
  return element;
}

/** `12.0 MiB → 45.1 MiB`: the first and the last known value. */
function summary(values: (number | null)[]): string {
  const known = values.filter((value) => value !== null);
  return `${formatSize(known[0] ?? null)} → ${formatSize(known.at(-1) ?? null)}`;
}

function options(line: Line, width: number, readout: HTMLElement, rest: string, model: Model): uPlot.Options {
  const stroke = colour(line.property);
  const known = line.bytes.filter((bytes) => bytes !== null);
  // Not Math.min(...known): a day of snapshots is more arguments than a call may have.
  const [low, high] = known.reduce(([least, most], bytes) => [Math.min(least, bytes), Math.max(most, bytes)], [Infinity, 0]);
  const fromZero = byteRange(low, high)[0] === 0;
  return {
    width,
    height: HEIGHT,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, y: false, drag: { x: model.series.times.length > 2, y: false, setScale: false, dist: 5 }, points: { size: 7 } },
    scales: {
      x: { time: false, range: (_plot, _low, high) => [0, high] },
      y: { range: (_plot, low, high) => byteRange(low, high) },
    },
    axes: axes(),
    series: [
      {},
      {
        stroke,
        width: 2,
        // An area says "so much in all", which is true from zero only.
        ...(fromZero ? { fill: `color-mix(in srgb, ${stroke} 12%, transparent)` } : {}),
        points: { show: line.time.length < 40, size: 4 },
      },
    ],
    hooks: {
      draw: [(plot) => band(plot, model)],
      setSelect: [(plot) => brush(plot, model)],
      setCursor: [
        (plot) => {
          const index = plot.cursor.idx;
          const bytes = index === null || index === undefined ? undefined : line.bytes[index];
          readout.textContent =
            bytes === undefined || index === null || index === undefined
              ? rest
              : `${formatSize(bytes)} at ${formatDuration(line.time[index] ?? 0)}`;
        },
      ],
    },
  };
}

/** Seconds below, bytes at the left. */
export function axes(): uPlot.Axis[] {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${colour("--sans")}` };
  return [
    { ...axis, incrs: SECOND_STEPS, size: 26, space: 70, values: (_plot, ticks) => ticks.map(formatElapsed) },
    { ...axis, incrs: BYTE_STEPS, size: 68, space: 28, values: (_plot, ticks) => ticks.map(formatTick) },
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

/**
 * From zero while the values use a good part of that range; a large and nearly flat series is shown
 * over at least a tenth of its height, so that noise is not blown up into a trend.
 */
export function byteRange(low: number | null, high: number | null): [number, number] {
  const top = Math.max(high ?? 0, SMALLEST_RANGE);
  const bottom = Math.max(low ?? 0, 0);
  if (bottom < top * 0.6) {
    return [0, top * 1.08];
  }
  const middle = (top + bottom) / 2;
  const half = Math.max((top - bottom) * 0.65, top * 0.06);
  return [Math.max(middle - half, 0), middle + half];
}

function formatTick(bytes: number): string {
  return bytes === 0 ? "0" : formatSize(bytes).replace(".0\u00a0", "\u00a0");
}

function formatElapsed(seconds: number): string {
  return seconds < 60 ? `${Number(seconds.toFixed(2))}\u00a0s` : formatDuration(seconds);
}
