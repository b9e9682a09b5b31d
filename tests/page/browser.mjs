// A headless Chromium driven over its debugging pipe: no package, no port. Finds the browser by path, or not at all.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", "--disable-quic", "--remote-debugging-pipe",
               "--window-size=1400,900"];

// How long any one answer may take: a machine with all its cores taken is slow, a browser that hangs is slower.
const patience = 30000;

export class Browser {
  #next = 1;
  #waiting = new Map();
  #text = "";
  #said = ""; // what the browser writes to its standard error
  #tabs = new Map(); // by session

  constructor() {
    this.profile = mkdtempSync(join(tmpdir(), "simrun-page-"));
    this.process = spawn(chromium, [...flags, `--user-data-dir=${this.profile}`],
                         { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], env: { ...process.env, HOME: this.profile },
                           detached: true }); // a process group of its own
    this.process.stdio[2].on("data", (chunk) => (this.#said = (this.#said + chunk).slice(-2000)));
    this.process.stdio[3].on("error", () => {}); // the browser ended: told by its exit
    this.process.stdio[4].setEncoding("utf8").on("data", (chunk) => this.#receive(chunk));
    this.ended = new Promise((done) => this.process.once("exit", (code, signal) => {
      this.#fail(`chromium ended with ${signal ?? code}: ${this.#said}`);
      done();
    }));
  }

  #fail(message) {
    for (const { reject } of this.#waiting.values()) reject(new Error(message));
    this.#waiting.clear();
  }

  #receive(chunk) {
    const messages = (this.#text + chunk).split("\0");
    this.#text = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (!waiting) this.#tabs.get(message.sessionId)?.heard(message.method, message.params);
      else if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method} within ${patience} ms: ${this.#said}`)), patience);
      const settled = (done) => (value) => (clearTimeout(timer), done(value));
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject) });
      this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  // A tab that shows `url` in "light" or "dark", and has settled: its document says whether it is ready or failed. Beside
  // itself it may ask for the addresses in `more`.
  async open(url, scheme = "light", more = []) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId, targetId, [url, ...more]);
    this.#tabs.set(sessionId, tab);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await tab.send(`${domain}.enable`);
    await tab.send("Fetch.enable", { patterns: [{ urlPattern: "*" }] });
    await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    await tab.send("Page.navigate", { url });
    return tab;
  }

  async close() {
    this.process.kill();
    await this.ended;
    // Its children outlive it and write to the profile: on a busy machine for longer than anyone waits.
    try {
      process.kill(-this.process.pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error; // none is left
    }
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

export class Tab {
  // What a page must not do: console errors, exceptions, and every request but those that it may make. Lines of text.
  faults = [];

  constructor(browser, session, target, allowed) {
    Object.assign(this, { browser, session, target, allowed });
  }

  send(method, params = {}) {
    return this.browser.send(method, params, this.session);
  }

  heard(method, params) {
    const fault = (text) => this.faults.push(text);
    const request = (of, url) => !this.allowed.includes(url) && fault(`${of}: ${url.slice(0, 200)}`);
    if (method === "Runtime.exceptionThrown") {
      const { exceptionDetails: { text, exception } } = params;
      fault(`exception: ${text} ${exception?.description ?? exception?.value ?? ""}`);
    }
    if (method === "Runtime.consoleAPICalled" && ["error", "assert"].includes(params.type)) {
      fault(`console.${params.type}: ${params.args.map((arg) => arg.value ?? arg.description).join(" ")}`);
    }
    if (method === "Log.entryAdded" && params.entry.level === "error") fault(`log: ${params.entry.text} ${params.entry.url ?? ""}`);
    if (method === "Network.requestWillBeSent") request("request", params.request.url);
    if (method === "Network.webSocketCreated" || method === "Network.webTransportCreated") fault(`socket: ${params.url}`);
    if (method === "Inspector.targetCrashed") fault("the page crashed");
    if (method === "Fetch.requestPaused") this.#decide(params);
  }

  // Only what is allowed is loaded; what else it asks for never leaves the browser.
  #decide({ requestId, request: { url } }) {
    const allowed = this.allowed.includes(url);
    if (!allowed) this.faults.push(`request stopped: ${url.slice(0, 200)}`);
    const answer = allowed ? this.send("Fetch.continueRequest", { requestId })
                           : this.send("Fetch.failRequest", { requestId, errorReason: "BlockedByClient" });
    answer.catch(() => {}); // the tab was closed meanwhile
  }

  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // The first truthy value of the expression.
  async until(expression, milliseconds = 15000) {
    for (const end = Date.now() + milliseconds; Date.now() < end; await new Promise((go) => setTimeout(go, 20))) {
      const value = await this.value(expression);
      if (value) return value;
    }
    throw new Error(`not within ${milliseconds} ms: ${expression}`);
  }

  // Everything asked for so far is drawn.
  frame() {
    return this.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
  }

  async press(key, modifiers = 0) {
    const text = key.length === 1 ? { text: key } : {};
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, modifiers, ...text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, modifiers });
  }

  mouse(type, x, y, more = {}) {
    return this.send("Input.dispatchMouseEvent", { type, x, y, ...more });
  }

  async click(x, y) {
    await this.mouse("mousePressed", x, y, { button: "left", buttons: 1, clickCount: 1 });
    await this.mouse("mouseReleased", x, y, { button: "left", clickCount: 1 });
  }

  close() {
    return this.browser.send("Target.closeTarget", { targetId: this.target });
  }
}
