import { boxesOf, partIn, partName, partsOf, passLane, passLetters, passName, type Box, type Half, type Model, type Part } from "./model";

// What a query finds, in order of time. "3B17" is one pass; "B17" or "17" those of a microbatch, "3B" those of a stage; an overlapped
// pair is found by either of its passes and by both, "(0F8;7B3)"; any other text is looked for in the names of instructions and
// segments.

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

// Of each pass that a text names, in brackets and behind semicolons or not; undefined if it names something else.
export function passQueries(text: string): PassQuery[] | undefined {
  const queries = text.replace(/^\s*\(|\)\s*$/g, "").split(";").filter((part) => part.trim() !== "").map(passQuery);
  return queries.length > 0 && queries.every((query) => query !== undefined) ? queries : undefined;
}

function fits(query: PassQuery, part: Part): boolean {
  return (query.kind === undefined || part.kind === query.kind) &&
         (query.stage === undefined || part.stage === query.stage) &&
         (query.microbatch === undefined || part.microbatch === query.microbatch);
}

// Boxes that hold all that is asked for.
function matchingPasses(model: Model, queries: PassQuery[]): Box[] {
  const found: Box[] = [];
  model.ranks.forEach((rank, r) => {
    for (let index = 0; index < rank.passes.entry.length; index++) {
      const box = { rank: r, lane: passLane, index };
      const parts = partsOf(model, box);
      if (queries.every((query) => parts.some((part) => fits(query, part)))) found.push(box);
    }
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
  const queries = passQueries(text);
  const found = queries ? matchingPasses(model, queries) : matchingText(model, text);
  const start = (box: Box) => boxesOf(model, box.rank, box.lane).start[box.index]!;
  return found.sort((a, b) => start(a) - start(b) || a.rank - b.rank || a.lane - b.lane).slice(0, mostResults);
}

function partNames(part: Part): string[] {
  return [partName(part), `${passLetters[part.kind]}${part.microbatch}`, `${part.microbatch}`];
}

// The short name drawn in a pass's box: the longest of these that fits.
export function boxNames(model: Model, box: Box): string[] {
  const parts = partsOf(model, box);
  const [first, second] = parts.map(partNames);
  if (parts.some((part) => part.microbatch < 0 || part.kind > 3)) return [passName(model, box), passLetters[parts[0]!.kind]!];
  if (!second) return [passName(model, box), ...first!.slice(1)];
  return [passName(model, box), ...[1, 2].map((length) => `${first![length]};${second[length]}`)];
}

// What a half of a pair's box is named where each has a line of its own.
export function halfNames(model: Model, box: Box, half: Half): string[] {
  return partNames(partIn(model, box, half));
}
