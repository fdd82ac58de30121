import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

/**
 * Puts the one script and the one style sheet of the bundle into its HTML file, renamed to `name`,
 * under a Content-Security-Policy that allows these two, by hash, and nothing else:
 * no request leaves the page, and no text of the payload can become code.
 * The licences of the `bundled` packages go with it, as they ask for.
 */
export function singleFile(name: string, bundled: string[]): Plugin {
  return {
    name: "single-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const files = Object.values(bundle);
      const scripts = files.filter((file) => file.type === "chunk");
      const assets = files.filter((file) => file.type === "asset");
      const style = assets.find((file) => file.fileName.endsWith(".css"));
      const page = assets.find((file) => file.fileName.endsWith(".html"));
      const [script] = scripts;
      if (!script || !style || !page || files.length !== 3) {
        this.error(`expected one script, one style sheet and one page, not ${files.map((file) => file.fileName).join(", ")}`);
      }
      // "</script" or "<!--" inside a string of the bundle would end or derail the element.
      const code = script.code.replace(/<(?=\/script|!--|script)/gi, "\\x3C").trim();
      const css = String(style.source).trim();
      const policy = [
        "default-src 'none'",
        `script-src '${hash(code)}'`,
        `style-src '${hash(css)}'`,
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        // Replacer functions: a replacement string would give "$&" in the code a meaning.
        .replace("<html", () => `${bundled.map(notice).join("\n")}\n<html`)
        .replace("<title>", () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />\n    <title>`)
        .replace("</head>", () => `  <style>${css}</style>\n  </head>`)
        .replace("</body>", () => `  <script type="module">${code}</script>\n  </body>`);
      if (/(src|href)="/.test(html.replace(code, "").replace(css, ""))) {
        this.error("the page still refers to another file");
      }
      for (const file of files) {
        delete bundle[file.fileName];
      }
      this.emitFile({ type: "asset", fileName: name, source: html });
    },
  };
}

function notice(bundled: string): string {
  const licence = readFileSync(new URL(`node_modules/${bundled}/LICENSE`, import.meta.url), "utf-8");
  return `<!-- This page contains ${bundled}:\n\n${licence.trim().replaceAll("--", "- -")}\n-->`;
}

function hash(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
