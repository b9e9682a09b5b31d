// Loads modules of visualizer/src as they are, bundled in memory: nothing is written, nothing stale is tested.
import { createRequire } from "node:module";

const viewer = new URL("../../visualizer/", import.meta.url);
const { build } = createRequire(new URL("package.json", viewer))("esbuild");

export async function load(name) {
  const result = await build({
    entryPoints: [new URL(`src/${name}.ts`, viewer).pathname], bundle: true, write: false, format: "esm", target: "es2022",
  });
  return import(`data:text/javascript;base64,${Buffer.from(result.outputFiles[0].contents).toString("base64")}`);
}
