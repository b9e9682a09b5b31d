import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel, pairModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const { search, passQueries, boxNames, halfNames } = await load("search");
const { describe } = await load("describe");
const { Exchanges } = await load("exchanges");
const { colourOf, passColours, rowColours } = await load("colours");
const { partsOf, passName, sharesMicrobatch } = await load("model");
const { drawRow, pixelOf, RowSums } = await load("raster");

const model = pairModel();
const pass = (rank, index) => ({ rank, lane: -1, index });
const [pair, forward, next] = [pass(0, 0), pass(0, 1), pass(1, 0)];

test("a pair is named by both passes, then by less; each half by its own", () => {
  assert.deepEqual(boxNames(model, pair), ["(0F2;1B7)", "F2;B7", "2;7"]);
  assert.deepEqual(halfNames(model, pair, "upper"), ["0F2", "F2", "2"]);
  assert.deepEqual(halfNames(model, pair, "lower"), ["1B7", "B7", "7"]);
  assert.deepEqual(boxNames(model, forward), ["0F3", "F3", "3"]);
});

test("a pair's description lists both passes, with the pipeline that each belongs to", () => {
  assert.deepEqual(describe(model, pair).slice(0, 4),
                   ["(0F2;1B7)  forward with backward pass on pp 0", "80 ps at 0 s", "forward: microbatch 2, down, stage 0",
                    "backward: microbatch 7, up, stage 1"]);
  assert.equal(describe(model, forward)[2], "microbatch 3, down, stage 0");
  assert.equal(describe(exampleModel(), pass(0, 0))[2], "microbatch 0, chunk 0, stage 0"); // of one direction
});

test("an instruction in a pair belongs to one of its passes", () => {
  const backward = { rank: 0, lane: 0, index: 1 };
  assert.deepEqual(partsOf(model, backward), [{ kind: 1, stage: 1, chunk: 1, microbatch: 7 }]);
  assert.deepEqual(describe(model, backward).slice(2, 4),
                   ["microbatch 7, up, stage 1", "1B7 in (0F2;1B7), layer 5, stream compute"]);
  assert.equal(passName(model, backward), "(0F2;1B7)");
  assert.equal(describe(model, { rank: 0, lane: 0, index: 2 })[3], "0F3, layer 0, stream compute");
});

test("a search for either pass, for a part of one or for both finds the pair", () => {
  for (const text of ["0F2", "1B7", "B7", "f2", "1B", "(0F2;1B7)", "0f2; 1b7", "(1B7"]) {
    assert.deepEqual(search(model, text)[0], pair, text);
  }
  assert.deepEqual(search(model, "7"), [pair, next]);
  assert.deepEqual(search(model, "(1F2;0B7)"), [next]);
  assert.deepEqual(search(model, "(0F2;0B7)"), []); // no box holds both
  assert.deepEqual(search(model, "2B7"), []);
  assert.deepEqual(search(model, "0B2"), []); // 2 is of the forward
  assert.equal(passQueries("pair"), undefined);
  assert.equal(passQueries("()"), undefined);
});

test("a pair hands over both its results, here to one pair: one arrow", () => {
  const exchanges = new Exchanges(model);
  assert.deepEqual(exchanges.arrows(pair), [{ from: pair, to: next }]);
  assert.deepEqual(exchanges.arrows(next), [{ from: pair, to: next }]);
  assert.deepEqual(exchanges.arrows(forward), []); // 1F3 was not recorded
});

test("the consumer of either result has the pair as its source", () => {
  for (const [kind, binding] of [[0, 0], [1, 1]]) { // rank 1 runs only 1F2, or only 0B7
    const alone = pairModel();
    const { segments, ranks } = alone;
    segments.kind[4] = kind;
    [segments.stage, segments.chunk].forEach((of) => (of[0][4] = of[binding][4]));
    ranks[1].microbatch[0][2] = ranks[1].microbatch[binding][2];
    assert.deepEqual(new Exchanges(alone).arrows(next), [{ from: pair, to: next }], boxNames(alone, next)[0]);
  }
});

test("transfers of both results meet their receives by channel and microbatch", () => {
  const exchanges = new Exchanges(model);
  const send = (index) => ({ rank: 0, lane: 1, index });
  const recv = (index) => ({ rank: 1, lane: 1, index });
  for (const i of [0, 1]) assert.deepEqual(exchanges.arrows(send(i)), [{ from: send(i), to: recv(i) }]);
});

test("an exchange inside a pair is that of its own microbatch", () => {
  const inside = pairModel();
  inside.instructions.channel.set([9], 1); // of rank 0's backward, microbatch 7
  inside.instructions.channel.set([9, 9], 5); // of both passes of rank 1, microbatches 2 and 7
  assert.deepEqual(new Exchanges(inside).partners({ rank: 0, lane: 0, index: 1 }), [{ rank: 1, lane: 0, index: 1 }]);
});

test("equal numbers of the two pipelines are different microbatches", () => {
  const part = (chunk, microbatch) => [{ kind: 0, stage: 0, chunk, microbatch }];
  assert.ok(sharesMicrobatch(model, part(0, 4), part(0, 4)));
  assert.ok(!sharesMicrobatch(model, part(0, 4), part(1, 4)));
  assert.ok(sharesMicrobatch(exampleModel(), part(0, 4), part(1, 4))); // interleaved: chunks of one pipeline
  assert.ok(!sharesMicrobatch(model, part(0, -1), part(0, -1)));
  assert.ok(sharesMicrobatch(model, partsOf(model, pair), partsOf(model, next)));
});

test("a pair's upper half is coloured as its forward, the lower as its backward, in every mode", () => {
  const { upper, lower } = rowColours(model, 0, -1, "op");
  assert.deepEqual([upper[0], lower[0]], [passColours[0], passColours[1]]);
  assert.equal(upper[1], lower[1]);
  for (const mode of ["microbatch", "chunk", "stage"]) {
    assert.notEqual(colourOf(model, pair, mode, 2, "upper"), colourOf(model, pair, mode, 2, "lower"), mode);
    [0, 1].forEach((index) => // and its matrix products as the half that they belong to
      assert.equal(colourOf(model, { rank: 0, lane: 0, index }, mode, 2), colourOf(model, pair, mode, 2, ["upper", "lower"][index])));
  }
  assert.equal(colourOf(model, pair, "chunk", 2, "upper"), colourOf(model, next, "chunk", 2, "upper")); // both down
  assert.equal(colourOf(model, pair, "microbatch", 2, "lower"), colourOf(model, next, "microbatch", 2, "lower"));
});

test("the two colours fill the halves of the row", () => {
  const image = new Uint32Array(10 * 7);
  const boxes = { start: Float64Array.of(0), duration: Float64Array.of(10), entry: Float64Array.of(0) };
  const colours = { upper: Uint32Array.of(0x112233), lower: Uint32Array.of(0x445566) };
  const buffers = { sums: new RowSums(10), line: new Uint32Array(10) };
  drawRow(image, boxes, colours, { from: 0, perPixel: 1, width: 10 }, 0xffffff, buffers, { top: 1, height: 5 });
  const column = Array.from({ length: 7 }, (_, y) => image[10 * y + 2]);
  const [a, b] = [pixelOf(0x112233), pixelOf(0x445566)];
  assert.deepEqual(column, [0, a, a, a, b, b, 0]);
});
