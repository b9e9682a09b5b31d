import { passPath } from "./path";
import type { Facts, Instructions, Model, Rank, Segments } from "./model";

// Two runs as one: the ranks of A and below them those of B, on one axis of time that begins with both steps. Neither
// exchanges anything with the other. Links are left out: each run has its own.

export type Side = "A" | "B";

const shifted = (column: Float64Array, by: number) => column.map((value) => (value < 0 ? value : value + by));

function joined(a: Float64Array, b: Float64Array): Float64Array {
  const all = new Float64Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

// Compute is stream 0 of both.
const streamBehind = (a: Model, stream: number) => (stream === 0 ? 0 : stream + a.facts.streams.length);

function joinedFacts(a: Facts, b: Facts): Facts {
  return {
    ...a, step: Math.max(a.step, b.step), peakFlops: a.peakFlops === b.peakFlops ? a.peakFlops : 0,
    bidirectional: a.bidirectional && b.bidirectional, streams: [...a.streams, ...b.streams], ranks: [...a.ranks, ...b.ranks], links: [],
    strings: [...a.strings, ...b.strings],
  };
}

function joinedSegments(a: Model, b: Model): Segments {
  const [one, other] = [a.segments, b.segments];
  const first = new Uint32Array(one.first.length + other.first.length);
  first.set(one.first);
  first.set(other.first.map((row) => row + a.instructions.what.length), one.first.length);
  return {
    kind: joined(one.kind, other.kind), name: joined(one.name, shifted(other.name, a.facts.strings.length)), first,
    chunk: one.chunk.map((of, binding) => joined(of, other.chunk[binding]!)),
    stage: one.stage.map((of, binding) => joined(of, other.stage[binding]!)),
  };
}

function joinedInstructions(a: Model, b: Model): Instructions {
  const channels = a.instructions.channel.reduce((most, of) => Math.max(most, of), -1) + 1;
  const by: Partial<Record<keyof Instructions, number>> = {
    what: a.facts.strings.length, label: a.facts.strings.length, cause: a.facts.strings.length, group: a.facts.strings.length,
    channel: channels,
  };
  const names = Object.keys(a.instructions) as (keyof Instructions)[];
  const all = Object.fromEntries(names.map(
    (name) => [name, joined(a.instructions[name], shifted(b.instructions[name], by[name] ?? 0))])) as unknown as Instructions;
  return { ...all, stream: joined(a.instructions.stream, b.instructions.stream.map((stream) => streamBehind(a, stream))) };
}

export function merged(a: Model, b: Model): Model {
  const pathOf = (model: Model) => (model.path.rank.length > 0 ? model.path : passPath(model));
  const [one, other] = [pathOf(a), pathOf(b)];
  const ranksOf = (model: Model, side: Side): Rank[] =>
    model.ranks.map((rank) => ({ ...rank, side, memoryLimit: model.facts.memoryLimit }));
  const below = ranksOf(b, "B").map((rank): Rank => ({
    ...rank, segment: shifted(rank.segment, a.segments.kind.length),
    lanes: rank.lanes.map((lane) => ({ ...lane, stream: streamBehind(a, lane.stream) })),
  }));
  return {
    facts: joinedFacts(a.facts, b.facts), segments: joinedSegments(a, b), instructions: joinedInstructions(a, b),
    ranks: [...ranksOf(a, "A"), ...below], links: [],
    path: { rank: joined(one.rank, shifted(other.rank, a.ranks.length)), lane: joined(one.lane, other.lane),
            index: joined(one.index, other.index) },
  };
}
