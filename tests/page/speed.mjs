// How fast a page of so many boxes is: node speed.mjs [--jitter] COUNT... (100000 and 1000000 if none are given). Makes a page of
// 5 pipeline ranks whose durations vary by 2 % in eight steps, or with --jitter each by a factor of its own (a normal distribution
// whose deviation is 2 %, to the picosecond), opens it in Chromium and prints its size, the time to the first picture, and frames
// while it is panned and zoomed. Exits with 1 where a bound of `most` is not kept.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { deflateRawSync } from "node:zlib";
import { Browser } from "./browser.mjs";
import { rankColumns, written } from "./written.mjs";

const most = { bytes: 5e6, firstPaint: 1000, frame: (boxes) => (boxes > 1e5 ? 33 : 16.7) };
const ranks = 5; // all on screen
const perPass = 20; // instructions: 16 of compute, 4 collectives beside them

// The same sequence everywhere.
function randomNumbers(seed) {
  let state = seed;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

// A factor of one execution's duration.
const inSteps = (random) => 1 + Math.floor(random() * 8) / 400;
function jitter(random) {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Math.max(1 + 0.02 * normal, 0.5);
}

// Passes of compute, and a collective behind every fourth instruction that runs beside the next one.
function rankOf(passes, random, factor) {
  const lanes = [0, 1].map((stream) => ({ stream, start: [], duration: [], wait: [], entry: [], instruction: [] }));
  const ends = [0, 0];
  const add = (l, start, duration, entry, instruction) => {
    const box = { start, duration, wait: 0, entry, instruction };
    for (const [name, value] of Object.entries(box)) lanes[l][name].push(value);
    ends[l] = start + duration;
  };
  const all = { start: [], duration: [], entry: [] };
  for (let p = 0; p < passes; p++) {
    const start = Math.max(...ends) + Math.round(random() * 40e6);
    ends[0] = start;
    for (let i = 0; i < perPass; i++) {
      const duration = Math.round((1e6 + (i * 7 % 5) * 2e6) * (p % 2 + 1) * factor(random));
      if (i % 5 === 4) add(1, Math.max(...ends), Math.round(duration / 2), p, i);
      else add(0, ends[0], duration, p, i);
    }
    all.start.push(start);
    all.duration.push(ends[0] - start);
    all.entry.push(p);
  }
  const entries = Array.from({ length: passes }, (_, i) => i % 2);
  const live = Array.from({ length: 6 }, (_, c) => entries.map((_, i) => (c === 3 ? (i % 40) * 1e8 : 0)));
  return { step: Math.max(...ends),
           columns: rankColumns({ segment: entries, microbatch: [entries.map((_, i) => i >> 1), entries.map(() => -1)], lanes, passes: all,
                                  memory: { time: all.start, live } }) };
}

function pageOf(boxes, factor) {
  const random = randomNumbers(1);
  const each = Math.round(boxes / ranks / perPass);
  const made = Array.from({ length: ranks }, () => rankOf(each, random, factor));
  const two = (value) => Array.from({ length: 2 * perPass }, (_, i) => value(i % perPass, Math.floor(i / perPass)));
  const segments = [[0, 1], [1, 2], [0, 0], [0, 0], [-1, -1], [-1, -1], [perPass, perPass]];
  const isTp = (i) => i % 5 === 4;
  const instructions = [two((i) => (isTp(i) ? 4 : 3)), two(() => 0), two(() => 0), two((i, s) => (s === 1 && i < 5 ? 1 : 0)),
                        two((i) => i), two((i) => (isTp(i) ? 1 : 0)), two(() => 1e6), two((i) => (isTp(i) ? 0 : 1e9)), two(() => -1),
                        two(() => 0), two(() => 0)];
  const path = [0, 0, 0].map(() => []);
  const bytes = written(...segments, ...instructions, ...made.flatMap(({ columns }) => columns), ...path);
  const facts = {
    version: 6, step: Math.max(...made.map(({ step }) => step)),
    predictedStep: Math.max(...made.map(({ step }) => step)), memoryLimit: 8e10, peakFlops: 1e15, bidirectional: false,
    streams: [{ name: "compute", traffic: "compute" }, { name: "tp", traffic: "tp" }],
    categories: ["weights", "gradients", "optimizer", "activations", "comm", "workspace"],
    ranks: made.map((_, pp) => ({ pp, multiplicity: 8, gpus: 8, device: 0 })), gpusPerNode: 8, useSteps: 10000, links: [],
    strings: ["", "forward", "backward", "gemm", "all_gather"],
  };
  const template = readFileSync(new URL("../../visualizer/dist/viewer.html", import.meta.url), "utf8");
  const parts = { title: `${boxes} boxes`, numbers: "", tables: "", facts: JSON.stringify(facts),
                  columns: deflateRawSync(bytes).toString("base64") };
  return template.replace(/<!--simrun:([\w-]+)-->/g, (_, name) => parts[name] ?? ""); // no second run
}

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[values.length >> 1];

// Milliseconds from one frame to the next while `change(i)` runs in each.
const frames = (tab, change, count = 60) => tab.value(`new Promise((done) => {
  const times = [];
  const canvas = document.getElementById("plot");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const wheel = (deltaX, deltaY) => canvas.dispatchEvent(new WheelEvent("wheel", { deltaX, deltaY, cancelable: true,
    clientX: left + width * 0.6, clientY: top + height / 2 }));
  let i = 0;
  const next = (now) => {
    times.push(now);
    if (i === ${count}) return done(times.slice(1).map((time, t) => time - times[t]));
    (${change})(i++, wheel);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})`);

let isKept = true;
const browser = new Browser();
const folder = mkdtempSync(join(tmpdir(), "simrun-speed-"));
const isJittered = process.argv[2] === "--jitter";
const counts = process.argv.slice(isJittered ? 3 : 2).map(Number);
for (const boxes of counts.length > 0 ? counts : [1e5, 1e6]) {
  const file = join(folder, `${boxes}.html`);
  const html = pageOf(boxes, isJittered ? jitter : inSteps);
  writeFileSync(file, html);
  const tab = await browser.open(pathToFileURL(file).href);
  const state = await tab.until("document.documentElement?.dataset.state", 60000);
  if (state !== "ready") throw new Error(await tab.value("document.getElementById('selection').textContent"));
  const firstPaint = await tab.until("performance.getEntriesByName('first picture')[0]?.startTime", 60000);
  const pan = await frames(tab, "(i, wheel) => wheel(i % 2 ? -300 : 300, 0)");
  const zoom = await frames(tab, "(i, wheel) => wheel(0, i < 30 ? -60 : 60)");
  const select = await tab.value(`(() => {
    const begin = performance.now();
    document.getElementById("plot").focus();
    window.dispatchEvent(new KeyboardEvent("keydown", { key: "." }));
    return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin))));
  })()`);
  const bound = most.frame(boxes);
  const text = (times) => `median ${median(times).toFixed(1)} ms, worst ${sorted(times).at(-1).toFixed(0)} ms`;
  console.log(`${boxes} boxes${isJittered ? " with jitter" : ""}: ${(html.length / 1e6).toFixed(2)} MB, first picture ${firstPaint.toFixed(0)} ms, pan ${text(pan)}, ` +
              `zoom ${text(zoom)}, first selection ${select.toFixed(0)} ms`);
  isKept &&= html.length < most.bytes && firstPaint < most.firstPaint && median(pan) <= bound && median(zoom) <= bound;
  await tab.close();
}
rmSync(folder, { recursive: true });
await browser.close();
process.exitCode = isKept ? 0 : 1;
