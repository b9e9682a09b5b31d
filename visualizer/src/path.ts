import { Exchanges } from "./exchanges";
import type { Side } from "./merge";
import { boxesOf, instructionOf, passLane, recomputePhase, segmentOf, type Box, type Model } from "./model";
import { timeText } from "./viewport";

// The critical path: the boxes that the step's length is made of, oldest first. Of instructions it was found by the simulator
// (schedules/critical_path.h).
export interface Path {
  rank: Float64Array;
  lane: Float64Array;
  index: Float64Array;
}

// Where only passes were recorded: each is held up by the one before on its rank or by the one that hands over to it,
// whichever ends later. What lies between is transfers, and waiting.
export function passPath(model: Model): Path {
  const exchanges = new Exchanges(model);
  const end = (box: Box) => {
    const { start, duration } = boxesOf(model, box.rank, box.lane);
    return start[box.index]! + duration[box.index]!;
  };
  const last = (boxes: Box[]) => boxes.reduce<Box | undefined>((a, b) => (a && end(a) >= end(b) ? a : b), undefined);
  const ranks = model.ranks.map((_, rank) => rank).filter((rank) => !model.ranks[rank]!.measured);
  const path: Box[] = [];
  let at = last(ranks.flatMap((rank) => {
    const count = model.ranks[rank]!.passes.start.length;
    return count > 0 ? [{ rank, lane: passLane, index: count - 1 }] : [];
  }));
  while (at) {
    path.push(at);
    const { rank, index } = at;
    const start = model.ranks[rank]!.passes.start[index]!;
    const before = index > 0 ? [{ rank, lane: passLane, index: index - 1 }] : [];
    const givers = exchanges.arrows(at).filter(({ to }) => to.rank === rank && to.index === index).map(({ from }) => from);
    at = last([...before, ...givers].filter((box) => end(box) <= start && (box.rank !== rank || box.index < index)));
  }
  path.reverse();
  const column = (of: (box: Box) => number) => Float64Array.from(path, of);
  return { rank: column((box) => box.rank), lane: column((box) => box.lane), index: column((box) => box.index) };
}

// By rank: what is on the path, by lane and box; and of its passes those that have something on it.
export interface OnPath {
  lanes: Uint8Array[];
  passes: Uint8Array;
}

export function onPath(model: Model): OnPath[] {
  const marked = model.ranks.map((rank) => ({ lanes: rank.lanes.map((lane) => new Uint8Array(lane.start.length)),
                                              passes: new Uint8Array(rank.passes.start.length) }));
  const entries = model.ranks.map((rank) => new Uint8Array(rank.segment.length));
  const { rank, lane, index } = model.path;
  for (let i = 0; i < rank.length; i++) {
    const [r, l] = [rank[i]!, lane[i]!];
    if (l !== passLane) marked[r]!.lanes[l]![index[i]!] = 1;
    entries[r]![boxesOf(model, r, l).entry[index[i]!]!] = 1;
  }
  model.ranks.forEach(({ passes }, r) => passes.entry.forEach((entry, i) => (marked[r]!.passes[i] = entries[r]![entry]!)));
  return marked;
}

export function isOnPath(marked: OnPath[], box: Box): boolean {
  const rank = marked[box.rank]!;
  return (box.lane === passLane ? rank.passes : rank.lanes[box.lane]!)[box.index] === 1;
}

const kindNames = ["forward", "backward", "backward-input", "backward-weight", "communication", "step", "paired passes"];

function workName(model: Model, box: Box): string {
  const pass = kindNames[model.segments.kind[segmentOf(model, box)]!]!;
  if (box.lane === passLane) return pass;
  const { traffic } = model.facts.streams[model.ranks[box.rank]!.lanes[box.lane]!.stream]!;
  if (traffic !== "compute") return `${traffic} communication`;
  return model.instructions.phase[instructionOf(model, box)] === recomputePhase ? "recompute" : pass;
}

// Time on the path by what it was spent on, the longest first; "waiting" is what nothing recorded explains.
export function pathParts(model: Model, side?: Side): [string, number][] {
  const parts = new Map<string, number>();
  const add = (name: string, time: number) => parts.set(name, (parts.get(name) ?? 0) + time);
  const { rank, lane, index } = model.path;
  let end = 0;
  let gap = "waiting";
  for (let i = 0; i < rank.length; i++) {
    const box = { rank: rank[i]!, lane: lane[i]!, index: index[i]! };
    if (model.ranks[box.rank]!.side !== side) continue;
    const of = boxesOf(model, box.rank, box.lane);
    const [start, duration] = [of.start[box.index]!, of.duration[box.index]!];
    add(workName(model, box), duration);
    gap = box.lane === passLane ? "transfers and waiting" : "waiting";
    add(gap, start - end);
    end = start + duration;
  }
  // The step may end on a GPU that was not recorded. Where two runs are drawn it is the longer one's.
  const isAlone = model.ranks.every(({ measured, side }) => !measured && !side);
  if (isAlone && rank.length > 0) add(gap, model.facts.step - end);
  return [...parts].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
}

// "critical path, 14.00 s:  forward 4.5 s (32 %)  ·  ..."
export function describePath(model: Model): string {
  const sides = [...new Set(model.ranks.map(({ side }) => side))];
  return sides.map((side) => (side ? `${side}: ` : "") + describeOne(model, side)).join("   ");
}

function describeOne(model: Model, side?: Side): string {
  const parts = pathParts(model, side);
  const whole = parts.reduce((sum, [, time]) => sum + time, 0);
  if (whole === 0) return "no critical path: nothing was recorded";
  const ranks = new Set(model.path.rank.filter((rank) => model.ranks[rank]!.side === side)).size;
  const texts = parts.map(([name, time]) => `${name} ${timeText(time)} (${((time / whole) * 100).toFixed(1)} %)`);
  return `critical path of ${timeText(whole)} over ${ranks} pipeline rank${ranks > 1 ? "s" : ""}: ${texts.join("  \u00b7  ")}`;
}

// Where the path goes over to another rank, for the lines between them: boxes in pairs.
export function crossings(model: Model): [Box, Box][] {
  const { rank, lane, index } = model.path;
  const pairs: [Box, Box][] = [];
  const box = (i: number): Box => ({ rank: rank[i]!, lane: lane[i]!, index: index[i]! });
  const side = (i: number) => model.ranks[rank[i]!]!.side;
  for (let i = 1; i < rank.length; i++) {
    if (rank[i] !== rank[i - 1] && side(i) === side(i - 1)) pairs.push([box(i - 1), box(i)]);
  }
  return pairs;
}
