import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const v = await load("viewport");
const step = 1e12;

test("zooming keeps the time under the pointer where it is", () => {
  const view = v.zoomedAbout({ from: 0, to: 1e12 }, 2.5e11, 4, step);
  assert.deepEqual(view, { from: 1.875e11, to: 4.375e11 });
  assert.equal((2.5e11 - view.from) / (view.to - view.from), 0.25);
});

test("no zoom and no pan leaves the step or goes below 100 ns", () => {
  const whole = v.wholeView(step);
  assert.deepEqual(v.zoomedAbout(whole, 5e11, 1e-9, step), whole);
  assert.deepEqual(v.panned(whole, 1e15, step), whole);
  assert.deepEqual(v.clamped({ from: -Infinity, to: Infinity }, step), whole);
  const near = v.zoomedAbout(whole, 5e11, 1e12, step);
  assert.ok(Math.abs(near.to - near.from - v.shortestSpan) < 1);
});

test("revealing moves only what it must", () => {
  const view = { from: 0, to: 1e11 };
  assert.deepEqual(v.revealing(view, 2e10, 1e10, step), view);
  const moved = v.revealing(view, 5e11, 1e10, step);
  assert.equal(moved.to - moved.from, 1e11);
  assert.ok(moved.from < 5e11 && moved.to > 5.1e11);
  const closer = v.revealing(view, 5e11, 1e6, step);
  assert.ok(closer.to - closer.from < 2e7);
});

test("ticks are 1, 2 or 5 x 10^k apart and not nearer than asked", () => {
  for (const span of [1e5, 3.3e7, 1e9, 7.7e10, 1e12, 1.49e13]) {
    const { every, times } = v.ticks({ from: 0, to: span }, 1000, 90);
    assert.ok([1, 2, 5].includes(Math.round(every / 10 ** Math.floor(Math.log10(every) + 1e-9))), `${every}`);
    assert.ok((every / span) * 1000 >= 90 - 1e-6);
    assert.ok(times.length >= 4 && times.length <= 12, `${times.length} ticks`);
    assert.equal(times[0], 0);
  }
  assert.equal(v.ticks({ from: -50, to: 250 }, 100, 40).times[0], 0);
});

test("tick labels tell neighbours apart", () => {
  assert.equal(v.tickText(6.2e12, 2e11, 1.4e13), "6.2 s");
  assert.equal(v.tickText(5e9, 5e9, 4.7e10), "5 ms");
  assert.equal(v.tickText(6.2134e12, 1e8, 1.4e13), "6.2134 s");
});

test("times have the unit that fits and four figures", () => {
  const texts = [[0, "0 s"], [23.2e9, "23.20 ms"], [6.213e12, "6.213 s"], [999, "999 ps"], [1500, "1.500 ns"], [812.3e9, "812.3 ms"]];
  for (const [ps, text] of texts) assert.equal(v.timeText(ps), text);
});

test("the hash keeps all that a reader sees, and survives nonsense", () => {
  const state = { view: { from: 10, to: 20 }, mode: "chunk", selection: [1, -1, 17], links: "open", unfolded: [0, 3], path: true, scroll: 240, marks: [5, 9],
                  stretch: [10, 20] };
  assert.deepEqual(v.stateFrom("#" + v.hashOf(state)), state);
  const ofOneGpu = { ...state, selection: [1, -1, 17, 5] };
  assert.deepEqual(v.stateFrom("#" + v.hashOf(ofOneGpu)), ofOneGpu);
  assert.deepEqual(v.stateFrom("#v=20,10&s=1,x,2&m=1,x&u=0,y&y=-3&d=20,10&p=no&zz"), {});
  assert.deepEqual(v.stateFrom(""), {});
});
