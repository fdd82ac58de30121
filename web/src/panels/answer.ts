/** The first thing a reader sees: is it leaking, what, how fast, how sure - in words. */

import { h, nameOf } from "../parts/dom.ts";
import { apart } from "../parts/namesakes.ts";
import { formatDuration, formatInterval, formatPlace, formatRate, formatSize, sentence, visible } from "../text/format.ts";
import { frameAt, type FrameColumns, type Payload, type Suspect, type Verdict } from "../payload/payload.ts";

/** How bad: the colour of the answer and of the badges. */
export type Severity = "bad" | "warn" | "info" | "good";

export const SEVERITY: Record<Verdict, Severity> = {
  leak: "bad",
  growing: "warn",
  "cannot tell yet": "info",
  steady: "good",
  startup: "good",
  freed: "good",
};

/** What the headline says, and the suspect it is about, if it is about one. */
export function headline(payload: Payload): { severity: Severity; text: string; suspect: Suspect | undefined } {
  const { kind, place, without_suspect: text } = payload.conclusion;
  const suspect = place === null ? undefined : payload.suspects[place];
  if (kind === "leak") {
    return { severity: "bad", text: "Yes, it leaks native memory.", suspect };
  }
  if (kind === "growing") {
    return { severity: "warn", text: "Native memory grows; it may be a leak.", suspect };
  }
  if (payload.stacks.frames.length === 0) {
    return { severity: "info", text: "Nothing was recorded, so nothing can be said.", suspect: undefined };
  }
  return { severity: kind === "no leak" ? "good" : "info", text, suspect: undefined };
}

export function answer(payload: Payload): HTMLElement {
  const { severity, text, suspect } = headline(payload);
  return h(
    "section",
    { id: "answer", class: `answer ${severity}`, "aria-label": "Answer" },
    h("h1", {}, text),
    suspect ? about(payload, suspect) : noSuspect(payload),
    suspect && payload.conclusion.also && h("p", { class: "why", id: "also" }, payload.conclusion.also),
    suspect && payload.rss_note && h("p", { class: "why", id: "rss-note" }, sentence(payload.rss_note)),
    payload.conclusion.advice && h("p", { id: "advice" }, payload.conclusion.advice),
    others(payload, suspect),
    untilFull(payload),
  );
}

/** When memory is full, where its limit is known. */
function untilFull({ limit_bytes: limit, seconds_to_limit: seconds }: Payload): HTMLElement | undefined {
  if (limit === null || !seconds || seconds.estimate === null) {
    return undefined;
  }
  const high = seconds.high === null ? "never" : formatDuration(seconds.high);
  return h(
    "p",
    { class: "until-full" },
    `At the rate of all leaks ${formatSize(limit)} of memory are full in about `,
    h("strong", {}, formatDuration(seconds.estimate)),
    ` (95\u00a0%: ${formatDuration(seconds.low ?? 0)} to ${high}).`,
  );
}

/** What grows, how fast, how sure; for what is no leak for certain, also why. */
function about(payload: Payload, suspect: Suspect): HTMLElement {
  const blamed = frameAt(payload.frames, suspect.blamed);
  const place = formatPlace(blamed);
  // A site without suspicion is not on the reader's mind.
  const namesake = payload.suspects.some(
    (each) => each !== suspect && ["leak", "growing"].includes(each.verdict) && frameAt(payload.frames, each.blamed).short === blamed.short,
  );
  const told = namesake && apart(payload.frames, suspect.apart);
  const { growth_bytes_per_second: growth, live_bytes: live } = suspect;
  const interval = formatInterval(live);
  const held = h("strong", {}, formatSize(live.estimate));
  const text = h(
    "p",
    {},
    "What ",
    suspect.callback && `${visible(suspect.callback)}, in `,
    nameOf(blamed.short, "subject", blamed.name),
    place && ` (${place})`,
    " allocates",
    suspect.called !== null && " through ",
    suspect.called !== null && shortNameOf(payload.frames, suspect.called),
    suspect.triggered && `, ${visible(suspect.triggered)},`,
    told && ", ",
    told && told,
    told && ",",
    ...((growth.estimate ?? 0) > 0
      ? [" grows by ", h("strong", {}, formatRate(growth.estimate)), " and now holds ", held]
      : [" holds ", held]),
    interval && ` (95\u00a0%: ${interval})`,
    Math.round(100 * suspect.confidence) > 0 ? `. Confidence: ${percent(suspect.confidence)}.` : ".",
  );
  const why = suspect.verdict !== "leak" && h("p", { class: "why" }, sentence(suspect.why));
  return h("div", {}, text, ...(why ? [why] : []));
}

function shortNameOf(frames: FrameColumns, index: number): HTMLElement {
  const { name, short } = frameAt(frames, index);
  return nameOf(short, "", name);
}

function noSuspect(payload: Payload): HTMLElement {
  const { info, stacks } = payload;
  if (stacks.frames.length === 0) {
    const text = "The probe saw no allocation, or the recording ended before its first sample.";
    return h("p", {}, text);
  }
  if (payload.conclusion.kind === "growing") {
    return h("p", { class: "why" }, payload.conclusion.without_suspect);
  }
  const heap = info.java_version ? "the Java heap, " : "";
  return h(
    "p",
    {},
    `In ${formatDuration(info.duration_seconds)}, no allocation site kept old blocks while it grew. `,
    `If RSS grows all the same, look at ${heap}thread stacks, mapped files, and at `,
    h("a", { href: "#coverage" }, "what was not seen"),
    ".",
  );
}

function others(payload: Payload, suspect: Suspect | undefined): HTMLElement | undefined {
  const more = payload.suspects.filter((each) => each !== suspect && ["leak", "growing"].includes(each.verdict)).length;
  if (more === 0) {
    return undefined;
  }
  const text = more === 1 ? "One more suspect is" : `${more} more suspects are`;
  return h("p", { class: "muted" }, `${text} in the `, h("a", { href: "#suspects" }, "table below"), ".");
}

export function percent(confidence: number): string {
  return `${Math.round(confidence * 100)}\u00a0%`;
}
