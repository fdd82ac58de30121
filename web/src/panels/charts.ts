/**
 * RSS and live bytes over time, one above the other in time: their cursors move together.  Every axis starts at
 * zero, and what malloc holds is apart from mapped address space, so that no picture outgrows what it shows.
 */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { axes, band, brush, byteRange, HEIGHT } from "../parts/chart-parts.ts";
import { h, section } from "../parts/dom.ts";
import { formatDuration, formatSize } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import type { Payload } from "../payload/payload.ts";
import { owners } from "./owners.ts";
import { colour, onThemeChange } from "../parts/theme.ts";

/** A suspected part smaller than this share of the chart's top gets a chart of its own. */
const VISIBLE = 0.05;

/** What one chart shows: values in bytes, null where unknown; `part`: the suspected part of them. */
export interface Line {
  id: string;
  title: string;
  /** The style sheet's name of its colour. */
  colour: "held" | "live" | "rss";
  time: number[];
  bytes: (number | null)[];
  part?: number[];
  partTitle?: string;
}

/** Live bytes by kind: malloc always, mappings where the headline is about one; and what the headline is about. */
export function liveLines({ process, suspects }: Pick<Payload, "process" | "suspects">): Line[] {
  const { time } = process;
  const word = suspects[0]?.verdict === "leak" ? "leaks" : "grows";
  const kinds = [
    { id: "live", title: "Live by malloc", bytes: process.malloc_bytes, part: process.malloc_suspected },
    { id: "mapped", title: "Mapped address space", bytes: process.mapped_bytes, part: process.mapped_suspected },
  ];
  // What the headline is about comes first.
  const largest = (values: number[]): number => values.reduce((most, each) => Math.max(most, each), 0);
  kinds.sort((a, b) => Number(largest(b.part) > 0) - Number(largest(a.part) > 0));
  return kinds.flatMap(({ id, title, bytes, part }): Line[] => {
    const [top, most] = [largest(bytes), largest(part)];
    if (most === 0) {
      return id === "live" ? [{ id, title, colour: "held", time, bytes }] : [];
    }
    const partTitle = `what ${word}`;
    return most >= VISIBLE * top
      ? [{ id, title, colour: "held", time, bytes, part, partTitle }]
      : [{ id, title: `${title}, ${partTitle}`, colour: "live", time, bytes: part }];
  });
}

export function charts(model: Model): HTMLElement {
  const { time, rss_bytes } = model.payload.process;
  const readings = model.payload.owners.time.length;
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
  const [headline, ...others] = liveLines(model.payload).map((line) => figure(line, model));
  // The owners' chart has RSS as its upper edge; of a single reading there is only the bar.
  const whole = readings <= 1 && figure({ id: "rss", title: "RSS of the process", colour: "rss", time, bytes: rss }, model);
  return section(
    "time",
    "Over time",
    h("div", { class: "charts" }, headline, whole, readings > 0 && owners(model), ...others),
    model.series.times.length > 2 && h("p", { class: "hint" }, "Drag over a chart to look at a part of the time: everything below follows."),
  );
}

/** A chart of a line over time, and of a part of it. */
export function figure(line: Line, model: Model): HTMLElement {
  const readout = h("output", { class: "readout" });
  const host = h("div", { class: "chart" });
  const key = (colour: Line["colour"]): HTMLElement => h("span", { class: `key key-${colour}` });
  const element = h(
    "figure",
    { id: `chart-${line.id}` },
    h(
      "figcaption",
      {},
      h("span", {}, key(line.colour), line.title),
      line.partTitle && h("span", {}, key("live"), line.partTitle),
      readout,
    ),
    host,
  );
  if (line.bytes.every((bytes) => bytes === null)) {
    host.replaceWith(h("p", { class: "empty" }, "Not recorded: the process could not be read."));
    return element;
  }
  const rest = line.part ? `${summary(line.bytes)}; ${line.partTitle} ${summary(line.part)}` : summary(line.bytes);
  readout.textContent = rest;
  let plot: uPlot | undefined;
  const build = (): void => {
    plot?.destroy();
    plot = host.clientWidth ? new uPlot(options(line, host.clientWidth, readout, rest, model), [line.time, line.bytes, ...(line.part ? [line.part] : [])], host) : undefined;
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
  const points = { show: line.time.length < 40, size: 4 };
  const area = (name: Line["colour"], strength: number): uPlot.Series => {
    const stroke = colour(`--${name}`);
    return { stroke, width: 2, fill: `color-mix(in srgb, ${stroke} ${strength}%, transparent)`, points };
  };
  return {
    width,
    height: HEIGHT,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, y: false, drag: { x: model.series.times.length > 2, y: false, setScale: false, dist: 5 }, points: { size: 7 } },
    scales: {
      x: { time: false, range: (_plot, _low, high) => [0, high] },
      y: { range: (_plot, _low, high) => byteRange(high) },
    },
    axes: axes(),
    series: [
      {},
      area(line.colour, 14),
      ...(line.part ? [area("live", 40)] : []),
    ],
    hooks: {
      draw: [(plot) => band(plot, model)],
      setSelect: [(plot) => brush(plot, model)],
      setCursor: [
        (plot) => {
          const index = plot.cursor.idx;
          const bytes = index === null || index === undefined ? undefined : line.bytes[index];
          if (bytes === undefined || index === null || index === undefined) {
            readout.textContent = rest;
          } else {
            const part = line.part ? `; ${line.partTitle} ${formatSize(line.part[index] ?? null)}` : "";
            readout.textContent = `${formatSize(bytes)} at ${formatDuration(line.time[index] ?? 0)}${part}`;
          }
        },
      ],
    },
  };
}
