// The page of `simrun --serve`: asks the server for the job that the form says and shows its answer. Every number comes from
// there.
import { css, memoryColours, memoryOrder } from "./colours";
import { bytesFromBase64, decode, inflated } from "./decode";
import { sizeText } from "./describe";
import { Form, problemText, type Field, type Problem } from "./form";
import { listenToKeys, listenToMinimap, listenToPointers } from "./input";
import type { Facts, Model } from "./model";
import { element, Page } from "./page";

interface Summary {
  peak_pp_rank: number;
  memory_limit_bytes: number;
  stages: { pp_rank: number; peak_memory_bytes: number; memory: Record<string, number> }[];
}

// Of POST /estimate (cli/estimate.h). Without problems everything is there; a refused request has nothing else.
interface Answer {
  yaml?: string;
  problems: Problem[];
  form?: Field[];
  summary?: Summary;
  title?: string;
  numbers?: string;
  tables?: string;
  timeline?: { facts: Facts; columns: string };
}

const base = element<HTMLSelectElement>("base");
const values = new Map<string, string>(); // what differs from the base
const form = new Form(element("fields"), change);
let page: Page | undefined;
let beginsAnew = true; // the fields are of another job, model or cluster
let [asked, answered] = [0, 0];
let asking = false;

// Another model or cluster brings its own numbers.
function change(key: string, value: string): void {
  if (key === "model.from" || key === "cluster.from") {
    const section = key.slice(0, key.indexOf(".") + 1);
    for (const other of [...values.keys()]) if (other.startsWith(section) && other !== "cluster.nodes") values.delete(other);
    beginsAnew = true;
  }
  if (value === "") values.delete(key);
  else values.set(key, value);
  void ask();
}

function begin(): void {
  values.clear();
  beginsAnew = true;
  void ask();
}

// One request at a time: while it is under way the form goes on, and the next one says what it then says.
async function ask(): Promise<void> {
  asked++;
  if (asking) return;
  asking = true;
  while (answered !== asked) {
    const number = asked;
    await once().catch((error: unknown) => tell([{ key: "", message: String(error), hint: "", place: "" }]));
    answered = number;
    document.documentElement.dataset.answered = String(answered);
  }
  asking = false;
  document.documentElement.dataset.state = "ready";
}

async function once(): Promise<void> {
  const start = performance.now();
  const body = JSON.stringify({ base: base.value, set: Object.fromEntries(values) });
  let answer: Answer;
  try {
    const response = await fetch("/estimate", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    answer = (await response.json()) as Answer;
  } catch {
    throw new Error("no answer: is simrun --serve still running?");
  }
  element("answered").textContent = `answered in ${Math.round(performance.now() - start)} ms`;
  if (answer.yaml !== undefined) element<HTMLTextAreaElement>("yaml").value = answer.yaml;
  if (answer.form) {
    form.show(answer.form, values, beginsAnew);
    beginsAnew = false;
  }
  tell(answer.problems);
  if (answer.problems.length === 0) await show(answer as Required<Answer>);
}

function tell(problems: Problem[]): void {
  const elsewhere = form.tell(problems).map((problem) => {
    const line = document.createElement("p");
    const at = problem.key || problem.place;
    line.append(...(at === "" ? [] : [`${at}: `]), ...problemText(problem));
    return line;
  });
  if (problems.length > 0 && elsewhere.length === 0) {
    elsewhere.push(Object.assign(document.createElement("p"), { textContent: "The job as the form has it cannot be run; the numbers are of the one before." }));
  }
  element("problems").replaceChildren(...elsewhere);
  element("result").classList.toggle("stale", problems.length > 0);
}

async function show(answer: Required<Answer>): Promise<void> {
  element("title").textContent = answer.title;
  document.title = `${answer.title} - simrun`;
  element("numbers").innerHTML = answer.numbers; // escaped where users wrote it
  element("tables").innerHTML = answer.tables;
  showMemory(answer.summary, answer.timeline.facts.categories);
  draw(decode(answer.timeline.facts, await inflated(bytesFromBase64(answer.timeline.columns))));
}

function draw(model: Model): void {
  if (page) return page.show(model);
  page = new Page(model);
  listenToKeys(page, listenToPointers(page));
  listenToMinimap(page);
}

// Of the fullest rank at its peak, by category, against what a GPU has.
function showMemory(summary: Summary, categories: string[]): void {
  const stage = summary.stages.find(({ pp_rank }) => pp_rank === summary.peak_pp_rank);
  if (!stage) return element("memory").replaceChildren();
  const full = Math.max(stage.peak_memory_bytes, summary.memory_limit_bytes) * 1.02;
  const gauge = Object.assign(document.createElement("div"), { className: "gauge" });
  const legend = Object.assign(document.createElement("div"), { className: "legend" });
  const share = (bytes: number) => `${(100 * bytes) / full}%`;
  for (const category of memoryOrder) {
    const name = categories[category]!;
    const bytes = stage.memory[name] ?? 0;
    if (bytes === 0) continue;
    const part = document.createElement("span");
    Object.assign(part.style, { width: share(bytes), background: css(memoryColours[category]!) });
    part.title = `${name} ${sizeText(bytes)}`;
    gauge.append(part);
    const swatch = document.createElement("i");
    swatch.style.background = css(memoryColours[category]!);
    const item = document.createElement("span");
    item.append(swatch, ` ${part.title}`);
    legend.append(item);
  }
  const limit = Object.assign(document.createElement("span"), { className: "limit", title: `limit ${sizeText(summary.memory_limit_bytes)}` });
  limit.style.left = share(summary.memory_limit_bytes);
  gauge.append(limit);
  gauge.setAttribute("role", "img");
  gauge.setAttribute("aria-label", `memory of pipeline rank ${stage.pp_rank} at its peak: ${sizeText(stage.peak_memory_bytes)} of ${sizeText(summary.memory_limit_bytes)}`);
  legend.append(`limit ${sizeText(summary.memory_limit_bytes)} (red)`);
  element("memory").replaceChildren(gauge, legend);
}

function showYaml(shown: boolean): void {
  element<HTMLTextAreaElement>("yaml").hidden = !shown;
  element("show-yaml").setAttribute("aria-expanded", String(shown));
  element("show-yaml").textContent = shown ? "hide YAML" : "show YAML";
}

// Where the browser keeps its clipboard from the page, the text is there to be copied by hand.
async function copyYaml(): Promise<void> {
  const text = element<HTMLTextAreaElement>("yaml");
  try {
    await navigator.clipboard.writeText(text.value);
    element("copied").textContent = "copied";
  } catch {
    showYaml(true);
    text.focus();
    text.select();
    element("copied").textContent = "Ctrl+C copies it";
  }
  window.setTimeout(() => (element("copied").textContent = ""), 4000);
}

const jobs = JSON.parse(element("jobs").textContent!) as string[];
base.replaceChildren(...jobs.map((name) => Object.assign(document.createElement("option"), { value: name, textContent: name })));
base.addEventListener("change", begin);
element("reset").addEventListener("click", begin);
element("form").addEventListener("submit", (event) => event.preventDefault());
element("copy-yaml").addEventListener("click", () => void copyYaml());
element("show-yaml").addEventListener("click", () => showYaml(element("yaml").hidden === true));
begin();
