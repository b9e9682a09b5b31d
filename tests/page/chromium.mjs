// Pages in a real browser: node chromium.mjs PAGE.html... Galleries of schedules end in .gallery.html. Every other page is opened from
// disk and must draw, log no error and ask for nothing. The first of those that offer the same must also be drawn in dark, be accessible
// and answer to keys and pointer. Needs node 18 and Chromium, no package. scripts/page.sh browser runs it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";
import {
  checkAccessibility, checkAddress, checkKeyboard, checkMarksAndMeasure, checkPath, checkPictures, checkTouch, checkUnfolding,
} from "./reading.mjs";

const isGallery = (page) => page.endsWith(".gallery.html"); // of `simrun --schedule all`: diagrams without a script
const pages = process.argv.slice(2).filter((page) => !isGallery(page));
const galleries = process.argv.slice(2).filter(isGallery);
const gutter = 118; // CSS pixels left of the lanes, as in visualizer/src/draw.ts
const axis = 22;
const atOnce = 2; // pages, each in a browser: starting one takes seconds
const browsers = []; // that are free, one for each page at a time
let touchSeen = false;
let linkLanes = 0; // of all pages
let pairsSeen = 0; // pages with overlapped pairs
let pathsSeen = 0; // with a critical path
let unfoldedSeen = 0; // with a rank that unfolds
before(() => {
  for (let i = 0; i < atOnce; i++) browsers.push(new Browser());
});
after(() => Promise.all(browsers.map((browser) => browser.close())));
async function withBrowser(check) {
  const browser = browsers.pop();
  try {
    await check(browser);
  } finally {
    browsers.push(browser);
  }
}

const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

// Reads the canvas in the page: how many colours it has, and how many bands of lines in which something is drawn. Rows of lanes
// are such bands: between them lies bare ground.
const drawn = (tab) => tab.value(`(() => {
  const canvas = document.getElementById("plot");
  const ratio = window.devicePixelRatio;
  const [left, top] = [Math.round(${gutter} * ratio) + 1, Math.round(${axis} * ratio) + 1];
  const width = canvas.width - left - Math.round(8 * ratio); // not the scroll bar
  const { data } = canvas.getContext("2d").getImageData(left, top, width, canvas.height - top);
  const pixels = new Uint32Array(data.buffer);
  let [bands, inside] = [0, false];
  for (let y = 0; y < canvas.height - top; y++) {
    const line = pixels.subarray(y * width, (y + 1) * width);
    const painted = line.some((pixel) => pixel !== line[0]);
    if (painted && !inside) bands++;
    inside = painted;
  }
  return { colours: new Set(pixels).size, bands, ground: pixels[0] };
})()`);

const frameOf = (tab) => tab.value(`(({ left, top, width, height }) => ({ left, top, width, height }))(
  document.getElementById("plot").getBoundingClientRect())`);
const text = (tab, id) => tab.value(`document.getElementById("${id}").textContent`);
// Of two runs that are compared only ranks are drawn.
const facts = (tab) => tab.value(`(() => {
  const [a, b] = ["facts", "facts-b"].map((id) => JSON.parse(document.getElementById(id).textContent || "null"));
  return { ranks: a.ranks.length + (b ? b.ranks.length : 0), links: b ? 0 : a.links.length, runs: b ? 2 : 1 };
})()`);

// The view that the hash names, once it is as wanted: the hash follows after a pause.
async function viewThat(tab, name, holds) {
  let hash = "";
  for (const end = Date.now() + 10000; Date.now() < end; await pause(30)) {
    hash = await tab.value("location.hash");
    const found = hash.match(/v=(-?\d+),(\d+)/);
    if (!found) continue;
    const [from, to] = found.slice(1).map(Number);
    const view = { from, to, width: to - from };
    if (holds(view)) return view;
  }
  return assert.fail(`${name}, but the view is ${hash}`);
}

async function opened(browser, page, scheme) {
  const tab = await browser.open(pathToFileURL(resolve(page)).href, scheme);
  const state = await tab.until("document.documentElement?.dataset.state");
  assert.equal(state, "ready", `${await text(tab, "selection")} ${tab.faults.join("; ")}`);
  await tab.frame();
  return tab;
}

