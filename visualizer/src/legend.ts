import { categorical, css, inkOn, kindColour, linkColour, memoryColours, memoryOrder, passColours, type Mode } from "./colours";
import { directionNames } from "./describe";
import { pairKind, passLetters, passNames, unassignedKind, type Model } from "./model";

// What colours mean, for the mode in use and only for what the data holds.
export function legend(model: Model, mode: Mode): HTMLElement[] {
  const items: HTMLElement[] = [];
  const item = (rgb: number, letter: string, text: string, background = css(rgb)) => {
    const swatch = document.createElement("i");
    swatch.style.background = background;
    swatch.style.color = inkOn(rgb);
    swatch.textContent = letter;
    const span = document.createElement("span");
    span.append(swatch, ` ${text}`);
    items.push(span);
  };
  if (mode === "op") {
    const used = new Set<number>();
    for (const rank of model.ranks) for (const entry of rank.passes.entry) used.add(model.segments.kind[rank.segment[entry]!]!);
    if (model.segments.kind.includes(unassignedKind)) used.add(unassignedKind); // perhaps not among the passes
    [...used].sort().forEach((kind) => {
      if (kind !== pairKind) return item(kindColour(kind), passLetters[kind]!, passNames[kind]!);
      const [upper, lower] = [css(passColours[0]!), css(passColours[1]!)];
      item(passColours[0]!, "", passNames[pairKind]!, `linear-gradient(${upper} 50%, ${lower} 50%)`);
    });
    const traffic = new Set(model.ranks.flatMap((r) => r.lanes.map((lane) => model.facts.streams[lane.stream]!.traffic)));
    if (traffic.has("pp")) item(0x56b4e9, "", "pipeline transfer");
    if (["tp", "cp", "ep", "dp"].some((t) => traffic.has(t))) item(0xcc79a7, "", "collective");
  }
  if (mode === "chunk" && model.facts.bidirectional) {
    const first = ["first", "last"]; // rank that holds stage 0
    directionNames.forEach((name, d) => item(categorical[d]!, "", `${name}: stage 0 on the ${first[d]} rank (backward darker)`));
  }
  if (model.links.length > 0) item(linkColour, "", "link in use (mean; lighter: peak)");
  const memory = document.createElement("span");
  memory.textContent = "memory:";
  items.push(memory);
  const held = (c: number) => model.ranks.some((rank) => rank.memory.live[c]!.some((bytes) => bytes > 0));
  for (const category of memoryOrder) if (held(category)) item(memoryColours[category]!, "", model.facts.categories[category]!);
  return items;
}
