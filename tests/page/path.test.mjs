import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel, pairModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const { crossings, describePath, isOnPath, onPath, passPath, pathParts } = await load("path");
const { coveredTime, describeMark, describeStretch, toggledMark } = await load("marks");
const { ColourCache } = await load("draw");
const model = exampleModel();

test("a pass is on the critical path if one of its instructions is", () => {
  const marked = onPath(model);
  assert.deepEqual([...marked[0].lanes[0]], [1, 0, 0, 1]);
  assert.deepEqual([...marked[0].passes], [1, 0, 0, 1]); // 0F0 and 0B1
  assert.deepEqual([...marked[1].passes], [0, 0, 0, 0]);
  assert.ok(isOnPath(marked, { rank: 0, lane: 2, index: 0 }));
  assert.ok(!isOnPath(marked, { rank: 0, lane: 2, index: 1 }));
});

test("the parts of the path are its boxes by what they do, and what lies between them", () => {
  // forward 40, its collective 10, send 10, then nothing from 60 to 300, recomputation for 80, and nothing until 400
  assert.deepEqual(pathParts(model), [["waiting", 260], ["recompute", 80], ["forward", 40], ["tp communication", 10],
                                      ["pp communication", 10]]);
  assert.match(describePath(model), /^critical path of 400 ps over 1 pipeline rank: waiting 260 ps \(65\.0 %\) /);
  assert.match(describePath(pairModel()), /^no critical path/);
});

test("of passes alone, each is held up by the one before it or by the one that hands over, whichever ends later", () => {
  // Rank 0: 0F0 0..50, 0F1 50..100, 0B0 200..300, 0B1 300..400; rank 1: 1F0 60..110, 1F1 110..160, 1B0 160..260, 1B1 260..360.
  // 0B1 follows 0B0 (1B1 ends too late to have been waited for), which follows 0F1: 1B0 ends too late as well.
  const passes = exampleModel();
  passes.path = passPath(passes);
  assert.deepEqual([...passes.path.rank], [0, 0, 0, 0]);
  assert.deepEqual(pathParts(passes), [["backward", 200], ["forward", 100], ["transfers and waiting", 100]]);
  passes.ranks[1].passes.start.set([60, 110, 140, 190]); // now 1B0 ends at 190 and hands over to 0B0
  passes.ranks[1].passes.duration.set([50, 30, 50, 50]);
  passes.path = passPath(passes);
  const names = [...passes.path.rank].map((rank, i) => `${rank}/${passes.path.index[i]}`);
  assert.deepEqual(names, ["0/0", "1/0", "1/1", "1/2", "0/2", "0/3"]);
  assert.deepEqual([...onPath(passes)[1].passes], [1, 1, 1, 0]);
});

test("the path crosses where the next box is another rank's", () => {
  const there = exampleModel();
  Object.assign(there.path, { rank: Float64Array.of(0, 0, 1), lane: Float64Array.of(0, 2, 0), index: Float64Array.of(0, 0, 1) });
  assert.deepEqual(crossings(there), [[{ rank: 0, lane: 2, index: 0 }, { rank: 1, lane: 0, index: 1 }]]);
});

test("while the path is shown, what is not on it stands back and what is keeps its colour", () => {
  const cache = new ColourCache();
  const plain = [...cache.of(model, 0, -1, "op").upper];
  const shown = [...cache.of(model, 0, -1, "op", 0xf1f2f4).upper];
  assert.deepEqual(shown.map((rgb, i) => rgb === plain[i]), [true, false, false, true]);
  assert.deepEqual([...cache.of(model, 0, -1, "op").upper], plain);
});

test("marks stay in order, one near the pointer is taken away", () => {
  assert.deepEqual(toggledMark([100, 300], 200, 5), [100, 200, 300]);
  assert.deepEqual(toggledMark([100, 200, 300], 203, 5), [100, 300]);
  assert.equal(describeMark([100, 200], 200), "mark B at 200 ps, 100 ps behind mark A");
  assert.equal(describeMark([100], 200), "mark removed");
});

test("a measured stretch says how much of it passes cover", () => {
  // Rank 0 has passes at 0..50, 50..100, 200..300, 300..400: of 80..260 they cover 20 + 60
  assert.equal(coveredTime(model, 0, { from: 80, to: 260 }), 80);
  assert.match(describeStretch(model, { from: 80, to: 260 }), /^180 ps, from 80 ps to 260 ps .*pp 0 ×8 44 %, pp 1 ×8 100 %$/);
});
