/** Light or dark: the system's choice until the reader makes one. */

import { h } from "./dom.ts";

export type Theme = "light" | "dark";

const KEY = "offheap-theme";
const listeners: (() => void)[] = [];

export function currentTheme(): Theme {
  return document.documentElement.dataset["theme"] === "dark" ? "dark" : "light";
}

/** Calls `listener` after every change: a canvas does not follow the style sheet by itself. */
export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

/** The value of a custom property of the style sheet, such as "--muted". */
export function colour(property: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}

function apply(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  for (const listener of listeners) {
    listener();
  }
}

export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const preferred = (): Theme => stored() ?? (dark.matches ? "dark" : "light");
  apply(preferred());
  dark.addEventListener("change", () => apply(preferred()));
  // Paper is white.
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(preferred()));
}

export function switchTheme(): void {
  const theme = currentTheme() === "dark" ? "light" : "dark";
  store(theme);
  apply(theme);
}

export function themeToggle(): HTMLElement {
  const button = h("button", { type: "button", class: "quiet", id: "theme" });
  const label = (): void => {
    const other = currentTheme() === "dark" ? "Light" : "Dark";
    button.textContent = `◐ ${other}`;
    button.setAttribute("aria-label", `${other} colours`);
  };
  button.addEventListener("click", switchTheme);
  onThemeChange(label);
  label();
  return button;
}

// Storage may be refused to a page opened from a file: then the choice lasts as long as the page.
function stored(): Theme | undefined {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : undefined;
  } catch {
    return undefined;
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return;
  }
}
