// What a reader does with a page beyond looking at it: the critical path, marks, measuring, sending a place to
// someone else, saving the view, doing all of it with keys. Each check leaves the page as it found it.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";

const shift = 8; // of Input.dispatch*Event's modifiers

const text = (tab, id) => tab.value(`document.getElementById("${id}").textContent`);
const isPressed = (tab, id) => tab.value(`document.getElementById("${id}").getAttribute("aria-pressed")`);
const goUp = (tab) => tab.value(`[...Array(60)].forEach(() => dispatchEvent(new KeyboardEvent("keydown", { key: "PageUp" })))`);
const picture = (tab) => tab.value("['minimap', 'plot'].map((id) => document.getElementById(id).toDataURL()).join()");
const frameOf = (tab) => tab.value(`(({ left, top, width, height }) => ({ left, top, width, height }))(
  document.getElementById("plot").getBoundingClientRect())`);

export async function checkPath(tab) {
  if (await tab.value("document.getElementById('path').hidden")) return false;
  await tab.press("Escape");
  await tab.frame();
  const before = await picture(tab);
  await tab.press("c");
  await tab.frame();
  const told = await text(tab, "selection");
  assert.match(told, /^(A: )?critical path of [\d.]+ .?s over \d+ pipeline ranks?: /);
  const runs = /^A: .* B: critical path of /.test(told) ? 2 : 1;
  const shares = [...told.matchAll(/\(([\d.]+) %\)/g)].map(([, share]) => Number(share));
  const sum = shares.reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(sum - 100 * runs) < 0.06 * shares.length, `the parts make ${sum} %`);
  assert.equal(await isPressed(tab, "path"), "true");
  const ranks = await tab.value("JSON.parse(document.getElementById('facts').textContent).ranks.length");
  if (ranks > 1) assert.ok((await picture(tab)) !== before, "what is not on the path stands back");
  await tab.value("document.getElementById('path').click()");
  await tab.frame();
  assert.equal(await isPressed(tab, "path"), "false");
  assert.ok((await picture(tab)) === before, "and comes forth again");
  return true;
}

export async function checkMarksAndMeasure(tab) {
  const { left, top, width } = await frameOf(tab);
  const [x, y] = [left + width / 2, top + 60];
  await tab.mouse("mouseMoved", x, y);
  await tab.press("m");
  assert.match(await text(tab, "selection"), /^mark A at [\d.]+ .?s$/);
  await tab.mouse("mouseMoved", x + 80, y);
  await tab.press("m");
  assert.match(await text(tab, "selection"), /^mark B at .* behind mark A$/);
  await tab.press("m");
  assert.equal(await text(tab, "selection"), "mark removed");
  await tab.mouse("mousePressed", x, y, { button: "left", buttons: 1, clickCount: 1, modifiers: shift });
  await tab.mouse("mouseMoved", x + 100, y, { button: "left", buttons: 1, modifiers: shift });
  await tab.mouse("mouseReleased", x + 100, y, { button: "left", clickCount: 1, modifiers: shift });
  const measured = await text(tab, "selection");
  assert.match(measured, /^[\d.]+ .?s, from .* covered by passes: /);
  return measured;
}

// Marks, measure and the rest are in the address: who opens it sees the same.
export async function checkAddress(tab, measured) {
  for (const key of ["3", "w", "u", "PageDown"]) await tab.press(key); // some ranks unfold, some pages scroll
  await tab.until("/[#&]m=\\d+&d=\\d+,\\d+/.test(location.hash) && location.hash.includes('c=chunk')");
  await tab.frame();
  await new Promise((go) => setTimeout(go, 350)); // the hash follows after a pause
  const [hash, seen] = [await tab.value("location.hash"), await picture(tab)];
  await tab.send("Page.reload");
  await tab.until("performance.getEntriesByType('navigation')[0]?.type === 'reload' && document.documentElement?.dataset.state");
  await tab.frame();
  assert.equal(await tab.value("location.hash"), hash);
  assert.ok((await picture(tab)) === seen, "the picture is what was sent");
  assert.equal(await isPressed(tab, "mode-chunk"), "true");
  assert.equal(await text(tab, "selection"), measured);
  await tab.press("M", shift);
  await tab.press("U", shift);
  for (const key of ["Escape", "1", "0"]) await tab.press(key);
  await goUp(tab);
  await tab.until("!/[&#][md]=/.test(location.hash)");
}

