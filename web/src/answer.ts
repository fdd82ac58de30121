/** The first thing a reader sees: is it leaking, what, how fast, how sure - in words. */

import { h } from "./dom.ts";
import { formatDuration, formatInterval, formatPlace, formatRate, formatSize, sentence, visible } from "./format.ts";
import { frameAt, type Payload, type Suspect, type Verdict } from "./payload.ts";

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
  const first = (verdict: Verdict): Suspect | undefined => payload.suspects.find((each) => each.verdict === verdict);
  const leak = first("leak");
  if (leak) {
    return { severity: "bad", text: "Yes, it leaks native memory.", suspect: leak };
  }
  const growing = first("growing");
  if (growing) {
    return { severity: "warn", text: "Native memory grows; it may be a leak.", suspect: growing };
  }
  const open = first("cannot tell yet");
  if (open) {
    return { severity: "info", text: "Too early to tell.", suspect: open };
  }
  if (payload.stacks.frames.length === 0) {
    return { severity: "info", text: "Nothing was recorded, so nothing can be said.", suspect: undefined };
  }
  return { severity: "good", text: "No leak found in what was recorded.", suspect: undefined };
}

export function answer(payload: Payload): HTMLElement {
  const { severity, text, suspect } = headline(payload);
  return h(
    "section",
    { id: "answer", class: `answer ${severity}`, "aria-label": "Answer" },
    h("h1", {}, text),
    suspect ? about(payload, suspect) : noSuspect(payload),
    others(payload, suspect),
  );
}

/** What grows, how fast, how sure; then the figures behind the verdict. */
function about(payload: Payload, suspect: Suspect): HTMLElement {
  const blamed = frameAt(payload.frames, suspect.blamed);
  const place = formatPlace(blamed);
  const { growth_bytes_per_second: growth, live_bytes: live } = suspect;
  const interval = formatInterval(live);
  const held = h("strong", {}, formatSize(live.estimate));
  return h(
    "div",
    {},
    h(
      "p",
      {},
      h("span", { class: "name subject" }, visible(blamed.name)),
      place && ` (${place})`,
      ...((growth.estimate ?? 0) > 0
        ? [" grows by ", h("strong", {}, formatRate(growth.estimate)), " and holds ", held]
        : [" holds ", held]),
      interval && ` (95 %: ${interval})`,
      suspect.confidence > 0 ? `. Confidence: ${percent(suspect.confidence)}.` : ".",
    ),
    h("p", { class: "why" }, sentence(suspect.why)),
  );
}

function noSuspect(payload: Payload): HTMLElement {
  const { info, stacks } = payload;
  if (stacks.frames.length === 0) {
    return h("p", {}, "The probe saw no allocation, or the recording ended before its first sample. See what it could not see, below.");
  }
  return h(
    "p",
    {},
    `Over ${formatDuration(info.duration_seconds)}, no allocation site keeps old blocks while it grows. `,
    "RSS that grows all the same has another owner: the Java heap, threads, mapped files, or what the last section says was not seen.",
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
  return `${Math.round(confidence * 100)} %`;
}
