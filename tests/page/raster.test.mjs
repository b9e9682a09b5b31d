import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { drawStrip, eventAt, fullestEvents, peakEvent } = await load("stack");
const { busiestAt, drawUse, highestUse, peakUse, useAt, useOf } = await load("links");
const { fillLines, firstEndingAfter, pixelOf, rasteriseRow, RowSums } = await load("raster");

const boxes = (...spans) => ({
  start: Float64Array.from(spans, ([start]) => start), duration: Float64Array.from(spans, ([, duration]) => duration),
});
const row = (b, colours, scale, ground = 0xffffff) => {
  const out = new Uint32Array(scale.width);
  rasteriseRow(b, Uint32Array.from(colours), scale, ground, new RowSums(scale.width), out);
  return [...out];
};
const [red, blue, white] = [0xff0000, 0x0000ff, 0xffffff];

test("pixels are what ImageData wants: alpha, blue, green, red", () => {
  assert.equal(pixelOf(0x123456), 0xff563412);
});

test("a box fills its pixels and leaves the rest bare", () => {
  const pixels = row(boxes([1, 2]), [red], { from: 0, perPixel: 1, width: 4 });
  assert.deepEqual(pixels, [white, red, red, white].map(pixelOf));
});

test("a pixel shows the time-weighted mean of what it covers", () => {
  // One pixel of 10: red for 4, blue for 4, bare for 2 -> r 102 + 51, g 51, b 102 + 51.
  const pixels = row(boxes([0, 4], [4, 4]), [red, blue], { from: 0, perPixel: 10, width: 1 });
  assert.deepEqual(pixels, [pixelOf((153 << 16) | (51 << 8) | 153)]);
});

test("a thousand boxes in one pixel keep their density", () => {
  const many = boxes(...Array.from({ length: 1000 }, (_, i) => [i, 0.25]));
  const pixels = row(many, new Array(1000).fill(0x000000), { from: 0, perPixel: 1000, width: 1 });
  assert.deepEqual(pixels, [pixelOf(0xbfbfbf)]); // a quarter black
});

test("wide boxes end a pixel early, so that neighbours of one colour can be told apart", () => {
  const pixels = row(boxes([0, 6], [6, 6]), [red, red], { from: 0, perPixel: 1, width: 12 });
  assert.deepEqual(pixels, [red, red, red, red, red, white, red, red, red, red, red, white].map(pixelOf));
});

test("what lies left and right of the view is clipped, wherever the view begins", () => {
  const pixels = row(boxes([-2, 3], [3, 100]), [red, blue], { from: 0, perPixel: 1, width: 5 });
  assert.deepEqual(pixels, [red, white, white, blue, blue].map(pixelOf));
});

test("the first visible box is found by binary search, also between and behind boxes", () => {
  const b = boxes([0, 10], [20, 10], [40, 10]);
  for (const [time, index] of [[-1, 0], [0, 0], [9.9, 0], [10, 1], [15, 1], [30, 2], [50, 3]]) {
    assert.equal(firstEndingAfter(b, time), index, `at ${time}`);
  }
});

test("lines outside the image are not drawn", () => {
  const image = new Uint32Array(2 * 3);
  fillLines(image, 2, Uint32Array.of(7, 8), -1, 2);
  fillLines(image, 2, Uint32Array.of(5, 6), 2, 9);
  assert.deepEqual([...image], [7, 8, 0, 0, 5, 6]);
});

const memory = {
  time: Float64Array.of(0, 10, 11, 30), live: [Float64Array.of(4, 4, 4, 4), Float64Array.of(0, 4, 1, 2)],
};

test("the peak is the fullest moment, and the event in force is the last one before", () => {
  assert.equal(peakEvent(memory), 1);
  assert.deepEqual([-1, 0, 9, 10, 29, 99].map((t) => eventAt(memory, t)), [-1, 0, 0, 1, 2, 3]);
});

test("a peak shorter than a pixel is still shown", () => {
  assert.deepEqual([...fullestEvents(memory, { from: -20, perPixel: 20, width: 4 })], [-1, 1, 3, 3]);
});

test("the strip stacks categories from the bottom and draws the limit over them", () => {
  const image = new Uint32Array(1 * 10);
  const scale = { from: 10, perPixel: 0.5, width: 1 };
  drawStrip(image, 1, memory, scale, { top: 0, height: 10, full: 10, limit: 9 },
            { categories: [0x111111, 0x222222], order: [0, 1], limit: 0x333333 });
  const [w, a, l] = [0x111111, 0x222222, 0x333333].map(pixelOf);
  assert.deepEqual([...image], [l, 0, a, a, a, a, w, w, w, w]); // 4 + 4 of 10; the limit at 9
});

// Four slices of 10 in a step of 40.
const link = (...use) => ({ use: Float64Array.from(use) });
const nic = link(0, 1, 0.5, 0);

test("a pixel of a link lane has the mean of what it covers, and the highest slice that it touches", () => {
  const { mean, peak } = useOf(nic, 40, { from: 0, perPixel: 20, width: 3 });
  assert.deepEqual([...mean], [0.5, 0.25, 0]); // (0 + 1) / 2, (0.5 + 0) / 2, behind the step
  assert.deepEqual([...peak], [1, 0.5, 0]);
  const near = useOf(nic, 40, { from: -5, perPixel: 5, width: 4 });
  assert.deepEqual([...near.mean], [0, 0, 0, 1]);
  const across = useOf(nic, 40, { from: 15, perPixel: 10, width: 1 }); // half of slice 1, half of slice 2
  assert.deepEqual([...across.mean], [0.75]);
  assert.deepEqual([...across.peak], [1]);
});

test("the mean over a view is the same however many pixels show it", () => {
  for (const width of [1, 3, 7, 40, 1600]) {
    const { mean } = useOf(nic, 40, { from: 0, perPixel: 40 / width, width });
    assert.ok(Math.abs(mean.reduce((sum, m) => sum + m, 0) / width - 0.375) < 1e-9, `${width} pixels`);
  }
});

test("the folded row shows the busiest link of every pixel", () => {
  const { mean, peak } = highestUse([nic, link(0.25, 0.25, 0.25, 0.75)], 40, { from: 0, perPixel: 10, width: 4 });
  assert.deepEqual([...mean], [0.25, 1, 0.5, 0.75]);
  assert.deepEqual([...peak], [0.25, 1, 0.5, 0.75]);
});

test("a link's use is looked up by time, and its peak", () => {
  assert.deepEqual([-1, 0, 10, 29, 30, 40].map((time) => useAt(nic, 40, time)), [0, 0, 1, 0.5, 0, 0]);
  assert.equal(peakUse(nic), 1);
  assert.equal(busiestAt([nic, link(0.25, 0, 0, 0)], 40, 5), 1);
  assert.equal(busiestAt([nic, link(0.25, 0, 0, 0)], 40, 35), -1);
});

test("a link lane fills from the bottom: the mean, then up to the peak; what is used at all shows", () => {
  const image = new Uint32Array(3 * 12);
  const use = { mean: Float64Array.of(0.5, 0.001, 0), peak: Float64Array.of(0.8, 0.001, 0) };
  drawUse(image, 3, use, { top: 1, height: 10 }, { mean: 0x111111, peak: 0x222222 });
  const [m, p] = [0x111111, 0x222222].map(pixelOf);
  const column = (x) => [...image].filter((_, i) => i % 3 === x);
  assert.deepEqual(column(0), [0, 0, 0, p, p, p, m, m, m, m, m, 0]);
  assert.deepEqual(column(1), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, m, 0]);
  assert.deepEqual(column(2), new Array(12).fill(0));
});
