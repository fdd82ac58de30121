/** Elements made by hand: text always goes in as text, never as markup. */

import { visible } from "../text/format.ts";

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

/** `h("button", {class: "x", "aria-label": "y"}, "text", child)`; an attribute that is false or undefined is left out. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/**
 * A name of the recorded process, which may break after a separator and, if it must, anywhere; `full`: what it
 * is when `text` is folded.
 */
export function nameOf(text: string, more = "", full = text): HTMLElement {
  const parts = visible(text).split(/(?<=[.:,(_$])(?=[\p{L}\p{N}<_])/u);
  const pieces = parts.flatMap((part, index) => (index ? [h("wbr"), part] : [part]));
  return h("span", { class: `name ${more}`.trim(), title: full === text ? undefined : visible(full) }, ...pieces);
}

/** A section with its heading, which labels it for assistive technology. */
export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...children);
}
