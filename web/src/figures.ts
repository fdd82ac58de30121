/** The key figures, under the answer. */

import { h } from "./dom.ts";
import { formatDuration, formatInterval, formatRate, formatRateInterval, formatSigned, formatSize } from "./format.ts";
import { headline } from "./answer.ts";
import type { Estimate, Payload } from "./payload.ts";

export function figures(payload: Payload): HTMLElement {
  const { info, malloc_bytes: malloc, mapped_bytes: mapped } = payload;
  const { suspect } = headline(payload);
  return h(
    "dl",
    { class: "figures" },
    figure("Live by malloc", formatSize(malloc.estimate), certainty(payload, malloc)),
    // Apart from the blocks: who compares a heap's reservation with RSS must not take it for a mistake.
    (mapped.estimate ?? 0) > 0 && figure("Mapped", formatSize(mapped.estimate), "address space, touched or not"),
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

function certainty(payload: Payload, quantity: Estimate): string {
  const interval = formatInterval(quantity);
  return interval ? `95 %: ${interval}` : payload.info.mode === "exact" ? "to the byte" : "";
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
