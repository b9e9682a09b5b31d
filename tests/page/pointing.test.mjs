import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const layout = await load("layout");
const { search, passQuery, boxNames } = await load("search");
const { describe, describeIdle, describeMemory } = await load("describe");
const { colourOf, inkOn, rowColours, passColours } = await load("colours");

const model = exampleModel();
const rows = layout.layoutOf(model).rows;

test("each rank has compute, its streams in use and memory, without overlap", () => {
  assert.deepEqual(rows.map((r) => [r.kind, r.rank]),
                   [["compute", 0], ["traffic", 0], ["memory", 0], ["compute", 1], ["memory", 1]]);
  assert.equal(rows[0].label, "pp 0 \u00d78");
  for (let i = 1; i < rows.length; i++) assert.ok(rows[i].top >= rows[i - 1].top + rows[i - 1].height);
});

test("passes open when they are wide, and only where instructions were recorded", () => {
  assert.equal(layout.passesAreOpen(rows[0], 100 / layout.openPassWidth), true);
  assert.equal(layout.passesAreOpen(rows[0], 101 / layout.openPassWidth), false);
  assert.equal(layout.passesAreOpen(rows[3], 0.01), false);
});

test("pointing hits the box under the pointer, a near one for thin boxes, and nothing in idle time", () => {
  const scale = { from: 0, perPixel: 1, width: 400 };
  assert.deepEqual(layout.hit(model, rows[0], rows[0].top + 20, 60, scale), { rank: 0, lane: -1, index: 1 });
  assert.equal(layout.hit(model, rows[0], rows[0].top + 20, 150, scale), undefined);
  assert.equal(layout.boxAt(model, 0, 1, 39, 2), 0);
  assert.equal(layout.boxAt(model, 0, 1, 30, 2), -1);
  const near = { from: 0, perPixel: 0.1, width: 400 };
  assert.deepEqual(layout.hit(model, rows[0], rows[0].top + 20, 20, near), { rank: 0, lane: 0, index: 0 });
  assert.deepEqual(layout.hit(model, rows[0], rows[0].top + 3, 20, near), { rank: 0, lane: -1, index: 0 });
});

test("3B17 is one pass; parts of it are many; anything else is text", () => {
  assert.deepEqual(passQuery("3B17"), { kind: 1, stage: 3, microbatch: 17 });
  assert.deepEqual(passQuery("f2"), { kind: 0, microbatch: 2 });
  assert.deepEqual(passQuery("17"), { microbatch: 17 });
  assert.equal(passQuery("backward"), undefined);
  assert.deepEqual(search(model, "1B0"), [{ rank: 1, lane: -1, index: 2 }]);
  assert.equal(search(model, "F").length, 4);
  assert.equal(search(model, "qkv").length, 4);
  assert.equal(search(model, "over tp").length, 2);
  assert.deepEqual(search(model, "  "), []);
});

test("results are in order of time", () => {
  assert.deepEqual(search(model, "F1").map((b) => b.rank), [0, 1]);
});

test("descriptions name the op, its time, place and work", () => {
  assert.deepEqual(describe(model, { rank: 1, lane: -1, index: 2 }).slice(0, 3),
                   ["1B0  backward pass on pp 1", "100 ps at 160 ps", "microbatch 0, chunk 0, stage 1"]);
  const lines = describe(model, { rank: 0, lane: 1, index: 0 });
  assert.ok(lines.includes("waited 2 ps for its partners"));
  assert.ok(lines.includes("split over tp"));
  assert.ok(describe(model, { rank: 0, lane: 0, index: 2 }).some((line) => line.includes("recompute")));
  assert.deepEqual(describeIdle(model, 0, 150).slice(0, 2), ["no pass for 100 ps", "after 0F1, before 0B0"]);
  assert.equal(describeMemory(model, 0, 120, [0, 1]).length, 3);
});

test("a pass box offers its names from long to short", () => {
  assert.deepEqual(boxNames(model, { rank: 1, lane: -1, index: 1 }), ["1F1", "F1", "1"]);
});

test("forward is blue with white text, backward is orange with black", () => {
  assert.deepEqual([...rowColours(model, 0, -1, "op")], [0, 0, 1, 1].map((kind) => passColours[kind]));
  assert.equal(inkOn(passColours[0]), "#ffffff");
  assert.deepEqual(passColours.slice(1).map(inkOn), new Array(5).fill("#000000"));
});

test("in the other modes equal numbers have equal colours, and backward is the darker one", () => {
  const colour = (rank, index, mode) => colourOf(model, { rank, lane: -1, index }, mode, 2);
  assert.equal(colour(0, 0, "microbatch"), colour(1, 0, "microbatch"));
  assert.notEqual(colour(0, 0, "microbatch"), colour(0, 1, "microbatch"));
  assert.notEqual(colour(0, 0, "stage"), colour(1, 0, "stage"));
  assert.notEqual(colour(0, 0, "chunk"), colour(0, 2, "chunk"));
});