// A rank that folds equal GPUs opens into a lane for each, by key, button and label; who opens the address sees it open.
export async function checkUnfolding(tab) {
  const ranks = await tab.value("JSON.parse(document.getElementById('facts').textContent).ranks");
  const count = ({ members }) => (members ? members.devices.reduce((sum, [, of]) => sum + of, 0) : 0);
  const rank = ranks.findIndex((of) => count(of) > 1);
  assert.equal(await tab.value("document.getElementById('unfold').hidden"), rank < 0);
  if (rank < 0) return false;
  const expanded = () => tab.value("document.getElementById('unfold').getAttribute('aria-expanded')");
  await tab.press("Escape");
  await goUp(tab);
  await tab.frame();
  const folded = await picture(tab);
  await tab.press("u");
  assert.equal(await expanded(), "true");
  assert.match(await text(tab, "said"), new RegExp(`a lane for each of ${count(ranks[rank])} GPUs$`));
  await tab.until(`/[#&]u=${rank}(&|$)/.test(location.hash)`);
  await tab.frame();
  assert.ok((await picture(tab)) !== folded, "it is drawn");
  await tab.value("document.getElementById('unfold').click()");
  assert.equal(await expanded(), "false");
  await tab.frame();
  assert.ok((await picture(tab)) === folded, "and folds back");
  const { left, top } = await frameOf(tab);
  const label = top + 22 + 4 + 15; // the axis, the space above the lanes, half a lane
  if (rank === 0) {
    await tab.click(left + 30, label);
    assert.equal(await expanded(), "true", "clicking the name unfolds");
    await tab.click(left + 30, label - 6);
    assert.equal(await expanded(), "false", "and folds");
  }
  await tab.until("!/[#&]u=/.test(location.hash)");
  return true;
}

// One finger moves and scrolls, two zoom, a tap selects.
export async function checkTouch(tab) {
  const { left, top, width } = await frameOf(tab);
  await tab.press("0");
  await goUp(tab);
  await tab.frame();
  const touch = (type, ...points) => tab.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
  const span = async () => {
    await tab.until("/v=-?\\d+,\\d+/.test(location.hash)");
    const [, from, to] = (await tab.value("location.hash")).match(/v=(-?\d+),(\d+)/);
    return { from: Number(from), width: to - from };
  };
  const until = async (name, holds) => {
    for (const end = Date.now() + 10000; Date.now() < end; await new Promise((go) => setTimeout(go, 50))) {
      const now = await span();
      if (holds(now)) return now;
    }
    return assert.fail(`${name}, but the view is ${await tab.value("location.hash")}`);
  };
  const [x, y] = [left + width * 0.6, top + 45];
  const whole = await span();
  await touch("touchStart", [x - 50, y], [x + 50, y]);
  await touch("touchMove", [x - 100, y], [x + 100, y]);
  await touch("touchMove", [x - 150, y], [x + 150, y]);
  await touch("touchEnd");
  const near = await until("two fingers that part zoom in", (v) => v.width < whole.width / 2);
  assert.ok(near.width > whole.width / 4, "by as much as they part");
  await touch("touchStart", [x, y]);
  await touch("touchMove", [x - 60, y]);
  await touch("touchEnd");
  const moved = await until("a finger that goes left moves on", (v) => v.from > near.from);
  assert.ok(Math.abs(moved.width - near.width) <= 2, "without zooming");
  await tab.press("Escape");
  await tab.press("0");
  await tab.frame();
  for (let at = left + 130; at < left + width && (await text(tab, "selection")) === ""; at += 16) {
    await touch("touchStart", [at, top + 40]);
    await touch("touchEnd");
  }
  assert.notEqual(await text(tab, "selection"), "", "a tap selects");
  await tab.press("Escape");
}

