/** The key figures, under the answer. */

import { h } from "../parts/dom.ts";
import { formatDuration, formatInterval, formatRate, formatRateInterval, formatSigned, formatSize } from "../text/format.ts";
import { headline } from "./answer.ts";
import type { Model } from "../model/model.ts";
import type { Estimate, Payload } from "../payload/payload.ts";
import type { Scope } from "../model/scope.ts";

export function figures(payload: Payload, model: Model): HTMLElement {
  const list = h("dl", { class: "figures" });
  model.follow((scope) => list.replaceChildren(...tiles(payload, scope)));
  return list;
}

function tiles(payload: Payload, scope: Scope): (HTMLElement | "")[] {
  const { malloc_bytes: malloc, mapped_bytes: mapped } = payload;
  if (!scope.ranged && !scope.filtered) {
    return [
      figure("Live by malloc", formatSize(malloc.estimate), certainty(payload, malloc)),
      // Apart from the blocks: who compares a heap's reservation with RSS must not take it for a mistake.
      (mapped.estimate ?? 0) > 0 ? figure("Mapped", formatSize(mapped.estimate), "address space, touched or not") : "",
      java(payload),
      growth(payload, scope),
      ...rss(payload, scope),
      duration(payload, scope),
    ];
  }
  const when = scope.ranged ? `at ${formatDuration(scope.seconds[1])}` : "of what the filters leave";
  const mappedLive = scope.total("live", "bytes", "mmap");
  return [
    figure("Live by malloc", formatSize(scope.total("live", "bytes", "malloc")), when),
    mappedLive > 0 ? figure("Mapped", formatSize(mappedLive), when) : "",
    growth(payload, scope),
    ...(scope.filtered ? [] : rss(payload, scope)),
    duration(payload, scope),
  ];
}

/** What survived the last collection. */
function java({ java_heap: heap }: Payload): HTMLElement | "" {
  if (!heap || heap.after_collections.time.length === 0) {
    return "";
  }
  return figure("Live in the Java heap", formatSize(heap.live.estimate), heap.heap_bytes === null ? "survived a collection" : `of ${formatSize(heap.heap_bytes)} in use after it`);
}

/** How fast the answer's suspect grows in the range, or where none is left, all that is. */
function growth(payload: Payload, scope: Scope): HTMLElement | "" {
  const { suspect } = headline(payload);
  const found = suspect && scope.figures(suspect)?.growth;
  return suspect && found && found.estimate !== null
    ? figure(`Growth of suspect ${suspect.rank}`, formatRate(found.estimate), rateNote(formatRateInterval(found)))
    : "";
}

function duration(payload: Payload, scope: Scope): HTMLElement {
  const { info } = payload;
  const mode = info.mode === "exact" ? "every block recorded" : `a sample every ${formatSize(info.interval_bytes)}${info.budget ? " or less" : ""}`;
  const [from, to] = scope.seconds;
  return scope.ranged
    ? figure("Range", formatDuration(to - from), `${formatDuration(from)} to ${formatDuration(to)} of ${formatDuration(info.duration_seconds)}`)
    : figure("Recorded for", formatDuration(info.duration_seconds), [started(info.start), mode].filter(Boolean).join(", "));
}

function certainty(payload: Payload, quantity: Estimate): string {
  const interval = formatInterval(quantity);
  return interval ? `95 %: ${interval}` : payload.info.mode === "exact" ? "to the byte" : "";
}

function rateNote(interval: string | null): string {
  return interval ? `95 %: ${interval}` : "";
}

function rss(payload: Payload, scope: Scope): HTMLElement[] {
  const [from, to] = scope.ranged ? scope.seconds : [0, Infinity];
  const { time, rss_bytes } = payload.process;
  const known = rss_bytes.filter((bytes, index) => bytes > 0 && time[index]! >= from && time[index]! <= to);
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) {
    return [];
  }
  return known.length === 1
    ? [figure("RSS", formatSize(first), "at one moment")]
    : [figure("RSS change", formatSigned(last - first), `${formatSize(first)} → ${formatSize(last)}`)];
}

function started(start: number): string {
  return start > 0 ? `from ${new Date(start * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC` : "";
}

function figure(name: string, value: string, note: string): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", { class: "value" }, value), h("dd", { class: "note" }, note));
}
