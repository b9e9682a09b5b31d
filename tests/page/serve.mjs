// The page of `simrun --serve` in a real browser: SIMRUN=build/release/simrun node serve.mjs. Needs node 18 and Chromium, no
// package. scripts/page.sh browser runs it.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser } from "./browser.mjs";
import { checkAccessibility } from "./reading.mjs";

const simrun = process.env.SIMRUN ?? "build/release/simrun";
const folder = mkdtempSync(join(tmpdir(), "simrun-serve-"));
let [browser, server, address] = [];

before(async () => {
  server = spawn(simrun, ["--serve", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  address = await new Promise((found, failed) => {
    server.once("exit", (code) => failed(new Error(`simrun --serve ended with ${code}`)));
    server.stdout.setEncoding("utf8").once("data", (text) => found(text.split("\n")[0]));
  });
  browser = new Browser();
});
after(async () => {
  const ended = new Promise((done) => server.removeAllListeners("exit").once("exit", done));
  server.kill("SIGINT");  // first: what the browser does must not leave it running
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
  assert.equal(await ended, 0, "Ctrl-C ends it well");
});

// Everything that was asked is answered and drawn.
const settled = async (tab) => {
  await tab.until("document.documentElement?.dataset.state === 'ready'");
  await tab.frame();
};
async function opened(scheme = "light") {
  const tab = await browser.open(address, scheme, [`${address}estimate`]);
  await settled(tab);
  return tab;
}
async function closed(tab) {
  assert.deepEqual(tab.faults, []);
  await tab.close();
}

const text = (tab, id) => tab.value(`document.getElementById("${id}").textContent`);
const figure = (tab, name) => tab.value(`[...document.querySelectorAll("#numbers dl div")]
  .find((div) => div.firstChild.textContent === "${name}").lastChild.textContent`);
const key = async (tab, name, code) => {
  for (const type of ["keyDown", "keyUp"]) await tab.send("Input.dispatchKeyEvent", { type, key: name, code: name, windowsVirtualKeyCode: code });
};
// As a pointer or a key would: the control has the value, and the page is told.
const put = (tab, field, property, value, event) => tab.value(`(() => {
  const control = document.getElementById("field-${field}");
  control.${property} = ${JSON.stringify(value)};
  delete document.documentElement.dataset.state;
  control.dispatchEvent(new Event("${event}", { bubbles: true }));
})()`);
const valueOf = (tab, field) => tab.value(`document.getElementById("field-${field}").value`);
const picture = (tab) => tab.value("document.getElementById('plot').toDataURL()");

test("the page begins with a shipped job, drawn, in light and in dark, and is accessible", async () => {
  const grounds = [];
  for (const scheme of ["light", "dark"]) {
    const tab = await opened(scheme);
    assert.equal(await text(tab, "title"), "llama3-70b-64xh100");
    assert.match(await figure(tab, "step"), /^[\d.]+ s$/);
    assert.equal(await figure(tab, "parameters"), "70.6 B");
    assert.equal(await figure(tab, "microbatches"), "64"); // 128 / (1 x dp 2)
    assert.ok((await tab.value("document.querySelectorAll('#tables table').length")) >= 2);
    assert.ok((await tab.value("document.querySelectorAll('#memory .gauge span').length")) >= 4);
    grounds.push(await tab.value("getComputedStyle(document.body).backgroundColor"));
    await checkAccessibility(tab);
    await closed(tab);
  }
  assert.notEqual(grounds[0], grounds[1]);
});

test("a slider moved with the arrow keys changes the job, its numbers and its timeline", async () => {
  const tab = await opened();
  const [before, shown] = [await figure(tab, "microbatches"), await picture(tab)];
  await tab.value(`document.getElementById("field-training.global_batch_size").focus()`);
  await key(tab, "Tab", 9); // from the number to its slider
  assert.equal(await tab.value("document.activeElement.type"), "range");
  await key(tab, "ArrowRight", 39);
  await tab.until(`[...document.querySelectorAll("#numbers dd")].some((dd) => dd.textContent === "128")`);
  await settled(tab);
  assert.equal(await valueOf(tab, "training.global_batch_size"), "256");
  assert.equal([before, await figure(tab, "microbatches")].join(), "64,128");
  assert.notEqual(await picture(tab), shown);
  assert.equal(await tab.value("document.activeElement.type"), "range", "the slider keeps the focus");
  await closed(tab);
});

test("every control is reached by Tab, and what is typed into a field does not reach the plot", async () => {
  const tab = await opened();
  await tab.value("document.activeElement.blur(), window.scrollTo(0, 0)");
  const all = await tab.value(`document.querySelectorAll("#form select, #form input, #form button").length`);
  const reached = new Set();
  for (let i = 0; i < all + 3; i++) {
    await key(tab, "Tab", 9);
    reached.add(await tab.value(`[...document.querySelectorAll("#form select, #form input, #form button")].indexOf(document.activeElement)`));
  }
  reached.delete(-1);
  assert.equal(reached.size, all);
  await tab.value(`document.getElementById("field-training.seq_length").select()`);
  for (const digit of "4096") await tab.press(digit);
  await tab.until("document.getElementById('yaml').value.includes('seq_length: 4096')");
  assert.equal(await tab.value("document.getElementById('mode-op').getAttribute('aria-pressed')"), "true", "4 is no colour here");
  await closed(tab);
});

test("an illegal combination says so beside its field, with the loader's suggestion, and goes when it is mended", async () => {
  const tab = await opened();
  const step = await figure(tab, "step");
  await put(tab, "training.global_batch_size", "value", "127", "input");
  await settled(tab);
  const said = await tab.value(`document.querySelector("[data-key='training.global_batch_size'] .problem").textContent`);
  assert.match(said, /127 sequences do not split/);
  assert.match(said, /126|128/, "what would do");
  assert.equal(await figure(tab, "step"), step, "the numbers are those of the job before");
  assert.ok(await tab.value("document.getElementById('result').classList.contains('stale')"));
  await put(tab, "training.global_batch_size", "value", "128", "input");
  await settled(tab);
  assert.equal(await tab.value("document.querySelectorAll('.problem').length"), 0);
  assert.ok(!(await tab.value("document.getElementById('result').classList.contains('stale')")));
  await closed(tab);
});

test("the copied YAML is a job that simrun gives the same step", async () => {
  const tab = await opened();
  await browser.send("Browser.grantPermissions", { origin: address.slice(0, -1), permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
  await put(tab, "optimizer.zero_stage", "value", "0", "input");
  await put(tab, "optimizer.overlap_param_gather", "checked", false, "change");
  await put(tab, "training.seq_length", "value", "4096", "input");
  await settled(tab);
  assert.equal(await text(tab, "problems"), "");
  await tab.send("Page.bringToFront");
  await tab.value("document.getElementById('copy-yaml').click()");
  await tab.until("document.getElementById('copied').textContent === 'copied'");
  const yaml = await tab.value("navigator.clipboard.readText()");
  assert.match(yaml, /seq_length: 4096/);
  const file = join(folder, "copied.yaml");
  writeFileSync(file, yaml);
  const { step_time_s: seconds } = JSON.parse(execFileSync(simrun, [file, "--json"], { encoding: "utf8" }));
  const [shown, unit] = (await figure(tab, "step")).split(" ");
  assert.equal(unit, "s");
  assert.ok(Math.abs(Number(shown) - seconds) <= 0.005, `${shown} is shown, ${seconds} simulated`);
  await closed(tab);
});

test("another model brings its own dimensions, another job all of its values, and reset takes back what was changed", async () => {
  const tab = await opened();
  await put(tab, "model.from", "value", "llama3-8b", "change");
  await settled(tab);
  assert.equal(await valueOf(tab, "model.hidden_size"), "4096");
  assert.equal(await valueOf(tab, "parallelism.tensor_model_parallel_size"), "8");
  assert.match(await text(tab, "form"), /32 layers/, "which pipeline 4 x virtual 5 does not divide");
  await put(tab, "parallelism.virtual_pipeline_model_parallel_size", "value", "2", "input");
  await settled(tab);
  assert.equal(await figure(tab, "parameters"), "8.03 B");
  await tab.value(`delete document.documentElement.dataset.state, document.getElementById("reset").click()`);
  await settled(tab);
  assert.equal(await valueOf(tab, "model.hidden_size"), "8192");
  await tab.value(`(() => { const jobs = document.getElementById("base"); jobs.value = "tiny-4xa100";
    delete document.documentElement.dataset.state; jobs.dispatchEvent(new Event("change")); })()`);
  await settled(tab);
  assert.equal(await text(tab, "title"), "tiny-4xa100");
  assert.equal(await valueOf(tab, "model.hidden_size"), "256");
  await closed(tab);
});

test("a slider that is dragged far asks no more than it must, and ends where it stands", async () => {
  const tab = await opened();
  await tab.value(`delete document.documentElement.dataset.state`);
  await tab.value(`(() => { const slider = document.querySelector("[data-key='training.global_batch_size'] [type=range]");
    for (let at = 0; at <= Number(slider.max) - 2; at++) { slider.value = at; slider.dispatchEvent(new Event("input")); } })()`);
  await settled(tab);
  const wanted = await valueOf(tab, "training.global_batch_size");
  assert.match(await tab.value("document.getElementById('yaml').value"), new RegExp(`global_batch_size: ${wanted}\\n`));
  assert.equal(await figure(tab, "microbatches"), String(Number(wanted) / 2));
  await closed(tab);
});
