// Writes dist/viewer.html and dist/estimator.html: the templates with CSS and script inlined. The data's places stay open:
// visualizer/page.cpp and cli/serve.cpp fill them.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const bundled = async (entry) => {
  const result = await build({
    entryPoints: [here + entry], bundle: true, minify: true, write: false, target: "es2022", format: "iife",
    charset: "ascii", legalComments: "none",
  });
  return result.outputFiles[0].text.trim();
};

const template = await readFile(here + "src/template.html", "utf8");
const between = (start, end) => {
  const [from, to] = [template.indexOf(start), template.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`src/template.html has no ${start} before ${end}`);
  return template.slice(from, to).trim();
};

async function write(name, html, parts) {
  for (const [part, text] of Object.entries({ css: parts.css, js: parts.js })) {
    if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`the ${part} of ${name} would end its own element`);
  }
  const filled = html.replace(/<!--build:([\w-]+)-->/g, (_, part) => parts[part]);
  await mkdir(here + "dist", { recursive: true });
  await writeFile(`${here}dist/${name}`, filled);
  console.log(`dist/${name}: ${filled.length} bytes`);
}

await write("viewer.html", template, { css: await bundled("src/viewer.css"), js: await bundled("src/main.ts") });

// The estimator has the viewer's plot and keys.
const js = await bundled("src/estimator.ts");
await write("estimator.html", await readFile(here + "src/estimator.html", "utf8"), {
  css: await bundled("src/estimator.css"), js,
  "js-hash": `sha256-${createHash("sha256").update(js).digest("base64")}`,
  viewer: between(`<canvas id="minimap"`, `<section class="tables">`),
  help: between(`<dialog id="help"`, `<script type="application/json" id="facts">`),
});
