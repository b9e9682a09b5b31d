// Takes the pictures of README.md: node screenshots.mjs FOLDER with the pages that scripts/screenshots.sh wrote there, which is who runs
// it. Writes FOLDER/page-*.png; fails where a page does not show what its picture is to show.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";

const folder = resolve(process.argv[2]);
const width = 1280;
const largest = 150e3; // bytes of a picture

// `from` and `to`: the elements that the picture begins and ends with, `right`: where it ends in CSS pixels. `shows`: what the page says then.
const pictures = [
  { name: "page-step", job: "llama3-70b-64xh100", scheme: "light", keys: [], from: "header", to: "#legend", shows: /^$/ },
  { name: "page-selected", job: "tiny-4xa100", scheme: "dark", keys: ["/", "1", "F", "2", "Enter"], from: "nav", to: "#selection",
    shows: /^1F2 {2}forward pass on pp 1/ },
  { name: "page-gpus", job: "llama3-70b-64xh100", scheme: "light", hash: "#u=0&s=0,1,200,1", keys: ["f", "s", "s", "s", "s", "s", "s", "s"],
    from: "nav", to: "#selection", shows: /among gpus 0-7 \(tp\)/ },
  { name: "page-explained", job: "llama3-70b-64xh100", scheme: "light", keys: [], from: "figure:has(.idle)", to: ".waterfall",
    right: 830, shows: /^$/ },
  { name: "page-peak", job: "llama3-70b-64xh100", scheme: "dark", keys: [], from: "figure:has(.treemap)", to: "figure:has(.treemap)",
    right: 676, shows: /^$/ },
];

const browser = new Browser();
for (const { name, job, scheme, hash = "", keys, from, to, shows, right = width } of pictures) {
  const tab = await browser.open(pathToFileURL(join(folder, `${job}.html`)).href, scheme);
  await tab.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
  assert.equal(await tab.until("document.documentElement?.dataset.state"), "ready");
  await tab.value(`location.hash = "${hash}"`);
  await tab.frame();
  for (const key of keys) await tab.press(key);
  await tab.frame();
  const text = await tab.value("document.getElementById('selection').textContent");
  assert.match(text, shows, `${name} shows something else`);
  const edge = (selector, side) => tab.value(`document.querySelector("${selector}").getBoundingClientRect().${side} + scrollY`);
  const [top, bottom] = [Math.max((await edge(from, "top")) - 6, 0), (await edge(to, "bottom")) + 8];
  const { data } = await tab.send("Page.captureScreenshot", {
    format: "png", captureBeyondViewport: true, clip: { x: 0, y: top, width: right, height: bottom - top, scale: 1 },
  });
  const png = Buffer.from(data, "base64");
  assert.ok(png.length < largest, `${name} has ${png.length} bytes`);
  assert.deepEqual(tab.faults, []);
  writeFileSync(join(folder, `${name}.png`), png);
  await tab.close();
}
await browser.close();
