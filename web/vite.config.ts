import { defineConfig } from "vite";
import { singleFile } from "./single-file.ts";

export default defineConfig({
  plugins: [singleFile("report.html", ["uplot"])],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
});