// The files that P and V save, without a folder to save them to.
export async function checkPictures(tab) {
  await tab.value(`(() => {
    window.saved = [];
    const made = URL.createObjectURL;
    URL.createObjectURL = (blob) => (window.saved.push(blob), made.call(URL, blob));
    HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };
  })()`);
  await tab.press("p");
  await tab.until("window.saved.length === 1");
  assert.match(await tab.value("window.savedAs"), /^[\w.-]+\.png$/);
  const { width, height } = await tab.value("(({ width, height }) => ({ width, height }))(document.getElementById('plot'))");
  const png = await tab.value("saved[0].arrayBuffer().then((bytes) => [...new Uint8Array(bytes.slice(0, 24))])");
  assert.equal(String.fromCharCode(...png.slice(1, 4)), "PNG");
  const number = (at) => png.slice(at, at + 4).reduce((value, byte) => value * 256 + byte, 0);
  assert.deepEqual([number(16), number(20)], [width, height]);
  await tab.press("v");
  await tab.until("window.saved.length === 2");
  const svg = await tab.value(`saved[1].text().then((text) => {
    const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    const all = (name) => [...root.querySelectorAll(name)];
    return { name: root.localName, size: text.length, fills: new Set(all("path").map((path) => path.getAttribute("fill"))).size,
             texts: all("text").map((of) => of.textContent) };
  })`);
  assert.equal(svg.name, "svg");
  assert.ok(svg.fills > 4 && svg.size < 5e6, `${svg.fills} fills, ${svg.size} bytes`);
  assert.ok(svg.texts.some((of) => /^(A )?pp 0/.test(of)), "lanes have their names");
}

// Every control is reached by Tab, in the order of the page; arrows select on the plot.
export async function checkKeyboard(tab) {
  const key = async (name, code, modifiers = 0) => {
    for (const type of ["keyDown", "keyUp"]) {
      await tab.send("Input.dispatchKeyEvent", { type, key: name, windowsVirtualKeyCode: code, modifiers });
    }
  };
  await tab.value("document.activeElement.blur(), getSelection().removeAllRanges(), window.scrollTo(0, 0)");
  const wanted = await tab.value(`[...document.querySelectorAll("nav button, nav input, #plot")]
    .filter((control) => !control.hidden).map(({ id }) => id)`);
  const reached = [];
  for (let i = 0; i < wanted.length + 4 && reached.at(-1) !== "plot"; i++) {
    await key("Tab", 9);
    reached.push(await tab.value("document.activeElement.id"));
  }
  assert.deepEqual(reached.filter((id) => wanted.includes(id)), wanted);
  await key("ArrowRight", 39);
  const first = await text(tab, "selection");
  assert.notEqual(first, "", "an arrow selects");
  await key("ArrowDown", 40);
  assert.notEqual(await text(tab, "selection"), first, "and goes to another lane");
  await tab.press("Escape");
  assert.equal(await text(tab, "selection"), "");
  for (const id of ["selection", "said"]) assert.equal(await tab.value(`document.getElementById("${id}").ariaLive`), "polite");
}

// axe-core, where npm has installed it: no violation that is serious or worse.
const axe = ["visualizer", "build/page/visualizer"].map((place) => `${place}/node_modules/axe-core/axe.min.js`).find(existsSync);
export async function checkAccessibility(tab) {
  if (!axe) return false;
  await tab.value(`${readFileSync(axe, "utf8")}; true`);
  const found = await tab.value(`axe.run(document).then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")))`);
  assert.deepEqual(found, []);
  return true;
}
