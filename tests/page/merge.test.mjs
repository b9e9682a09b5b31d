import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleModel, pairModel } from "./example_model.mjs";
import { load } from "./load.mjs";

const { merged } = await load("merge");
const { describe } = await load("describe");
const { Exchanges } = await load("exchanges");
const { layoutOf, rankLabel } = await load("layout");
const { crossings, describePath } = await load("path");
const { search } = await load("search");
const [a, b] = [exampleModel(), pairModel()];
const both = merged(a, b);

test("of two runs, A's lanes stand above B's, on one axis of time", () => {
  assert.deepEqual(both.ranks.map(rankLabel), ["A pp 0 ×8", "A pp 1 ×8", "B pp 0 ×8", "B pp 1 ×8"]);
  assert.equal(both.facts.step, 400); // of 400 and 200
  const labels = layoutOf(both, "folded").rows.filter(({ kind, rank }) => kind === "traffic" && rank >= 2).map(({ label }) => label);
  assert.deepEqual(labels, ["pp", "pp"]); // B's own streams, although its pp is stream 1 and A's is 2
});

test("every box says what it says in its own run", () => {
  for (const [model, side, by] of [[a, "A", 0], [b, "B", 2]]) {
    model.ranks.forEach((rank, r) => rank.lanes.forEach(({ start }, lane) => start.forEach((_, index) => {
      const alone = describe({ ...model, facts: { ...model.facts, peakFlops: 0, bidirectional: false } }, { rank: r, lane, index });
      const merged = describe(both, { rank: r + by, lane, index });
      assert.deepEqual([merged[0].replace(`, ${side}`, ""), ...merged.slice(1)], alone);
    })));
  }
});

test("runs exchange nothing with each other, and a search finds boxes of both", () => {
  const exchanges = new Exchanges(both);
  const send = { rank: 2, lane: 1, index: 0 };
  assert.deepEqual(exchanges.partners(send).map(({ rank }) => rank), [3]);
  assert.deepEqual(new Set(search(both, "gemm").map(({ rank }) => rank)), new Set([0, 2, 3]));
});

test("each run has its own critical path", () => {
  assert.match(describePath(both), /^A: critical path of 380 ps .* B: critical path of 180 ps/);
  for (const [from, to] of crossings(both)) assert.equal(both.ranks[from.rank].side, both.ranks[to.rank].side);
});
