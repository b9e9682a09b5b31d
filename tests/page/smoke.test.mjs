// A real page in a real browser: SIMRUN_PAGE names a page that simrun wrote. Skipped without one, or without Chromium.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser, chromium } from "./browser.mjs";

const page = process.env.SIMRUN_PAGE;
const skip = !page ? "SIMRUN_PAGE is not set" : !chromium ? "no chromium" : false;
const smoke = (name, body) => test(name, { skip }, body);
let browser;

before(async () => {
  if (skip) return;
  browser = new Browser();
  await browser.open(pathToFileURL(resolve(page)).href);
});
after(async () => browser?.close());

const span = async () => {
  await new Promise((go) => setTimeout(go, 450)); // the hash follows the view after a pause
  const [from, to] = (await browser.value("location.hash")).match(/v=(-?\d+),(\d+)/).slice(1).map(Number);
  return { from, to };
};
const plot = () => browser.value("(({left, top, width, height}) => ({left, top, width, height}))(document.getElementById('plot').getBoundingClientRect())");
const selection = () => browser.value("document.getElementById('selection').textContent");

smoke("the page opens from disk and draws", async () => {
  assert.equal(await browser.value("document.documentElement.dataset.state"), "ready");
  const colours = await browser.value(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const c = document.getElementById('plot');
    done(new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size);
  })))`);
  assert.ok(colours > 4, `${colours} colours`);
});

smoke("W zooms in about the pointer, S out, 0 shows the whole step", async () => {
  const frame = await plot();
  const whole = await span();
  await browser.mouse("mouseMoved", frame.left + 118 + (frame.width - 118) / 2, frame.top + 40);
  await browser.press("w");
  const near = await span();
  const width = (v) => v.to - v.from;
  assert.ok(Math.abs(width(whole) / width(near) - 1.5) < 0.01);
  assert.ok(Math.abs((near.from + near.to) / 2 - (whole.from + whole.to) / 2) < width(whole) * 0.01);
  await browser.press("d");
  assert.ok((await span()).from > near.from);
  await browser.press("0");
  assert.deepEqual(await span(), whole);
});

smoke("the wheel zooms and dragging pans", async () => {
  const frame = await plot();
  const [x, y] = [frame.left + frame.width / 2, frame.top + 60];
  await browser.mouse("mouseWheel", x, y, { deltaX: 0, deltaY: -400 });
  const near = await span();
  await browser.mouse("mousePressed", x, y, { button: "left", buttons: 1, clickCount: 1 });
  await browser.mouse("mouseMoved", x - 100, y, { button: "left", buttons: 1 });
  await browser.mouse("mouseReleased", x - 100, y, { button: "left", clickCount: 1 });
  assert.ok((await span()).from > near.from);
  await browser.press("0");
});

smoke("search finds a pass, announces it, and the next one with Enter", async () => {
  await browser.press("/");
  for (const key of "F1") await browser.press(key);
  await browser.press("Enter");
  assert.match(await selection(), /^0F1 /);
  assert.match(await browser.value("document.getElementById('found').textContent"), /^1 of \d+$/);
  await browser.press("Enter");
  assert.doesNotMatch(await selection(), /^0F1 /);
  await browser.press("Escape");
});

smoke("clicking selects, . goes on, Escape clears", async () => {
  await browser.press("0");
  await span(); // until it is drawn
  const frame = await plot();
  const x = frame.left + 118 + (frame.width - 118) * 0.012; // the first pass of the first rank
  await browser.mouse("mousePressed", x, frame.top + 40, { button: "left", buttons: 1, clickCount: 1 });
  await browser.mouse("mouseReleased", x, frame.top + 40, { button: "left", clickCount: 1 });
  const first = await selection();
  assert.notEqual(first, "");
  await browser.press(".");
  assert.notEqual(await selection(), first);
  await browser.press("Escape");
  assert.equal(await selection(), "");
});

smoke("number keys change the colours, ? opens the help", async () => {
  await browser.press("2");
  assert.equal(await browser.value("document.getElementById('mode-microbatch').ariaPressed"), "true");
  await browser.press("1");
  await browser.press("?");
  assert.equal(await browser.value("document.getElementById('help').open"), true);
  await browser.press("?");
});

smoke("the numbers are in real tables", async () => {
  assert.ok((await browser.value("document.querySelectorAll('.tables table').length")) >= 2);
});

smoke("nothing was fetched and nothing was logged as an error", () => {
  const requests = browser.events.filter((e) => e.method === "Network.requestWillBeSent").map((e) => e.params.request.url);
  assert.deepEqual(requests.filter((url) => !url.startsWith("file:")), []);
  assert.equal(requests.length, 1);
  const errors = browser.events.filter((e) => e.method === "Runtime.exceptionThrown" ||
    (e.method === "Log.entryAdded" && e.params.entry.level === "error"));
  assert.deepEqual(errors.map((e) => JSON.stringify(e.params)), []);
});
