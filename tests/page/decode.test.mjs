import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { load } from "./load.mjs";
import { written } from "./written.mjs";

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

const facts = { version: 5, step: 100, memoryLimit: 1, peakFlops: 0, streams: [{ name: "compute", traffic: "compute" }],
                categories: ["weights", "activations"], ranks: [{ pp: 3, multiplicity: 3, gpus: 16 }], useSteps: 10000,
                links: [{ name: "nic", multiplicity: 4, bandwidth: 5e10, bytes: 7, busy: 60, contended: 5 }], strings: ["", "forward"] };
const segments = [[6], [1], [0], [3], [1], [5], [2]]; // kind, name, chunk and stage by binding, instruction count
const instructions = Array.from({ length: 11 }, () => [0, 1]);
const rank = [
  [0, 0], [4, 5], [2, -1],               // entries: segment, microbatch by binding
  [10, 5], [20, 20], [0, 1],             // passes: gap, duration, entry differences
  [0, 30], [7, 0], [1, 1],               // memory: time differences, live differences
  [0], [10, 0], [5, 7], [0, 2], [0, 0], [0, 1], // one lane
];
const path = [[0, 0], [0, 0], [0, 1]]; // differences of rank, lane and box
const link = [[2500, 7500, -10000]]; // differences of its use: 0.25, 1, 0

test("starts are gaps and durations summed up", () => {
  const model = decode(facts, written(...segments, ...instructions, ...rank, ...link, ...path));
  const [only] = model.ranks;
  assert.deepEqual([...only.passes.start], [10, 35]);
  assert.deepEqual([...only.lanes[0].start], [10, 15]);
  assert.deepEqual([...only.lanes[0].instruction], [0, 1]);
  assert.deepEqual([...only.memory.time], [0, 30]);
  assert.deepEqual(only.memory.live.map((c) => [...c]), [[7, 7], [1, 2]]);
  assert.equal(only.multiplicity, 3);
  assert.equal(only.gpus, 16);
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
