import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { sliderStops } = await load("form");
const field = (slider, least, most, top) => ({ key: "x.y", kind: "integer", value: "0", slider, least, most, top });

test("a slider over doublings stops at powers of two within what the loader accepts, and at the value that is there", () => {
  assert.deepEqual(sliderStops(field("doubling", 1, 64, 16), 8), [1, 2, 4, 8, 16]);
  assert.deepEqual(sliderStops(field("doubling", 1, 8, 64), 8, 6), [1, 2, 4, 6, 8]);
  assert.deepEqual(sliderStops(field("doubling", 1, 8192, 16), 128), [1, 2, 4, 8, 16, 128]); // beyond its end
});

test("a slider over ones stops at every number", () => {
  assert.deepEqual(sliderStops(field("ones", 0, 3, 3), 1), [0, 1, 2, 3]);
});

test("a slider over a model's dimension stops at quarters and multiples of what the model has, as far as they are whole", () => {
  assert.deepEqual(sliderStops(field("relative", 1, 1000, 1000), 80), [20, 40, 60, 80, 100, 120, 160, 240, 320]);
  assert.deepEqual(sliderStops(field("relative", 1, 1000, 1000), 3), [3, 6, 9, 12]);
  assert.deepEqual(sliderStops(field("relative", 1, 100, 1000), 80, 7), [7, 20, 40, 60, 80, 100]);
});
