import { expect, it } from "vitest";
import type { Suspect } from "../src/payload/payload.ts";
import { sure } from "../src/panels/suspects.ts";

it.each([
  ["leak", 0.98, true],
  ["steady", 0.01, true],
  ["steady", 0.004, false],
  ["cannot tell yet", 0, false],
  ["cannot tell yet", 0.3, false],
] as const)("%s with confidence %d: shown %s", (verdict, confidence, shown) =>
  expect(sure({ verdict, confidence } as Suspect)).toBe(shown),
);
