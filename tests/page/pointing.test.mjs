import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const layout = await load("layout");
const { search, passQuery, boxNames } = await load("search");
const { describe, describeIdle, idleCause, describeLink, describeLinks, describeMemory } = await load("describe");
const { Exchanges } = await load("exchanges");
const { colourOf, inkOn, luminance, numbered, rowColours, passColours } = await load("colours");

const model = exampleModel();
const rows = layout.layoutOf(model, "folded").rows;

test("each rank has compute, its streams in use and memory, without overlap", () => {
  assert.deepEqual(rows.map((r) => [r.kind, r.rank]),
                   [["compute", 0], ["traffic", 0], ["traffic", 0], ["memory", 0], ["compute", 1], ["traffic", 1], ["memory", 1],
                    ["links", -1]]);
  assert.equal(rows[0].label, "pp 0 \u00d78");
  for (let i = 1; i < rows.length; i++) assert.ok(rows[i].top >= rows[i - 1].top + rows[i - 1].height);
});

test("a rank whose GPUs differ says for how many its lane stands", () => {
  assert.equal(layout.rankLabel({ pp: 2, multiplicity: 3, gpus: 16 }), "pp 2 \u00d73 of 16");
});

test("links are one row until they are opened, and none where there are none", () => {
  const open = layout.layoutOf(model, "open");
  assert.deepEqual(open.rows.slice(rows.length - 1).map((r) => [r.kind, r.lane, r.label]),
                   [["links", -1, "\u25be 2 links"], ["link", 0, "node0.nic0.tx \u00d74"], ["link", 1, "node1.nic0.tx"]]);
  assert.equal(rows.at(-1).label, "\u25b8 2 links");
  assert.ok(open.height > layout.layoutOf(model, "folded").height);
  assert.deepEqual(open.rows.slice(0, rows.length - 1), rows.slice(0, -1)); // the ranks stay where they are
  const bare = layout.layoutOf({ ...model, links: [] }, "open").rows;
  assert.ok(bare.every((row) => row.rank >= 0));
  assert.equal(layout.hit(model, rows.at(-1), rows.at(-1).top + 3, 150, { from: 0, perPixel: 1, width: 400 }), undefined);
});

test("a send and its receive find each other by channel and microbatch, wherever one starts", () => {
  const exchanges = new Exchanges(model);
  const [send, recv] = [{ rank: 0, lane: 2, index: 1 }, { rank: 1, lane: 0, index: 1 }];
  assert.deepEqual(exchanges.partners(send), [recv]);
  assert.deepEqual(exchanges.partners(recv), [send]);
  assert.deepEqual(exchanges.arrows(send), [{ from: send, to: recv }]);
  assert.deepEqual(exchanges.arrows(recv), [{ from: send, to: recv }]);
  assert.deepEqual(exchanges.partners({ rank: 0, lane: 1, index: 0 }), []); // a collective inside one pipeline rank
});

test("a pass hands over to the next stage going forward, to the one before going backward", () => {
  const exchanges = new Exchanges(model);
  const pass = (rank, index) => ({ rank, lane: -1, index });
  assert.deepEqual(exchanges.arrows(pass(0, 1)), [{ from: pass(0, 1), to: pass(1, 1) }]); // 0F1 -> 1F1
  assert.deepEqual(exchanges.arrows(pass(1, 1)), [{ from: pass(0, 1), to: pass(1, 1) }]);
  assert.deepEqual(exchanges.arrows(pass(1, 2)), [{ from: pass(1, 2), to: pass(0, 2) }]); // 1B0 -> 0B0
});

test("passes open when they are wide, and only where instructions were recorded", () => {
  assert.equal(layout.passesAreOpen(rows[0], 100 / layout.openPassWidth), true);
  assert.equal(layout.passesAreOpen(rows[0], 101 / layout.openPassWidth), false);
  assert.equal(layout.passesAreOpen(rows[4], 0.01), false);
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
  assert.deepEqual(describeLink(model, 0, 250), // 5 B / (50 GB/s x 400 ps) = 25 %
                   ["node0.nic0.tx  50 % of 50.0 GB/s at 250 ps", "5 B in a step, mean use 25 %",
                    "busy 25 % of the step, contended for 20 ps", "one of 4 links with equal figures"]);
  assert.equal(describeLinks(model, 50)[0], "node1.nic0.tx is used most, 25 % at 50 ps");
  assert.equal(describeLinks(model, 350)[0], "no link is in use at 350 ps");
});

test("idle time has its cause: what is in flight, or where the rank stands", () => {
  assert.equal(idleCause(model, 0, 150), "warm-up: before the rank's first backward"); // 0B0 begins at 200
  assert.equal(idleCause(model, 1, 55), "p2p: a pipeline transfer is in flight"); // its receive takes 50..60
  assert.equal(idleCause(model, 1, 380), "drain: after the rank's last forward");
  const late = exampleModel();
  late.segments.kind[1] = 0; // 0B0 and 0B1 are forwards, behind the backwards 0F0 and 0F1
  late.segments.kind[0] = 1;
  assert.equal(idleCause(late, 0, 150), "imbalance: waits for a neighbour's pass");
  assert.equal(idleCause(late, 0, 95), "tp in flight: exposed communication");
});

test("a pass box offers its names from long to short", () => {
  assert.deepEqual(boxNames(model, { rank: 1, lane: -1, index: 1 }), ["1F1", "F1", "1"]);
});

test("forward is blue with white text, backward is orange with black", () => {
  const { upper, lower } = rowColours(model, 0, -1, "op");
  assert.deepEqual([...upper], [0, 0, 1, 1].map((kind) => passColours[kind]));
  assert.equal(lower, upper); // no pair: one row of pixels
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

test("microbatches that follow each other differ in lightness, not in hue alone", () => {
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  for (let n = 0; n < 64; n++) {
    const [own, next] = [n, n + 1].map((of) => luminance(numbered(of)));
    assert.ok(contrast(own, next) > 1.5, `${n} and ${n + 1}: ${contrast(own, next)}`);
  }
});
