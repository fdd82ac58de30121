/** Reads the data in the page, of a report or of a diff. */

import { DIFF_SCHEMA, type DiffPayload } from "./diff-payload.ts";
import { SCHEMA, type Payload } from "./payload.ts";

/** Reads the payload element; large payloads are gzip in base64, which every browser unpacks by itself. */
export async function readPayload(element: HTMLElement): Promise<Payload | DiffPayload> {
  const text = element.textContent ?? "";
  const json = element.dataset["encoding"] === "gzip-base64" ? await unzip(text.trim()) : text;
  return parsePayload(json);
}

export function parsePayload(json: string): Payload | DiffPayload {
  const value: unknown = JSON.parse(json);
  const schema = typeof value === "object" && value !== null && "schema" in value ? value.schema : undefined;
  if (schema !== SCHEMA && schema !== DIFF_SCHEMA) {
    throw new Error(`the data in this page is ${String(schema)}, its script reads ${SCHEMA} and ${DIFF_SCHEMA}`);
  }
  return value as Payload | DiffPayload;
}

export async function unzip(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
