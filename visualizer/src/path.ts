import { instructionOf, passLane, recomputePhase, segmentOf, type Box, type Model } from "./model";
import { timeText } from "./viewport";

// The critical path: the boxes of lanes that the step's length is made of, oldest first, found by the simulator
// (schedules/critical_path.h).
export interface Path {
  rank: Float64Array;
  lane: Float64Array;
  index: Float64Array;
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
    marked[r]!.lanes[l]![index[i]!] = 1;
    entries[r]![model.ranks[r]!.lanes[l]!.entry[index[i]!]!] = 1;
  }
  model.ranks.forEach(({ passes }, r) => passes.entry.forEach((entry, i) => (marked[r]!.passes[i] = entries[r]![entry]!)));
  return marked;
}

export function isOnPath(marked: OnPath[], box: Box): boolean {
  const rank = marked[box.rank]!;
  return (box.lane === passLane ? rank.passes : rank.lanes[box.lane]!)[box.index] === 1;
}

const kindNames = ["forward", "backward", "backward-input", "backward-weight", "communication", "step", "paired passes"];

// Time on the path by what it was spent on, the longest first; "waiting" is what nothing recorded explains.
export function pathParts(model: Model): [string, number][] {
  const parts = new Map<string, number>();
  const add = (name: string, time: number) => parts.set(name, (parts.get(name) ?? 0) + time);
  const { rank, lane, index } = model.path;
  let end = 0;
  for (let i = 0; i < rank.length; i++) {
    const box = { rank: rank[i]!, lane: lane[i]!, index: index[i]! };
    const of = model.ranks[box.rank]!.lanes[box.lane]!;
    const [start, duration] = [of.start[box.index]!, of.duration[box.index]!];
    const { traffic } = model.facts.streams[of.stream]!;
    const recomputed = model.instructions.phase[instructionOf(model, box)] === recomputePhase;
    const name = traffic !== "compute" ? `${traffic} communication`
               : recomputed ? "recompute" : kindNames[model.segments.kind[segmentOf(model, box)]!]!;
    add(name, duration);
    add("waiting", start - end);
    end = start + duration;
  }
  return [...parts].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
}

// "critical path, 14.00 s:  forward 4.5 s (32 %)  ·  ..."
export function describePath(model: Model): string {
  const parts = pathParts(model);
  const whole = parts.reduce((sum, [, time]) => sum + time, 0);
  if (whole === 0) return "no critical path: only passes were recorded, or nothing";
  const ranks = new Set(model.path.rank).size;
  const texts = parts.map(([name, time]) => `${name} ${timeText(time)} (${((time / whole) * 100).toFixed(1)} %)`);
  return `critical path of ${timeText(whole)} over ${ranks} pipeline rank${ranks > 1 ? "s" : ""}: ${texts.join("  \u00b7  ")}`;
}

// Where the path goes over to another rank, for the lines between them: boxes in pairs.
export function crossings(model: Model): [Box, Box][] {
  const { rank, lane, index } = model.path;
  const pairs: [Box, Box][] = [];
  const box = (i: number): Box => ({ rank: rank[i]!, lane: lane[i]!, index: index[i]! });
  for (let i = 1; i < rank.length; i++) if (rank[i] !== rank[i - 1]) pairs.push([box(i - 1), box(i)]);
  return pairs;
}
