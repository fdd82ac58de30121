/** Who holds RSS: stacked over time, and as a bar at the end of the range. */

import uPlot from "uplot";
import { axes, band, brush, HEIGHT } from "../parts/chart-parts.ts";
import { h } from "../parts/dom.ts";
import { formatDuration, formatSigned, formatSize, visible } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import type { OwnerColumns } from "../payload/payload.ts";
import { nearest } from "../model/series.ts";
import { currentTheme, onThemeChange } from "../parts/theme.ts";

/** More than these are one, "others": colours beyond would not be told apart. */
const MOST = 9;
/** Neighbours differ in lightness as well as in hue. */
const HUES: [number, number, number][] = [
  [24, 75, 52], [212, 60, 50], [146, 40, 45], [276, 38, 60], [46, 80, 52], [190, 55, 42], [340, 55, 60], [95, 40, 52], [0, 0, 50], [215, 12, 70],
];

export interface Owned {
  name: string;
  bytes: number[];
}

/** The owners that ever held most, the rest as one. */
export function largest({ name, bytes, time }: OwnerColumns, most: number): Owned[] {
  const all = name.map((each, owner) => ({ name: each, bytes: bytes[owner]! }));
  const peak = ({ bytes: held }: Owned): number => held.reduce((top, each) => Math.max(top, each), 0);
  const order = all.filter((owner) => peak(owner) > 0).sort((a, b) => peak(b) - peak(a));
  if (order.length <= most) {
    return order;
  }
  const rest = order.slice(most - 1);
  const sums = time.map((_time, reading) => rest.reduce((sum, owner) => sum + owner.bytes[reading]!, 0));
  return [...order.slice(0, most - 1), { name: `${rest.length} others`, bytes: sums }];
}

export function owners(model: Model): HTMLElement {
  const columns = model.payload.owners;
  const { time } = columns;
  const some = largest(columns, MOST);
  // As far as the other chart, so that their cursors stand one above the other.
  const end = model.payload.process.time.at(-1) ?? 0;
  const host = h("div", { class: "chart" });
  const readout = h("output", { class: "readout" });
  const bar = h("div", { class: "owners-bar" });
  const list = h("ul", { class: "owners" });
  const element = h("figure", { id: "chart-owners" }, h("figcaption", {}, "RSS by owner", readout), time.length > 1 && host, bar, list);
  let plot: uPlot | undefined;
  const build = (): void => {
    plot?.destroy();
    plot = host.clientWidth && time.length > 1 ? new uPlot(options(host.clientWidth), [time, ...edges(some)], host) : undefined;
  };
  const options = (width: number): uPlot.Options => ({
    width,
    height: HEIGHT,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, y: false, drag: { x: model.series.times.length > 2, y: false, setScale: false, dist: 5 }, points: { show: false } },
    scales: { x: { time: false, range: (_plot, _low, high) => [0, Math.max(high, end)] }, y: { range: (_plot, _low, high) => [0, Math.max(high, 1) * 1.05] } },
    axes: axes(),
    series: [{}, ...some.map((_owner, index) => ({ fill: hue(index), stroke: hue(index), width: 0, points: { show: false } }))],
    hooks: {
      draw: [(chart) => band(chart, model)],
      setSelect: [(chart) => brush(chart, model)],
      setCursor: [({ cursor: { idx } }) => tell(idx ?? undefined)],
    },
  });
  const tell = (reading: number | undefined): void => {
    const { rss_bytes: rss } = columns;
    readout.textContent =
      reading === undefined
        ? `${formatSize(rss[0] ?? null)} → ${formatSize(rss.at(-1) ?? null)}`
        : `${formatSize(rss[reading] ?? null)} at ${formatDuration(time[reading] ?? 0)}: ${top(some, reading)}`;
  };
  new ResizeObserver(() => (plot ? plot.setSize({ width: host.clientWidth, height: HEIGHT }) : build())).observe(host);
  const show = (): void => {
    const { scope } = model;
    const [first, last] = scope.ranged ? scope.seconds.map((seconds) => nearest(time, seconds)) as [number, number] : [0, time.length - 1];
    const rss = columns.rss_bytes[last]!;
    bar.replaceChildren(
      ...some.map((owner, index) => {
        const part = h("div", { title: `${visible(owner.name)}: ${formatSize(owner.bytes[last]!)}` });
        Object.assign(part.style, { background: hue(index), width: `${(100 * owner.bytes[last]!) / Math.max(rss, 1)}%` });
        return part;
      }),
    );
    list.replaceChildren(
      ...some.map((owner, index) => {
        const key = h("i");
        key.style.background = hue(index);
        const [before, now] = [owner.bytes[first]!, owner.bytes[last]!];
        return h("li", {}, key, h("span", {}, visible(owner.name)), h("strong", {}, formatSize(now)), h("span", { class: "muted" }, time.length > 1 ? formatSigned(now - before) : ""));
      }),
    );
    tell(undefined);
    plot?.redraw();
  };
  onThemeChange(() => {
    show();
    // Last: a new plot draws itself a moment later, and a redraw before that would leave it empty.
    build();
  });
  model.follow(show);
  return element;
}

/** The upper edges of the stacked areas, the highest first, so that each covers the one before. */
function edges(some: Owned[]): number[][] {
  const result = some.map(() => [] as number[]);
  const readings = some[0]?.bytes.length ?? 0;
  for (let reading = 0; reading < readings; reading++) {
    let edge = 0;
    for (let owner = some.length - 1; owner >= 0; owner--) {
      edge += some[owner]!.bytes[reading]!;
      result[owner]![reading] = edge;
    }
  }
  return result;
}

function top(some: Owned[], reading: number): string {
  const order = some.slice().sort((a, b) => b.bytes[reading]! - a.bytes[reading]!).slice(0, 3);
  return order.map((owner) => `${visible(owner.name)} ${formatSize(owner.bytes[reading]!)}`).join(", ");
}

function hue(index: number): string {
  const [angle, saturation, lightness] = HUES[index % HUES.length]!;
  return `hsl(${angle} ${saturation}% ${lightness + (currentTheme() === "dark" ? 4 : 0)}%)`;
}
