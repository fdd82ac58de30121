/** Puts the report together, answer first. */

import "./style.css";
import { answer } from "./answer.ts";
import { charts } from "./charts.ts";
import { coverage, particulars } from "./coverage.ts";
import { h, nameOf } from "./dom.ts";
import { figures } from "./figures.ts";
import { flamePanel, type FlamePanel } from "./flame-panel.ts";
import { visible } from "./format.ts";
import { readPayload, type Info, type Payload } from "./payload.ts";
import { suspects } from "./suspects.ts";
import { startTheme, themeToggle } from "./theme.ts";

function header(info: Info): HTMLElement {
  const jvm = info.java_version ? `JDK ${visible(info.java_version)}` : "no JVM met: native frames only";
  return h(
    "header",
    {},
    h("span", { class: "brand" }, "offheap"),
    h(
      "span",
      { class: "target" },
      nameOf(title(info)),
      h("span", { class: "muted" }, `pid ${info.pid} · ${jvm}`),
    ),
    themeToggle(),
  );
}

function title(info: Info): string {
  const program = info.command_line[0] ?? "";
  return visible(info.main_class || program.slice(program.lastIndexOf("/") + 1) || `process ${info.pid}`);
}

function shortcuts(panel: FlamePanel): void {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      panel.focusSearch();
    } else if (event.key === "Escape") {
      panel.reset();
    }
  });
}

function render(payload: Payload, root: HTMLElement): void {
  document.title = `${title(payload.info)} · offheap`;
  const panel = flamePanel(payload);
  root.replaceChildren(
    header(payload.info),
    answer(payload),
    figures(payload),
    suspects(payload, panel.find),
    charts(payload),
    panel.element,
    coverage(payload),
    particulars(payload),
    h("footer", {}, `Made by offheap ${payload.offheap_version}. This file is complete in itself and asks nothing of the network.`),
  );
  shortcuts(panel);
  root.dataset["ready"] = String(Math.round(performance.now()));
}

async function start(): Promise<void> {
  startTheme();
  const root = document.getElementById("report");
  const element = document.getElementById("payload");
  if (!root || !element) {
    return;
  }
  try {
    render(await readPayload(element), root);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    root.replaceChildren(
      h("section", { class: "answer warn" }, h("h1", {}, "This report cannot be shown."), h("p", {}, `${visible(reason)}. Make it anew with offheap report.`)),
    );
    root.dataset["ready"] = "failed";
  }
}

void start();
