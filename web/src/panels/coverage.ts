/** What this recording could not see and what it lost, in words. */

import { h, section } from "../parts/dom.ts";
import { formatCount, formatSize, sentence, visible } from "../text/format.ts";
import type { Info, Payload } from "../payload/payload.ts";

/** By the names of recording.h's losses, in lower case. */
const LOST: Record<string, string> = {
  lost_blocks: "Sampled blocks that found the live table full, so that live memory is understated",
  lost_ranges: "Mappings that found the range table full or busy, so that mapped memory is understated",
  lost_unmaps: "Unmappings not seen, so that mapped memory may be overstated",
  lost_stacks: "Samples without a stack, because the stack table was full",
  lost_methods: "Java frames without a name, because the method table was full",
  lost_strings: "Names cut, because the string table was full",
  lost_threads: "Blocks filed under “other threads”",
  lost_modules: "Modules without a row, whose frames are raw addresses",
  lost_unwinds: "Samples whose native stack ends early",
  lost_java: "Samples without Java frames, because the JVM could not give them",
  lost_reentries: "Sampling points within the probe itself (signal handlers)",
  java_inexact: "Samples with a compiled Java frame whose inlined methods are not known",
  lost_objects: "Sampled Java objects that were not followed, so that the Java heap is understated",
  truncated: "Stacks cut at the depth limit",
};

const ENDED: Record<Info["ended"], string> = {
  recording: "The process still ran at the last snapshot.",
  detached: "It ended when the probe was stopped.",
  exited: "It ended when the process exited.",
  killed: "It ended when the process was killed.",
};

export function coverage(payload: Payload): HTMLElement {
  const { info } = payload;
  const losses = Object.entries(info.lost).filter(([name, count]) => count > 0 && name !== "java_joined");
  const lost = losses.map(([name, count]) => h("li", {}, `${loss(name)}: `, h("strong", {}, formatCount(count))));
  const java = (payload.java_heap?.coverage ?? []).map((text) => `Java heap: ${text}`);
  const unseen = [...info.coverage, ...java, ...always(info)].map((text) => h("li", {}, sentence(text)));
  return section(
    "coverage",
    "What this recording could not see",
    h("ul", { class: "coverage" }, ...lost, ...unseen),
    h("p", { class: "muted" }, lost.length ? "" : "No sample was lost. ", ENDED[info.ended] ?? ""),
  );
}

/** What no recording of this mode sees. */
function always(info: Info): string[] {
  const heap = info.java_version ? "the Java heap, " : "";
  const rss = `only malloc and mmap are followed to their callers: RSS also counts ${heap}program code, mapped files and thread stacks`;
  const mapped = "a mapping counts in full from mmap to munmap, touched or not: live memory can exceed RSS";
  if (info.mode === "exact") {
    return [rss, mapped];
  }
  const size = `${formatSize(info.interval_bytes)}${info.budget ? " or less" : ""}`;
  return [rss, mapped, `sampled every ${size}: sites that hold much less than that may be missing, and every quantity is an estimate`];
}

function loss(name: string): string {
  return LOST[name] ?? LOST[`lost_${name}`] ?? `Counted as ${visible(name)}`;
}

/** The process and how it was recorded, folded away. */
export function particulars(payload: Payload): HTMLElement {
  const { info } = payload;
  const entry = { preload: "LD_PRELOAD", agentpath: "-agentpath", attach: "attached while it ran" }[info.entry];
  const rows: [string, string][] = [
    ["Recording", info.path],
    ["Main class", info.main_class],
    ["Command line", info.command_line.join(" ")],
    ["JVM", info.java_version],
    ["JVM flags", info.jvm_flags.join(" ")],
    ["Probe", [entry, info.probe_version].filter(Boolean).join(", ")],
    ["Samples with Java frames", info.joined > 0 ? formatCount(info.joined) : ""],
  ];
  return h(
    "details",
    { id: "particulars" },
    h("summary", {}, "The process and the recording"),
    h(
      "dl",
      {},
      ...rows.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", { class: "name" }, visible(text))]),
    ),
  );
}