async function checkLanes(tab) {
  const { ranks } = await facts(tab);
  const { height } = await frameOf(tab);
  const { colours, bands } = await drawn(tab);
  assert.ok(ranks > 0);
  assert.ok(colours > 4, `${colours} colours`);
  assert.ok(bands >= Math.min(ranks, Math.floor(height / 130)), `${bands} bands for ${ranks} ranks`);
  assert.ok((await tab.value("document.querySelectorAll('.tables table').length")) >= 2);
}

async function checkZoom(tab) {
  const frame = await frameOf(tab);
  const whole = await viewThat(tab, "the hash names the view", () => true);
  const [x, y] = [frame.left + gutter + (frame.width - gutter) / 2, frame.top + 60];
  await tab.mouse("mouseMoved", x, y);
  await tab.press("w");
  const near = await viewThat(tab, "W zooms in by half", (v) => Math.abs(whole.width / v.width - 1.5) < 0.01);
  assert.ok(Math.abs(near.from + near.to - whole.from - whole.to) < whole.width * 0.02, "about the pointer");
  await tab.press("d");
  const right = await viewThat(tab, "D moves on", (v) => v.from > near.from);
  await tab.mouse("mousePressed", x, y, { button: "left", buttons: 1, clickCount: 1 });
  await tab.mouse("mouseMoved", x + 60, y, { button: "left", buttons: 1 });
  await tab.mouse("mouseReleased", x + 60, y, { button: "left", clickCount: 1 });
  await viewThat(tab, "dragging to the right moves back", (v) => v.from < right.from);
  await tab.mouse("mouseWheel", x, y, { deltaX: 0, deltaY: -400 });
  await viewThat(tab, "the wheel zooms in", (v) => v.width < near.width * 0.9);
  await tab.press("0");
  await viewThat(tab, "0 shows the whole step", (v) => v.from === whole.from && v.to === whole.to);
}

// What is selected once these keys were typed into the search.
async function selectedBySearch(tab, keys) {
  await tab.press("/");
  for (const key of keys) await tab.press(key);
  await tab.press("Enter");
  return text(tab, "selection");
}

async function checkSelection(tab) {
  let microbatch = 1;
  if (await selectedBySearch(tab, "F1") === "") { // a step of one microbatch
    microbatch = 0;
    await tab.press("Escape");
    await selectedBySearch(tab, "F0");
  }
  assert.match(await text(tab, "selection"), new RegExp(`^0F${microbatch} `));
  const [, count] = (await text(tab, "found")).match(/^1 of (\d+)$/);
  await tab.press("Enter");
  assert.equal(await text(tab, "found"), `${Number(count) > 1 ? 2 : 1} of ${count}`);
  const { runs } = await facts(tab); // the second of two runs may have a 0F1 as well
  const next = runs > 1 ? `^\\d+F${microbatch} ` : Number(count) > 1 ? `^\\d*[1-9]F${microbatch} ` : `^0F${microbatch} `;
  assert.match(await text(tab, "selection"), new RegExp(next));
  await tab.press("Escape"); // leaves the search
  await tab.press("Escape");
  assert.equal(await text(tab, "selection"), "");
  await tab.press("0");
  for (let i = 0; i < 8; i++) await tab.press("PageUp"); // what was found may lie far below
  const frame = await frameOf(tab);
  // The first box under the middle of the first lane, from the left.
  for (let x = gutter + 4; x < frame.width && (await text(tab, "selection")) === ""; x += 16) {
    await tab.click(frame.left + x, frame.top + axis + 18);
  }
  const first = await text(tab, "selection");
  assert.notEqual(first, "", "clicking selects");
  await tab.press(".");
  assert.notEqual(await text(tab, "selection"), first, ". goes on");
  await tab.press("Escape");
}

// Where the pointer is told something that matches, from the top of the canvas down.
async function heightOf(tab, pattern) {
  const frame = await frameOf(tab);
  for (let y = axis + 4; y < frame.height; y += 12) { // rows of links are 26 high, thinner ones may be missed
    await tab.mouse("mouseMoved", frame.left + frame.width / 2, frame.top + y);
    if (pattern.test(await text(tab, "tip"))) return frame.top + y;
  }
  return -1;
}

