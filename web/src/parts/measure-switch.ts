/** Which measure the flame graph shows, of bytes or of blocks. */

import { h } from "./dom.ts";
import { formatCount, formatSize } from "../text/format.ts";
import type { Model } from "../model/model.ts";
import type { Measure, Unit } from "../model/state.ts";

/** What each measure means, for the line below the graph. */
export const MEANING: Record<Measure, string> = {
  live: "Live: held at the end of the range.",
  grown: "Grown: held at the end of the range more than at its start.",
  allocated: "Allocated: asked for within the range, freed or not.",
  temporary: "Temporary: allocated within the range, and as much freed within it.",
};
const MEASURES: Record<Measure, string> = { live: "live", grown: "grown", allocated: "allocated", temporary: "temporary" };
const UNITS: Record<Unit, string> = { bytes: "bytes", blocks: "blocks" };

export function formatAmount(unit: Unit): (amount: number) => string {
  return unit === "bytes" ? formatSize : (count) => `${formatCount(count)} blocks`;
}

export function measureSwitch({ store, series }: Model): HTMLElement {
  const options = (labels: Record<string, string>): HTMLElement[] =>
    Object.entries(labels).map(([value, label]) =>
      h("option", { value, disabled: value === "grown" && series.times.length < 3 }, label),
    );
  const measure = h("select", { id: "measure", "aria-label": "Measure" }, ...options(MEASURES));
  const unit = h("select", { id: "unit", "aria-label": "Unit" }, ...options(UNITS));
  measure.addEventListener("change", () => store.set({ measure: measure.value as Measure }));
  unit.addEventListener("change", () => store.set({ unit: unit.value as Unit }));
  store.follow((state) => {
    measure.value = state.measure;
    unit.value = state.unit;
  });
  return h("label", {}, "Show ", measure, unit);
}
