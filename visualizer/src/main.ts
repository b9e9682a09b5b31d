import { bytesFromBase64, decode, inflated } from "./decode";
import { listenToKeys, listenToMinimap, listenToPointers } from "./input";
import { merged } from "./merge";
import type { Facts, Model } from "./model";
import { element, Page } from "./page";

async function run(facts: string, columns: string): Promise<Model> {
  return decode(JSON.parse(element(facts).textContent!) as Facts, await inflated(bytesFromBase64(element(columns).textContent!)));
}

async function open(): Promise<void> {
  const own = await run("facts", "columns");
  const page = new Page(element("facts-b").textContent === "" ? own : merged(own, await run("facts-b", "columns-b")));
  listenToKeys(page, listenToPointers(page));
  listenToMinimap(page);
  document.documentElement.dataset.state = "ready";
}

open().catch((error: unknown) => {
  document.documentElement.dataset.state = "failed";
  const line = element("selection");
  line.classList.add("over");
  line.textContent = `The drawing could not be made: ${error instanceof Error ? error.message : String(error)}`;
});