async function checkLinks(tab) {
  const { links } = await facts(tab);
  linkLanes += links;
  const expanded = () => tab.value("document.getElementById('links').getAttribute('aria-expanded')");
  assert.equal(await tab.value("document.getElementById('links').hidden"), links === 0);
  if (links === 0) return;
  assert.equal(await expanded(), "false");
  await tab.press("l");
  assert.equal(await expanded(), "true");
  await tab.frame();
  assert.ok((await heightOf(tab, /^\S+ {2}\d+ % of [\d.]+ [GM]B\/s at /)) > 0, "a link's lane tells its use");
  const header = await heightOf(tab, /click or L/);
  assert.ok(header > 0, "the row of all links is in view");
  const frame = await frameOf(tab);
  await tab.click(frame.left + 40, header);
  assert.equal(await expanded(), "false", "clicking the row folds it");
  await tab.value("document.getElementById('links').click()");
  assert.equal(await expanded(), "true", "the button opens it");
  await tab.frame();
  assert.ok((await drawn(tab)).colours > 2);
  await tab.press("l");
  assert.ok((await tab.value("[...document.querySelectorAll('caption')].some((c) => c.textContent.startsWith('Links'))")));
}

// A page whose legend has overlapped pairs: either of a pair's passes, and both, find it.
async function checkPairs(tab) {
  if (!(await text(tab, "legend")).includes("forward with backward")) return;
  pairsSeen++;
  const search = async (query) => {
    await tab.press("Escape"); // leaves the search before
    await tab.press("/");
    for (const key of query) await tab.press(key);
  };
  let pair;
  await search("F");
  for (let tries = 0; tries < 200 && !pair; tries++) {
    await tab.press("Enter");
    pair = (await text(tab, "selection")).match(/^(\((\d+F\d+);(\d+B\d+)\)) {2}forward with backward pass on pp \d+ /);
  }
  assert.ok(pair, "a forward in a pair is found");
  const [, both, forward, backward] = pair;
  for (const query of [forward, backward, both]) {
    await search(query);
    assert.equal(await text(tab, "found"), "1 found", query);
    await tab.press("Enter");
    assert.ok((await text(tab, "selection")).startsWith(`${both} `), query);
  }
  await tab.press("Escape"); // leaves the search
  await tab.press("f");
  await tab.frame();
  assert.ok((await drawn(tab)).colours > 4);
  for (const mode of "2341") await tab.press(mode);
  await tab.press("Escape");
  await tab.press("0");
}

async function checkOther(tab) {
  await tab.press("2");
  assert.equal(await tab.value("document.getElementById('mode-microbatch').ariaPressed"), "true");
  await tab.press("1");
  await tab.press("?");
  assert.equal(await tab.value("document.getElementById('help').open"), true);
  await tab.press("?");
}

// What a page offers: the controls and the legend that it shows.
const offers = (tab) => tab.value(`JSON.stringify([[...document.querySelectorAll("button")].filter((button) => button.offsetParent)
  .map(({ id }) => id), document.getElementById("legend").textContent, !!document.getElementById("facts-b").textContent.trim()])`);

async function checkDark(browser, page, light) {
  const night = await opened(browser, page, "dark");
  await checkLanes(night);
  assert.notEqual((await drawn(night)).ground, light, "dark has another ground");
  await checkLinks(night);
  await checkAccessibility(night);
  assert.deepEqual(night.faults, []);
  await night.close();
}

// That every page draws is checked; all else, which takes ten times as long, on the first of those that offer the same.
const offered = new Set();
async function checkPage(browser, page) {
  const tab = await opened(browser, page, "light");
  const kind = await offers(tab);
  const whole = page === pages[0] || !offered.has(kind);
  offered.add(kind);
  await checkLanes(tab);
  if (whole) {
    const light = await drawn(tab);
    await checkZoom(tab);
    await checkSelection(tab);
    await checkLinks(tab);
    await checkPairs(tab);
    await checkOther(tab);
    if (await checkPath(tab)) pathsSeen++;
    if (await checkUnfolding(tab)) unfoldedSeen++;
    await checkAddress(tab, await checkMarksAndMeasure(tab));
    await checkKeyboard(tab);
    if (page === pages[0]) { // alike on all pages, and slow
      await checkTouch(tab);
      touchSeen = true;
    }
    await checkPictures(tab);
    await checkAccessibility(tab);
    await checkDark(browser, page, light.ground);
  }
  assert.deepEqual(tab.faults, []);
  await tab.close();
}

