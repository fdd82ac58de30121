/** The search of the flame graph: a regular expression, any case unless a capital is typed. */

/** undefined: nothing to search for. */
export function compileSearch(text: string): RegExp | "invalid" | undefined {
  if (text === "") {
    return undefined;
  }
  // Capitals in escapes, such as \S or \W, ask for no case.
  const capital = /\p{Lu}/u.test(text.replace(/\\./g, ""));
  try {
    return new RegExp(text, capital ? "u" : "iu");
  } catch {
    try {
      // Half a class or a lone brace, as typed on the way to a pattern, is text for a laxer reading.
      return new RegExp(text, capital ? "" : "i");
    } catch {
      return "invalid";
    }
  }
}

/** A name as a pattern that matches it, and nothing that merely contains it. */
export function escaped(name: string): string {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}
