/** The key figures, under the answer. */

import { h } from "./dom.ts";
import { formatDuration, formatInterval, formatRate, formatRateInterval, formatSigned, formatSize } from "./format.ts";
import { headline } from "./answer.ts";
import type { Payload } from "./payload.ts";

export function figures(payload: Payload): HTMLElement {
  const { info, live_bytes: live } = payload;
  const { suspect } = headline(payload);
  const interval = formatInterval(live);
  const certainty = interval ? `95 %: ${interval}` : info.mode === "exact" ? "to the byte" : "";
  // Who compares the two figures must not take the greater one for a mistake.
  const more = (live.estimate ?? 0) > (payload.process.rss_bytes.at(-1) || Infinity) ? "with mappings never touched" : "";
  return h(
    "dl",
    { class: "figures" },
    figure("Live native memory", formatSize(live.estimate), [certainty, more].filter(Boolean).join(", ")),
    suspect &&
      figure(
        `Growth of suspect ${suspect.rank}`,
        formatRate(suspect.growth_bytes_per_second.estimate),
        rateNote(formatRateInterval(suspect.growth_bytes_per_second)),
      ),
    ...rss(payload),
    figure("Recorded for", formatDuration(info.duration_seconds), started(info.start)),
    info.mode === "exact"
      ? figure("Mode", "Exact", "every block")
      : figure("Mode", "Sampled", `about one sample every ${formatSize(info.interval_bytes)}`),
  );
}

function rateNote(interval: string | null): string {
  return interval ? `95 %: ${interval}` : "";
}

function rss(payload: Payload): HTMLElement[] {
  const known = payload.process.rss_bytes.filter((bytes) => bytes > 0);
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) {
    return [];
  }
  return known.length === 1
    ? [figure("RSS", formatSize(first), "at one moment")]
    : [figure("RSS change", formatSigned(last - first), `${formatSize(first)} → ${formatSize(last)}`)];
}

function started(start: number): string {
  return start > 0 ? `from ${new Date(start * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC` : "";
}

function figure(name: string, value: string, note: string): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", { class: "value" }, value), h("dd", { class: "note" }, note));
}