describe("pages", { concurrency: atOnce }, () => {
  for (const page of pages)
    test(`${basename(page)}: draws, answers, and asks for nothing`, () => withBrowser((browser) => checkPage(browser, page)));
});

// Every diagram of a gallery: is it drawn inside the page, and do its lanes and passes have a size?
const diagrams = (tab) => tab.value(`[...document.querySelectorAll(".gallery section")].map((section) => {
  const svg = section.querySelector("svg");
  const { left, right, height } = svg.getBoundingClientRect();
  const sizes = [...svg.querySelectorAll("path[fill]")].map((path) => path.getBBox());
  return { inside: left >= 0 && right <= innerWidth, height, name: section.id,
           paths: sizes.length, empty: sizes.filter((size) => !(size.width > 0 && size.height > 0)).length };
})`);

for (const page of galleries) {
  test(`${basename(page)}: every schedule is drawn, in light and dark, and the page asks for nothing`, () => withBrowser(async (browser) => {
    const grounds = [];
    for (const scheme of ["light", "dark"]) {
      const tab = await browser.open(pathToFileURL(resolve(page)).href, scheme);
      await tab.until("document.readyState === 'complete'");
      const drawings = await diagrams(tab);
      assert.ok(drawings.length > 10, `${drawings.length} diagrams`);
      for (const { name, inside, height, paths, empty } of drawings) {
        assert.ok(inside && height > 40, `${name} is in view`);
        assert.ok(paths >= 3 && empty === 0, `${name}: lanes and at least two kinds of passes`); // lanes, F, B
      }
      const rows = await tab.value("document.querySelectorAll('table')[0].querySelectorAll('tbody tr').length");
      assert.equal(rows, drawings.length, "a row of the table for each");
      grounds.push(await tab.value("getComputedStyle(document.body).backgroundColor"));
      assert.deepEqual(tab.faults, []);
      await tab.close();
    }
    assert.notEqual(grounds[0], grounds[1], "dark has another ground");
  }));
}

test("lanes of links, overlapped pairs, critical paths, ranks that unfold and touch were among what was checked", () => {
  assert.ok(touchSeen);
  assert.ok(offered.size >= 5, `${offered.size} kinds of pages`);
  assert.ok(linkLanes > 0);
  assert.ok(pathsSeen > 0);
  assert.ok(pairsSeen > 0);
  assert.ok(unfoldedSeen > 0);
});

// The check itself: each of these must be seen.
const broken = {
  "console error": ["<script>console.error('of ours')</script>", /console\.error: of ours/],
  "failed assertion": ["<script>console.assert(1 > 2, 'of ours')</script>", /console\.assert: of ours/],
  exception: ["<script>throw new Error('of ours')</script>", /exception: .*of ours/],
  "rejection that nobody handles": ["<script>Promise.reject(new Error('of ours'))</script>", /exception: .*of ours/],
  image: ["<img src='http://127.0.0.1:9/x.png'>", /request.*127\.0\.0\.1:9\/x\.png/],
  fetch: ["<script>fetch('https://127.0.0.1:9/y').catch(() => {})</script>", /request.*127\.0\.0\.1:9\/y/],
  "file beside the page": ["<link rel=stylesheet href='other.css'>", /request.*other\.css/],
  socket: ["<script>new WebSocket('ws://127.0.0.1:9/z').onerror = () => {}</script>", /127\.0\.0\.1:9\/z/],
  "request that the page's own policy stops":
    ["<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><img src='http://127.0.0.1:9/w.png'>", /w\.png/],
};
test("a fault in a page does not go unseen", () => withBrowser(async (browser) => {
  const folder = mkdtempSync(join(tmpdir(), "simrun-broken-"));
  for (const [name, [html, pattern]] of Object.entries(broken)) {
    const file = join(folder, "broken.html");
    writeFileSync(file, `<!DOCTYPE html><html><head><link rel=icon href="data:,"></head><body>${html}</body></html>`);
    const tab = await browser.open(pathToFileURL(file).href);
    for (let waited = 0; waited < 5000 && !tab.faults.some((fault) => pattern.test(fault)); waited += 20) await pause(20);
    assert.ok(tab.faults.some((fault) => pattern.test(fault)), `${name} was not seen: ${JSON.stringify(tab.faults)}`);
    await tab.close();
  }
  rmSync(folder, { recursive: true });
}));
