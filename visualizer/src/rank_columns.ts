import type { ColumnReader } from "./columns";
import type { Facts, Instructions, Lane, Memory, Passes, Rank, Segments } from "./model";

// Reads the columns of one rank in the order, and by the guesses, of visualizer/rank_columns.h.

interface RankPlan {
  facts: Facts;
  segments: Segments;
  instructions: Instructions;
}

// Columns of a lane before its times are known.
interface LaneColumns {
  after: Float64Array;
  arrival: Float64Array; // less the end that it came behind
  duration: Float64Array; // less the first of its kind
}

// Fills in start and duration of all lanes, in the order of issue.
function fillTimes(lanes: Lane[], columns: LaneColumns[], segment: Float64Array, plan: RankPlan): void {
  const usual = new Float64Array(plan.instructions.what.length).fill(-1); // by row of Instructions
  const { first } = plan.segments;
  const ends = new Float64Array(lanes.length);
  const next = new Uint32Array(lanes.length);
  // Of each lane's next box; Infinity behind the last one.
  const entry = lanes.map((lane) => (lane.entry.length > 0 ? lane.entry[0]! : Infinity));
  const instruction = lanes.map((lane) => lane.instruction[0] ?? 0);
  for (;;) {
    let l = 0;
    for (let other = 1; other < lanes.length; other++) {
      if (entry[other]! < entry[l]! || (entry[other] === entry[l] && instruction[other]! < instruction[l]!)) l = other;
    }
    if (lanes.length === 0 || entry[l] === Infinity) return;
    const lane = lanes[l]!;
    const { after, arrival, duration } = columns[l]!;
    const i = next[l]!++;
    const row = first[segment[entry[l]!]!]! + instruction[l]!;
    if (usual[row] === -1) usual[row] = lane.duration[i] = duration[i]!;
    else lane.duration[i] = duration[i]! + usual[row]!;
    lane.start[i] = ends[after[i] === 0 ? l : after[i]! - 1]! + arrival[i]! + lane.wait[i]!;
    ends[l] = lane.start[i]! + lane.duration[i]!;
    entry[l] = i + 1 < lane.entry.length ? lane.entry[i + 1]! : Infinity;
    instruction[l] = lane.instruction[i + 1] ?? 0;
  }
}

function decodeLanes(reader: ColumnReader, segment: Float64Array, plan: RankPlan): Lane[] {
  const lanes = [...reader.column()].map((stream): Lane => {
    const entry = reader.differences();
    const instruction = reader.differences();
    return { stream, entry, instruction, wait: new Float64Array(0), start: new Float64Array(entry.length),
             duration: new Float64Array(entry.length) };
  });
  const columns = lanes.map((lane): LaneColumns => {
    const after = reader.column();
    const arrival = reader.planes();
    lane.wait = reader.planes();
    return { after, arrival, duration: reader.planes() };
  });
  fillTimes(lanes, columns, segment, plan);
  return lanes;
}

function decodePasses(reader: ColumnReader, lanes: Lane[], entries: number): Passes {
  const from = new Float64Array(entries).fill(Infinity);
  const to = new Float64Array(entries);
  for (const { stream, start, duration, entry } of lanes) {
    if (stream !== 0) continue;
    for (let i = 0; i < start.length; i++) {
      const [of, end] = [entry[i]!, start[i]! + duration[i]!];
      if (start[i]! < from[of]!) from[of] = start[i]!;
      if (end > to[of]!) to[of] = end;
    }
  }
  const entry = reader.differences();
  const [start, duration] = [reader.planes(), reader.planes()];
  let end = 0;
  for (let i = 0; i < entry.length; i++) {
    const isKnown = from[entry[i]!]! < Infinity;
    start[i]! += isKnown ? from[entry[i]!]! : end;
    duration[i]! += isKnown ? to[entry[i]!]! - from[entry[i]!]! : 0;
    end = start[i]! + duration[i]!;
  }
  return { start, duration, entry };
}

function decodeMemory(reader: ColumnReader, facts: Facts): Memory {
  const time = reader.planes();
  for (let i = 1; i < time.length; i++) time[i]! += time[i - 1]!;
  return { time, live: facts.categories.map(() => reader.differences()) };
}

export function decodeRank(reader: ColumnReader, plan: RankPlan, at: number): Rank {
  const segment = reader.column();
  const microbatch = [reader.column(), reader.column()];
  const lanes = decodeLanes(reader, segment, plan);
  const passes = decodePasses(reader, lanes, segment.length);
  return { ...plan.facts.ranks[at]!, segment, microbatch, passes, memory: decodeMemory(reader, plan.facts), lanes };
}
