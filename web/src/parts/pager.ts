/** Long tables by the page. */

import { h } from "./dom.ts";
import { formatCount } from "../text/format.ts";

/** Rows of a page: nobody reads more at a time, and a telephone takes long to lay them out. */
export const PAGE = 30;

export function pagesOf(count: number): number {
  return Math.max(Math.ceil(count / PAGE), 1);
}

/** The items of a page, counted from 1; a number beyond the ends means the nearest page. */
export function pageOf<Item>(items: readonly Item[], page: number): Item[] {
  const start = (Math.min(Math.max(page, 1), pagesOf(items.length)) - 1) * PAGE;
  return items.slice(start, start + PAGE);
}

/** Buttons to the other pages, and where in the whole this one is; hidden where there is but one. */
export class Pager {
  private readonly first = this.button("«", "First page", () => 1);
  private readonly previous = this.button("‹ Previous", "Previous page", () => this.page - 1);
  private readonly next = this.button("Next ›", "Next page", () => this.page + 1);
  private readonly last = this.button("»", "Last page", () => this.pages);
  private readonly place = h("span", { class: "place", role: "status" });
  readonly element = h("nav", { class: "pager", "aria-label": "Pages", hidden: true }, this.first, this.previous, this.place, this.next, this.last);
  private page = 1;
  private pages = 1;

  constructor(
    private readonly what: string,
    private readonly go: (page: number) => void,
  ) {}

  show(count: number, page: number): void {
    this.pages = pagesOf(count);
    this.page = Math.min(Math.max(page, 1), this.pages);
    const start = (this.page - 1) * PAGE;
    this.place.textContent = `${formatCount(start + 1)}–${formatCount(Math.min(start + PAGE, count))} of ${formatCount(count)} ${this.what}`;
    // Not `disabled`: a disabled button loses the focus, and the keyboard loses its place.
    for (const [button, off] of [[this.first, this.page === 1], [this.previous, this.page === 1], [this.next, this.page === this.pages], [this.last, this.page === this.pages]] as const) {
      button.setAttribute("aria-disabled", String(off));
    }
    this.element.hidden = this.pages === 1;
  }

  private button(text: string, label: string, target: () => number): HTMLButtonElement {
    const button = h("button", { type: "button", "aria-label": label, title: label }, text);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") !== "true") {
        this.go(target());
      }
    });
    return button;
  }
}
