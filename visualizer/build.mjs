// Writes dist/viewer.html: the template with CSS and script inlined. The data's places stay open: visualizer/page.cpp fills them.
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

const parts = { css: await bundled("src/viewer.css"), js: await bundled("src/main.ts") };
for (const [name, text] of Object.entries(parts)) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`the ${name} would end its own element`);
}
const template = await readFile(here + "src/template.html", "utf8");
const html = template.replace(/<!--build:(\w+)-->/g, (_, name) => parts[name]);
await mkdir(here + "dist", { recursive: true });
await writeFile(here + "dist/viewer.html", html);
console.log(`dist/viewer.html: ${html.length} bytes`);
