import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const members = await load("members");
const { layoutOf, hit } = await load("layout");
const { asInGroup, bandFinder, isIn } = await load("bands");
const { describe } = await load("describe");

// Pipeline rank 1 of a job with tp 2, cp 1 and dp 2: GPUs 4 to 7 but that two stand elsewhere.
const four = { devices: [[4, 2], [10, 2]], meshes: [[["tp", 2], ["cp", 1], ["dp", 2]], [["etp", 1], ["ep", 4]]] };

test("a member's device and its place follow from its number", () => {
  assert.equal(members.memberCount(four), 4);
  assert.deepEqual([0, 1, 2, 3].map((member) => members.deviceOf(four, member)), [4, 5, 10, 11]);
  assert.deepEqual([0, 1, 2, 3].map((member) => members.placeText(four, member)), ["tp 0, dp 0", "tp 1, dp 0", "tp 0, dp 1", "tp 1, dp 1"]);
  assert.equal(members.memberText({ members: four }, 3, 4), "gpu 11 (node 2, gpu 3), tp 1, dp 1");
});

test("a group holds those that differ in its axes only", () => {
  assert.deepEqual(members.groupOf(four, "0:0", 2), [2, 3]); // tp: neighbours
  assert.deepEqual(members.groupOf(four, "0:2", 1), [1, 3]); // dp: every second
  assert.deepEqual(members.groupOf(four, "0:0,2", 1), [0, 1, 2, 3]);
  assert.deepEqual(members.groupOf(four, "1:1", 3), [0, 1, 2, 3]); // of the other mesh
  assert.deepEqual(members.groupOf(four, "", 3), [3]);
  assert.equal(members.groupAxes(four, "0:0,1,2"), "tp \u00d7 dp"); // cp divides nothing
});

test("neighbours in a list of numbers are one stretch", () => {
  assert.equal(members.stretches([0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
});

function unfoldable() {
  const model = exampleModel();
  model.facts.strings.push("0:0");
  model.instructions.group[1] = model.facts.strings.length - 1; // the all-gather in the forward of stage 0
  model.ranks[0].members = { devices: [[0, 8]], meshes: [[["tp", 4], ["dp", 2]]] };
  return model;
}

test("an unfolded rank has its name, one memory, and compute and streams of each GPU", () => {
  const model = unfoldable();
  const { rows } = layoutOf(model, "folded", new Set([0]));
  const own = rows.filter(({ rank }) => rank === 0);
  assert.deepEqual(own.slice(0, 3).map(({ kind, label }) => [kind, label]), [["rank", "pp 0 \u00d78"], ["memory", "memory"], ["compute", "gpu 0"]]);
  assert.deepEqual(own.filter(({ kind }) => kind === "compute").map(({ member, below }) => [member, below])[5], [5, "tp 1, dp 1"]);
  assert.equal(own.filter(({ kind }) => kind === "traffic").length, 8 * 2);
  for (let i = 1; i < rows.length; i++) assert.ok(rows[i].top >= rows[i - 1].top + rows[i - 1].height);
  assert.deepEqual(rows.filter(({ rank }) => rank === 1).map(({ kind }) => kind), ["compute", "traffic", "memory"], "others stay folded");
});

test("a rank that stands for some of its pipeline rank's GPUs, or for one, does not unfold", () => {
  const model = unfoldable();
  assert.deepEqual(model.ranks.map(members.unfolds), [true, false]);
  assert.equal(members.unfolds({ members: { devices: [[3, 1]], meshes: [] } }), false);
  assert.deepEqual(layoutOf(model, "folded", new Set([1])), layoutOf(model, "folded"));
});

test("a rank that does not unfold says which GPU is drawn", () => {
  assert.equal(members.whyFolded({ device: 64, multiplicity: 3, gpus: 16 }),
               "gpu 64 is drawn; it stands for 3 of 16 GPUs, whose times differ: which others it stands for is not recorded");
  assert.equal(members.whyFolded({ device: 3, multiplicity: 1, gpus: 1 }), "gpu 3 is drawn");
});

test("what is hit in a GPU's lane is that GPU's, and shows where and with whom", () => {
  const model = unfoldable();
  const { rows } = layoutOf(model, "folded", new Set([0]));
  const row = rows.find(({ kind, member }) => kind === "traffic" && member === 5);
  const box = hit(model, row, row.top + 2, 45, { from: 0, perPixel: 0.1, width: 400 });
  assert.deepEqual(box, { rank: 0, lane: 1, index: 0, member: 5 });
  const lines = describe(model, box);
  assert.equal(lines[1], "gpu 5 (node 1, gpu 1), tp 1, dp 1"); // four GPUs to a node
  assert.ok(lines.includes("among gpus 4-7 (tp)"));
  assert.ok(describe(model, { rank: 0, lane: 1, index: 0 }).includes("among 4 GPUs each (tp)"));
});

test("a collective is found on all GPUs of its group, each in its own lane", () => {
  const model = unfoldable();
  const layout = layoutOf(model, "folded", new Set([0]));
  const box = { rank: 0, lane: 1, index: 0, member: 5 };
  assert.deepEqual(asInGroup(model, box).map(({ member }) => member), [4, 5, 6, 7]);
  const bandOf = bandFinder(layout, 1);
  assert.deepEqual(asInGroup(model, box).map((end) => bandOf(end).member), [4, 5, 6, 7]);
  assert.equal(bandOf({ ...box, member: undefined }).member, 0, "of no GPU in particular: the first");
  assert.equal(bandFinder(layoutOf(model, "folded"), 1)(box).member, undefined);
  assert.equal(isIn(bandOf(box), { ...box, member: 4 }), false);
  assert.deepEqual(asInGroup(model, { rank: 0, lane: -1, index: 0, member: 5 }).length, 1, "a pass is its GPU's own");
});
