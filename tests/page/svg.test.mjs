import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { escaped, runsOf, SvgContext } = await load("svg");

test("equal lines and equal pixels become one rectangle, ground none", () => {
  const [ground, blue, red] = [0xffffffff, 0xffff0000, 0xff0000ff]; // 0xaabbggrr
  const pixels = Uint32Array.of(blue, blue, ground, red,
                                blue, blue, ground, red,
                                ground, ground, ground, red);
  assert.equal(runsOf(pixels, 4, ground, 1, 10, 20),
               '<path fill="#0000ff" d="M10 20H12V22H10z"/>\n<path fill="#ff0000" d="M13 20H14V22H13zM13 22H14V23H13z"/>');
  assert.match(runsOf(pixels, 4, ground, 2, 10, 20), /M10 20H11V21H10z/); // two pixels per unit
});

test("clips and translations end where they were saved, and text is escaped", () => {
  const context = new SvgContext({ measureText: (text) => ({ width: 6 * text.length }) });
  context.save();
  context.translate(5, 7);
  context.beginPath();
  context.rect(0, 0, 10, 10);
  context.clip();
  context.fillStyle = "red";
  context.fillRect(1, 1, 2, 2);
  context.restore();
  context.fillText('a<b&"c"', 1, 2, 12);
  const [open, inside, close, text] = context.drawn().split("\n");
  assert.match(open, /^<svg x="5" y="7" width="10.00" height="10.00" viewBox="5 7 10.00 10.00">$/);
  assert.equal(inside, '<path fill="red" d="M6 8L8 8L8 10L6 10z"/>');
  assert.equal(close, "</svg>");
  assert.match(text, /x="1" y="2".*textLength="12".*>a&lt;b&amp;&quot;c&quot;<\/text>$/);
  assert.equal(escaped("1 < 2"), "1 &lt; 2");
});
