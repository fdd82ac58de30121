import { describe, expect, it } from "vitest";
import {
  formatCount, formatDuration, formatInterval, formatPlace, formatRate, formatRateInterval, formatShare, formatSize,
  sentence, shortName, useRateUnit, visible,
} from "../src/text/format.ts";
import type { Frame } from "../src/payload/payload.ts";

/** With ordinary spaces, so that what is expected can be read. */
const plain = (text: string | null): string | null => text && text.replaceAll("\u00a0", " ");
const MiB = 1024 ** 2;

describe("quantities", () => {
  it.each([
    [0, "0 B"], [812, "812 B"], [1023.6, "1.0 KiB"], [1536, "1.5 KiB"], [340 * MiB, "340 MiB"], [99.96 * MiB, "100 MiB"],
    [-450 * 1024, "−450 KiB"], [-0.2, "0 B"], [5e18, "4441 PiB"], [null, "unknown"],
  ])("size %s", (size, text) => expect(plain(formatSize(size))).toBe(text));

  it.each([[0, "0"], [12345, "12,345"], [1.2e6, "1.2 M"], [1234.5e6, "1,234.5 M"]])("count %s", (count, text) =>
    expect(plain(formatCount(count))).toBe(text),
  );

  it.each([
    [0.25, "0.25 s"], [12.5, "12.5 s"], [200, "3 min 20 s"], [7500, "2 h 5 min"], [86400, "1 d"], [273600, "3 d 4 h"],
  ])("duration %s", (seconds, text) => expect(plain(formatDuration(seconds))).toBe(text));

  it("all rates of a page have its unit", () => {
    const rates = () => [1.2 * MiB, 2048, 0.1, -0.1, 0, null].map((rate) => plain(formatRate(rate)));
    useRateUnit({ seconds: 1, name: "s" });
    expect(rates()).toEqual(["1.2 MiB/s", "2.0 KiB/s", "< 1 B/s", "> −1 B/s", "none", "unknown"]);
    useRateUnit({ seconds: 60, name: "min" });
    expect(rates()).toEqual(["72.0 MiB/min", "120 KiB/min", "6 B/min", "−6 B/min", "none", "unknown"]);
  });

  it("shares, also of nothing", () => {
    expect(plain(formatShare(1, 3))).toBe("33.3 %");
    expect(plain(formatShare(1, 1e6))).toBe("< 0.1 %");
    expect(plain(formatShare(5, 5))).toBe("100 %");
    expect(plain(formatShare(0, 0))).toBe("0 %");
  });
});

describe("intervals", () => {
  it("name a unit once, and nothing at all when the quantity is exact", () => {
    expect(plain(formatInterval({ estimate: 2 * MiB, low: MiB, high: 3 * MiB }))).toBe("1.0–3.0 MiB");
    expect(plain(formatInterval({ estimate: MiB, low: 1024, high: 3 * MiB }))).toBe("1.0 KiB–3.0 MiB");
    expect(formatInterval({ estimate: MiB, low: MiB, high: MiB })).toBeNull();
    expect(plain(formatInterval({ estimate: 0, low: -MiB, high: MiB }))).toBe("−1.0 to 1.0 MiB");
    expect(plain(formatInterval({ estimate: MiB, low: MiB, high: null }))).toBe("from 1.0 MiB up");
  });

  it("of a rate have the page's unit", () => {
    useRateUnit({ seconds: 1, name: "s" });
    const rate = { estimate: 200 * 1024, low: 50 * 1024, high: 300 * 1024 };
    expect(plain(formatRateInterval(rate))).toBe("50.0–300 KiB/s");
  });
});

describe("names", () => {
  it("show what would not be seen or would reorder the line", () => {
    expect(visible("a\u202eb\u0000c\nd\u200be")).toBe("a\\u{202e}b\\u{0}c\\u{a}d\\u{200b}e");
    expect(visible("\ud800x")).toBe("\\u{d800}x");
    expect(visible("Größe.计算<init>")).toBe("Größe.计算<init>");
  });

  it("are cut to their last parts", () => {
    expect(shortName("java.util.zip.Inflater.init", 2)).toBe("Inflater.init");
    expect(shortName("main", 2)).toBe("main");
  });

  it("have a place", () => {
    const frame: Frame = { name: "f", short: "f", kind: "native", module: "libz.so", file: "/src/zlib/inflate.c", line: 7, inlined: false };
    expect(formatPlace(frame)).toBe("inflate.c:7");
    expect(formatPlace({ ...frame, line: 0 })).toBe("inflate.c");
    expect(formatPlace({ ...frame, file: "" })).toBe("libz.so");
    expect(formatPlace({ ...frame, file: "", kind: "java" })).toBe("");
  });

  it("sentences start large and end with a full stop", () => {
    expect(plain(sentence("known for 2.0 s only"))).toBe("Known for 2.0 s only.");
    expect(sentence("")).toBe("");
    expect(sentence("libz.so.1, java: stripped")).toBe("libz.so.1, java: stripped.");
  });
});
