/**
 * What may be typed into the search and the filters: plain text, found anywhere in a name; "text" in quotation
 * marks, which is the whole name; /text/ between slashes, a regular expression.  Any case, unless a capital is
 * typed; a whole name minds it always.
 */

import { visible } from "../text/format.ts";

/** The same as the tooltip of a field. */
export const SYNTAX = 'Text, "a whole name" in quotation marks, or /a regular expression/ between slashes';

export interface Matcher {
  test(name: string): boolean;
}

/** undefined: nothing to search for; "invalid": a regular expression that is none. */
export function compileSearch(text: string): Matcher | "invalid" | undefined {
  if (text === "") {
    return undefined;
  }
  const whole = /^"(.+)"$/su.exec(text)?.[1];
  if (whole !== undefined) {
    // As it is, or as it can be shown.
    return { test: (name) => name === whole || visible(name) === whole };
  }
  const expression = /^\/(.+)\/$/su.exec(text)?.[1];
  if (expression !== undefined) {
    return compileExpression(expression);
  }
  if (/\p{Lu}/u.test(text)) {
    return { test: (name) => name.includes(text) };
  }
  const folded = text.toLowerCase();
  return { test: (name) => name.toLowerCase().includes(folded) };
}

function compileExpression(text: string): RegExp | "invalid" {
  // Capitals in escapes, such as \S or \W, ask for no case.
  const capital = /\p{Lu}/u.test(text.replace(/\\./g, ""));
  try {
    return new RegExp(text, capital ? "u" : "iu");
  } catch {
    try {
      // Half a class or a lone brace is text for a laxer reading.
      return new RegExp(text, capital ? "" : "i");
    } catch {
      return "invalid";
    }
  }
}

export function isMatcher(compiled: Matcher | "invalid" | undefined): compiled is Matcher {
  return compiled !== undefined && compiled !== "invalid";
}

/** What to search for to find this name, and nothing that merely contains it. */
export function wholeName(name: string): string {
  return `"${visible(name)}"`;
}

/** Whether plain text looks as if a regular expression was meant. */
export function looksLikeExpression(text: string): boolean {
  return !/^["/].*["/]$/su.test(text) && /\\[wdsSWDb.]|\.[*+]|^\^|\$$|\w\|\w|\[\^?[\w-]+\]/u.test(text);
}
