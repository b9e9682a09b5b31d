import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const { colourOf, passColours } = await load("colours");
const { describe, describeLink } = await load("describe");
const { unassignedKind } = await load("model");
const { boxNames } = await load("search");
const { Exchanges } = await load("exchanges");
const { layoutOf, rankLabel } = await load("layout");

// What was measured stands behind what was predicted: here the same times again.
function measuredModel() {
  const model = exampleModel();
  model.ranks = model.ranks.flatMap((rank) => [rank, { ...rank, multiplicity: 1, measured: true }]);
  return model;
}

test("links are drawn as they were predicted, however long the measured step is", () => {
  const model = measuredModel();
  model.facts.step = 10 * model.facts.predictedStep;
  assert.deepEqual(describeLink(model, 0, 250), describeLink(exampleModel(), 0, 250));
  assert.ok(describeLink(model, 0, 450)[0].startsWith("node0.nic0.tx  0 %"));
});

test("each pipeline rank has a group of lanes for what was predicted and one for what was measured", () => {
  assert.equal(rankLabel({ pp: 3, multiplicity: 1, gpus: 8, measured: true }), "pp 3 measured");
  const labels = layoutOf(measuredModel(), "folded").rows.filter(({ kind }) => kind === "compute").map(({ label }) => label);
  assert.deepEqual(labels, ["pp 0 \u00d78", "pp 0 measured", "pp 1 \u00d78", "pp 1 measured"]);
});

test("what was measured exchanges nothing with what was predicted", () => {
  const exchanges = new Exchanges(measuredModel());
  const [sent, sentMeasured] = [{ rank: 0, lane: 2, index: 0 }, { rank: 1, lane: 2, index: 0 }];
  assert.deepEqual(exchanges.partners(sent), [{ rank: 2, lane: 0, index: 0 }]);
  assert.deepEqual(exchanges.partners(sentMeasured), [{ rank: 3, lane: 0, index: 0 }]);
  assert.deepEqual(exchanges.arrows({ rank: 1, lane: -1, index: 0 }), [
    { from: { rank: 1, lane: -1, index: 0 }, to: { rank: 3, lane: -1, index: 0 } },
  ]);
});

test("kernels whose phase the trace does not say have a colour, a letter and a name of their own", () => {
  const model = measuredModel();
  model.facts.strings.push("unassigned");
  model.segments.kind[0] = unassignedKind;
  model.segments.stage[0][0] = model.segments.chunk[0][0] = -1;
  model.segments.name[0] = model.facts.strings.length - 1;
  const [pass, kernel] = [{ rank: 1, lane: -1, index: 0 }, { rank: 1, lane: 0, index: 0 }];
  const colour = colourOf(model, pass, "op", 1);
  assert.ok(!passColours.includes(colour) && colour === colourOf(model, kernel, "op", 1)); // a matrix product
  assert.match(describe(model, pass)[0], /^unassigned  kernels of unknown phase on pp 0, measured$/);
  assert.deepEqual(boxNames(model, pass), ["unassigned", "?"]);
});

test("a measured box says so", () => {
  const model = measuredModel();
  assert.match(describe(model, { rank: 1, lane: -1, index: 0 })[0], /on pp 0, measured$/);
  assert.match(describe(model, { rank: 1, lane: 0, index: 0 })[0], /gemm, measured$/);
  assert.doesNotMatch(describe(model, { rank: 0, lane: 0, index: 0 })[0], /measured/);
});
