// Bundles the page into a folder: node build.mjs FOLDER. The same sources give the same bytes on every machine.

import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) throw new Error("node build.mjs FOLDER");
await mkdir(out, { recursive: true });

await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.ts" },
  outdir: resolve(out),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "eof",
  tsconfigRaw: "{}",
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  entryPoints: { console: "src/page.css" },
  outdir: resolve(out),
  bundle: true,
  minify: true,
  target: ["chrome108", "firefox108", "safari16"],
  legalComments: "eof",
  logLevel: "warning",
});
const copied = {
  "src/page.html": "console.html",
  "src/icon.svg": "console.svg",
  "node_modules/@xterm/xterm/LICENSE": "LICENSE.xterm.txt",
  "node_modules/@xterm/addon-fit/LICENSE": "LICENSE.addon-fit.txt",
};
for (const [from, to] of Object.entries(copied)) await copyFile(join(here, from), join(out, to));

// What the files were made from: a test compares it with the sources where there is no npm.
const sources = ["package.json", "build.mjs", ...(await readdir(join(here, "src"))).sort().map((name) => `src/${name}`)];
const lines = [];
for (const name of sources) lines.push(`${createHash("sha256").update(await readFile(join(here, name))).digest("hex")}  ${name}`);
await writeFile(join(out, "SOURCES.sha256"), lines.join("\n") + "\n");
