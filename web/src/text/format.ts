/** Numbers and names written for people; the same figures as src/offheap/quantities.py gives. */

import type { Estimate, Frame, RateUnit } from "../payload/payload.ts";

const PREFIXES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const UNKNOWN = "unknown";
/** No break between a figure and its unit. */
const SPACE = "\u00a0";

export function formatSize(size: number | null): string {
  if (size === null) {
    return UNKNOWN;
  }
  let value = Math.abs(size);
  let prefix = 0;
  while (prefix < PREFIXES.length - 1 && Math.round(value) >= 1024) {
    value /= 1024;
    prefix += 1;
  }
  const figures = prefix > 0 && value < 99.95 ? value.toFixed(1) : value.toFixed(0);
  const sign = size < 0 && Number(figures) !== 0 ? "−" : "";
  return `${sign}${figures}${SPACE}${PREFIXES[prefix]}`;
}

export function formatCount(count: number | null): string {
  if (count === null) {
    return UNKNOWN;
  }
  if (Math.abs(count) >= 999_950) {
    return `${group((count / 1e6).toFixed(1))}${SPACE}M`;
  }
  return group(Math.round(count).toFixed(0));
}

function group(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",").replace("-", "−");
}

export function formatDuration(seconds: number): string {
  if (seconds < 1) {
    return `${Math.max(seconds, 0).toFixed(2)}${SPACE}s`;
  }
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)}${SPACE}s`;
  }
  const whole = Math.round(seconds);
  const [size, name, smallerSize, smallerName] =
    whole >= 86400 ? ([86400, "d", 3600, "h"] as const) : whole >= 3600 ? ([3600, "h", 60, "min"] as const) : ([60, "min", 1, "s"] as const);
  const smaller = Math.floor(whole / smallerSize);
  const ratio = size / smallerSize;
  const rest = smaller % ratio;
  return [`${Math.floor(smaller / ratio)}`, name, ...(rest ? [rest, smallerName] : [])].join(SPACE);
}

let rateUnit: RateUnit = { seconds: 1, name: "s" };

/** Every rate of the page has this unit, so that they compare; src/offheap/quantities.py chooses it. */
export function useRateUnit(unit: RateUnit): void {
  rateUnit = unit;
}

export function formatRate(bytesPerSecond: number | null): string {
  if (bytesPerSecond === null) {
    return UNKNOWN;
  }
  if (bytesPerSecond === 0) {
    return "none";
  }
  const amount = bytesPerSecond * rateUnit.seconds;
  if (Math.abs(amount) < 0.5) {
    return `${amount < 0 ? "> −" : "< "}1${SPACE}B/${rateUnit.name}`;
  }
  return `${formatSize(amount)}/${rateUnit.name}`;
}

export function formatShare(part: number, whole: number): string {
  if (!(whole > 0)) {
    return `0${SPACE}%`;
  }
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.05 ? `< 0.1${SPACE}%` : `${percent >= 99.95 ? "100" : percent.toFixed(1)}${SPACE}%`;
}

/** `43.0–47.2 MiB`; null when the quantity is exact, so that there is no interval to show. */
export function formatInterval(
  value: Estimate,
  format: (quantity: number | null) => string = formatSize,
): string | null {
  if (value.low === null || value.high === null) {
    return value.low === value.high ? null : `from ${format(value.low)} up`;
  }
  const [low, high] = [format(value.low), format(value.high)];
  if (low === high) {
    return null;
  }
  const unit = /\u00a0.*$/.exec(high)?.[0] ?? "";
  const start = unit && low.endsWith(unit) ? low.slice(0, -unit.length) : low;
  // A dash before a minus sign reads as neither.
  return value.low < 0 ? `${start} to ${high}` : `${start}–${high}`;
}

export function formatRateInterval(value: Estimate): string | null {
  const { seconds, name } = rateUnit;
  const scale = (quantity: number | null): number | null => (quantity === null ? null : quantity * seconds);
  const scaled = { estimate: scale(value.estimate), low: scale(value.low), high: scale(value.high) };
  const interval = formatInterval(scaled);
  return interval && `${interval}/${name}`;
}

export function formatSigned(size: number): string {
  return size > 0 ? `+${formatSize(size)}` : formatSize(size);
}

/**
 * A name from the recorded process, safe to read: control characters, bidirectional overrides and other
 * invisible ones become visible escapes, so that no name can pose as another or reorder its line.
 */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u{${code.toString(16)}}`;
  });
}

/** `Inflater.java:42`, or the module where no source is known, or nothing. */
export function formatPlace(frame: Frame): string {
  const file = frame.file.slice(frame.file.lastIndexOf("/") + 1);
  if (file) {
    return visible(frame.line > 0 ? `${file}:${frame.line}` : file);
  }
  return frame.kind === "java" || frame.kind === "class" ? "" : visible(frame.module);
}

/** `Inflater.init` of `java.util.zip.Inflater.init`: where space is short, the end of a Java name says most. */
export function shortName(name: string, parts: number): string {
  return name.split(".").slice(-parts).join(".");
}

/** A clause from the analysis as a sentence of its own; one that begins with a file's name keeps its small letter. */
export function sentence(clause: string): string {
  const text = visible(clause).replace(/(\d) (?=([KMGTP]i)?B\b|(s|min|h|d)\b)/g, `$1${SPACE}`);
  const first = /^[^\s,:]*[.+/_]/.test(text) ? text.charAt(0) : text.charAt(0).toUpperCase();
  return text && `${first}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
