import { boxesOf, passLane, passLetters, passName, type Box, type Model } from "./model";

// What a query finds, in order of time. "3B17" is one pass; "B17" or "17" those of a microbatch, "3B" those of a stage; any other
// text is looked for in the names of instructions and segments.

export const mostResults = 20000;

interface PassQuery {
  stage?: number;
  kind?: number;
  microbatch?: number;
}

export function passQuery(text: string): PassQuery | undefined {
  const parts = /^(\d+)?\s*([FBIW])\s*(\d+)?$/i.exec(text.trim());
  if (parts) {
    const query: PassQuery = { kind: passLetters.indexOf(parts[2]!.toUpperCase()) };
    if (parts[1] !== undefined) query.stage = Number(parts[1]);
    if (parts[3] !== undefined) query.microbatch = Number(parts[3]);
    return query;
  }
  return /^\d+$/.test(text.trim()) ? { microbatch: Number(text) } : undefined;
}

function matchingPasses(model: Model, query: PassQuery): Box[] {
  const found: Box[] = [];
  model.ranks.forEach((rank, r) => {
    rank.passes.entry.forEach((entry, index) => {
      const segment = rank.segment[entry]!;
      const fits =
        (query.kind === undefined || model.segments.kind[segment] === query.kind) &&
        (query.stage === undefined || model.segments.stage[segment] === query.stage) &&
        (query.microbatch === undefined || rank.microbatch[entry] === query.microbatch);
      if (fits) found.push({ rank: r, lane: passLane, index });
    });
  });
  return found;
}

function matchingText(model: Model, text: string): Box[] {
  const wanted = text.trim().toLowerCase();
  const matches = model.facts.strings.map((s) => s.toLowerCase().includes(wanted));
  const { what, label, cause } = model.instructions;
  const found: Box[] = [];
  model.ranks.forEach((rank, r) => {
    rank.passes.entry.forEach((entry, index) => {
      if (matches[model.segments.name[rank.segment[entry]!]!]) found.push({ rank: r, lane: passLane, index });
    });
    rank.lanes.forEach((lane, l) => {
      for (let index = 0; index < lane.start.length && found.length < mostResults; index++) {
        const row = model.segments.first[rank.segment[lane.entry[index]!]!]! + lane.instruction[index]!;
        if (matches[label[row]!] || matches[what[row]!] || matches[cause[row]!]) found.push({ rank: r, lane: l, index });
      }
    });
  });
  return found;
}

export function search(model: Model, text: string): Box[] {
  if (text.trim() === "") return [];
  const query = passQuery(text);
  const found = query ? matchingPasses(model, query) : matchingText(model, text);
  const start = (box: Box) => boxesOf(model, box.rank, box.lane).start[box.index]!;
  return found.sort((a, b) => start(a) - start(b) || a.rank - b.rank || a.lane - b.lane).slice(0, mostResults);
}

// The short name drawn in a pass's box: the longest of these that fits.
export function boxNames(model: Model, box: Box): string[] {
  const rank = model.ranks[box.rank]!;
  const entry = rank.passes.entry[box.index]!;
  const kind = model.segments.kind[rank.segment[entry]!]!;
  const microbatch = rank.microbatch[entry]!;
  if (microbatch < 0 || kind > 3) return [passName(model, box), passLetters[kind]!];
  return [passName(model, box), `${passLetters[kind]}${microbatch}`, `${microbatch}`];
}
