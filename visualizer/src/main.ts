import { bytesFromBase64, decode, inflated } from "./decode";
import { listenToKeys, listenToMinimap, listenToPointers } from "./input";
import type { Facts } from "./model";
import { element, Page } from "./page";

async function open(): Promise<void> {
  const facts = JSON.parse(element("facts").textContent!) as Facts;
  const columns = await inflated(bytesFromBase64(element("columns").textContent!));
  const page = new Page(decode(facts, columns));
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
