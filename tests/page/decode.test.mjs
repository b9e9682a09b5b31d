import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { load } from "./load.mjs";
import { planes, rankColumns, written } from "./written.mjs";

const { ColumnReader } = await load("columns");
const { bytesFromBase64, decode, inflated } = await load("decode");

test("columns read back, of either sign and up to 2^52", () => {
  const values = [0, 1, -1, 63, -64, 64, 300, 2 ** 52, -(2 ** 52)];
  const reader = new ColumnReader(written(values, [5, -2, 0]));
  assert.deepEqual([...reader.column()], values);
  assert.deepEqual([...reader.differences()], [5, 3, 3]);
  assert.ok(reader.exhausted);
});

test("data that is cut short is an error, not a wrong picture", () => {
  const bytes = written([1, 2, 3]);
  assert.throws(() => new ColumnReader(bytes.subarray(0, 2)).column(), /cut short/);
});

test("base64 and raw deflate come back as the bytes that went in", async () => {
  const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * 7) & 255);
  const text = deflateRawSync(bytes).toString("base64");
  assert.deepEqual(await inflated(bytesFromBase64(text)), bytes);
});

const facts = { version: 6, step: 100, predictedStep: 100, memoryLimit: 1, peakFlops: 0, streams: [{ name: "compute", traffic: "compute" }],
                categories: ["weights", "activations"], ranks: [{ pp: 3, multiplicity: 3, gpus: 16 }], useSteps: 10000,
                links: [{ name: "nic", multiplicity: 4, bandwidth: 5e10, bytes: 7, busy: 60, contended: 5 }], strings: ["", "forward"] };
const segments = [[6], [1], [0], [3], [1], [5], [2]]; // kind, name, chunk and stage by binding, instruction count
const instructions = Array.from({ length: 11 }, () => [0, 1]);
const timeline = {
  segment: [0, 0], microbatch: [[4, 5], [2, -1]],
  passes: { start: [10, 35], duration: [20, 20], entry: [0, 1] },
  memory: { time: [0, 30], live: [[7, 7], [1, 2]] },
  lanes: [{ stream: 0, start: [10, 15], duration: [5, 7], wait: [0, 2], entry: [0, 0], instruction: [0, 1] }],
};
const rank = rankColumns(timeline);
const path = [[0, 0], [0, 0], [0, 1]]; // differences of rank, lane and box
const link = [[2500, 7500, -10000]]; // differences of its use: 0.25, 1, 0

test("planes read back, of either sign and up to 2^52", () => {
  const values = [0, 1, -1, 127, -128, 128, 65536, 2 ** 52, -(2 ** 52)];
  const reader = new ColumnReader(written(planes(values), planes([0, 0]), planes([])));
  assert.deepEqual([...reader.planes()], values);
  assert.deepEqual([...reader.planes()], [0, 0]);
  assert.deepEqual([...reader.planes()], []);
  assert.ok(reader.exhausted);
  assert.throws(() => new ColumnReader(written(planes(values)).subarray(0, 20)).planes(), /cut short/);
});

test("a rank comes back with the times that were written", () => {
  const model = decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path));
  const [only] = model.ranks;
  const plain = ({ start, duration, entry }) => ({ start: [...start], duration: [...duration], entry: [...entry] });
  assert.deepEqual(plain(only.passes), timeline.passes);
  const [lane] = only.lanes;
  assert.deepEqual({ ...plain(lane), stream: lane.stream, wait: [...lane.wait], instruction: [...lane.instruction] }, timeline.lanes[0]);
  assert.deepEqual({ time: [...only.memory.time], live: only.memory.live.map((c) => [...c]) }, timeline.memory);
  assert.equal(only.multiplicity, 3);
  assert.equal(only.gpus, 16);
});

// Boxes of three streams that wait for each other, with durations that no rule tells: every picosecond comes back.
test("times are exact whatever the guesses are worth", () => {
  let state = 7;
  const random = (below) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % below;
  const lanes = [0, 1, 2].map((stream) => ({ stream, start: [], duration: [], wait: [], entry: [], instruction: [] }));
  const ends = [0, 0, 0];
  for (let entry = 0; entry < 40; entry++) {
    for (let instruction = 0; instruction < 2; instruction++) {
      const lane = lanes[random(3)];
      const arrival = random(2) === 0 ? Math.max(...ends) : ends[lane.stream] + random(1e9);
      const wait = random(3) === 0 ? random(1e7) : 0;
      const box = { start: arrival + wait, duration: 1e6 + random(2e12), wait, entry, instruction };
      for (const [name, value] of Object.entries(box)) lane[name].push(value);
      ends[lane.stream] = box.start + box.duration;
    }
  }
  const segment = Array.from({ length: 40 }, () => 0);
  const shape = { segment, microbatch: [segment, segment], memory: { time: [], live: [[], []] } };
  const passes = { entry: [0, 1, 2], start: [5, 1e9, 3e12], duration: [10, 11, 12] };
  const [only] = decode(facts, written(...segments, ...instructions, ...rankColumns({ ...shape, lanes, passes }), ...link, ...path)).ranks;
  for (const [l, { start, duration, wait }] of lanes.entries()) {
    assert.deepEqual([[...only.lanes[l].start], [...only.lanes[l].duration], [...only.lanes[l].wait]], [start, duration, wait]);
  }
  assert.deepEqual([[...only.passes.start], [...only.passes.duration]], [passes.start, passes.duration]);
});

test("a link's use comes back as shares, with its figures", () => {
  const { links, instructions: { channel } } = decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path));
  assert.deepEqual([...links[0].use], [0.25, 1, 0]);
  assert.equal(links[0].name, "nic");
  assert.equal(links[0].contended, 5);
  assert.deepEqual([...channel], [0, 1]);
});

test("segments, entries and instructions come back by binding", () => {
  const model = decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path));
  assert.deepEqual(model.segments.chunk.map((c) => [...c]), [[0], [1]]);
  assert.deepEqual(model.segments.stage.map((c) => [...c]), [[3], [5]]);
  assert.deepEqual(model.ranks[0].microbatch.map((c) => [...c]), [[4, 5], [2, -1]]);
  assert.deepEqual([...model.instructions.binding], [0, 1]);
});

test("the critical path comes back as boxes", () => {
  const model = decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path));
  assert.deepEqual([...model.path.rank], [0, 0]);
  assert.deepEqual([...model.path.lane], [0, 0]);
  assert.deepEqual([...model.path.index], [0, 1]);
});

test("another version, or bytes left over, is refused", () => {
  assert.throws(() => decode({ ...facts, version: 2 }, written()), /version/);
  assert.throws(() => decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path, [1])), /longer/);
  assert.throws(() => decode(facts, written(...segments, ...instructions, ...rank)), /cut short/);
});
