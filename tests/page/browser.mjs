// A headless Chromium driven over its debugging pipe: no package, no port. Finds the browser by path, or not at all.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

export class Browser {
  #next = 1;
  #waiting = new Map();
  #text = "";
  events = [];

  constructor() {
    this.profile = mkdtempSync(join(tmpdir(), "simrun-page-"));
    const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                   "--remote-debugging-pipe", `--user-data-dir=${this.profile}`, "--window-size=1400,900"];
    this.process = spawn(chromium, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.process.stdio[4].on("data", (chunk) => this.#receive(chunk));
  }

  #receive(chunk) {
    const messages = (this.#text + chunk).split("\0");
    this.#text = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      const waiting = this.#waiting.get(message.id);
      if (!waiting) this.events.push(message);
      else if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
      this.#waiting.delete(message.id);
    }
  }

  send(method, params = {}) {
    const id = this.#next++;
    const message = { id, method, params, ...(this.session ? { sessionId: this.session } : {}) };
    this.process.stdio[3].write(`${JSON.stringify(message)}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  async open(url) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    this.session = (await this.send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await this.send(`${domain}.enable`);
    await this.send("Page.navigate", { url });
    await this.until(`document.documentElement?.dataset.state`);
  }

  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.text);
    return result.value;
  }

  async until(expression, milliseconds = 10000) {
    for (const end = Date.now() + milliseconds; Date.now() < end; await new Promise((go) => setTimeout(go, 20))) {
      const value = await this.value(expression);
      if (value) return value;
    }
    throw new Error(`not within ${milliseconds} ms: ${expression}`);
  }

  async press(key, modifiers = 0) {
    const text = key.length === 1 ? { text: key } : {};
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, modifiers, ...text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, modifiers });
  }

  mouse(type, x, y, more = {}) {
    return this.send("Input.dispatchMouseEvent", { type, x, y, ...more });
  }

  async screenshot() {
    return Buffer.from((await this.send("Page.captureScreenshot")).data, "base64");
  }

  async close() {
    this.process.kill();
    await new Promise((done) => this.process.once("exit", done));
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
