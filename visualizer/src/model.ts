// What the page draws. All times are picoseconds in doubles (exact up to 2^53 ps = 2.5 hours), columns are parallel arrays.

export interface Facts {
  version: number;
  step: number;
  memoryLimit: number; // bytes
  peakFlops: number; // of the matmul type; 0: unknown
  streams: { name: string; traffic: string }[];
  categories: string[];
  ranks: { pp: number; multiplicity: number; gpus: number }[]; // stands for `multiplicity` of the pipeline rank's `gpus`
  useSteps: number; // a utilisation of 1 in the data
  links: LinkFacts[]; // busiest first
  strings: string[];
}

// One directed link, or `multiplicity` of them with equal figures.
export interface LinkFacts {
  name: string;
  multiplicity: number;
  bandwidth: number; // bytes/s
  bytes: number; // of one link in one step
  busy: number; // ps with at least one transfer
  contended: number; // ps with two or more of different exchanges
}

export const passLetters = ["F", "B", "I", "W", "C", "S"]; // by PassKind in schedules/plan.h
export const passNames = ["forward", "backward", "backward-input", "backward-weight", "communication", "step"];
export const recomputePhase = 1; // Phase::recompute

export interface Segments {
  kind: Float64Array;
  name: Float64Array; // into Facts.strings
  chunk: Float64Array; // -1: none
  stage: Float64Array; // -1: none
  first: Uint32Array; // its first row in Instructions
}

// One row per instruction of a segment, as it was written once in the plan.
export interface Instructions {
  what: Float64Array; // into Facts.strings, as label and cause
  label: Float64Array;
  cause: Float64Array;
  phase: Float64Array;
  layer: Float64Array; // -1: outside the layers
  stream: Float64Array;
  bytes: Float64Array;
  flops: Float64Array; // 0: unknown
  channel: Float64Array; // equal on all ends of an exchange between ranks, with the microbatch; -1: none
}

// Boxes of one row in time order; `entry` is the place in the rank's program.
export interface Passes {
  start: Float64Array;
  duration: Float64Array;
  entry: Float64Array;
}

export interface Lane extends Passes {
  stream: number;
  wait: Float64Array;
  instruction: Float64Array; // within the entry's segment
}

export interface Memory {
  time: Float64Array;
  live: Float64Array[]; // by category
}

export interface Rank {
  pp: number;
  multiplicity: number;
  gpus: number;
  segment: Float64Array; // by entry
  microbatch: Float64Array; // by entry; -1: none
  passes: Passes;
  memory: Memory;
  lanes: Lane[];
}

// Share of a link's bandwidth in use, 0 to 1: means over equal slices of the step.
export interface Link extends LinkFacts {
  use: Float64Array;
}

export interface Model {
  facts: Facts;
  segments: Segments;
  instructions: Instructions;
  ranks: Rank[];
  links: Link[];
}

// A box: `lane` indexes Rank.lanes, and passLane means Rank.passes.
export const passLane = -1;
export interface Box {
  rank: number;
  lane: number;
  index: number;
}

export function boxesOf(model: Model, rank: number, lane: number): Passes {
  const r = model.ranks[rank]!;
  return lane === passLane ? r.passes : r.lanes[lane]!;
}

export function segmentOf(model: Model, box: Box): number {
  const rank = model.ranks[box.rank]!;
  return rank.segment[boxesOf(model, box.rank, box.lane).entry[box.index]!]!;
}

export function microbatchOf(model: Model, box: Box): number {
  return model.ranks[box.rank]!.microbatch[boxesOf(model, box.rank, box.lane).entry[box.index]!]!;
}

// Row in Instructions; only for boxes of lanes.
export function instructionOf(model: Model, box: Box): number {
  const lane = model.ranks[box.rank]!.lanes[box.lane]!;
  return model.segments.first[segmentOf(model, box)]! + lane.instruction[box.index]!;
}

// "3B17": stage, kind, microbatch, as PyTorch spells it. Step work has no stage: its segment's name.
export function passName(model: Model, box: Box): string {
  const segment = segmentOf(model, box);
  const stage = model.segments.stage[segment]!;
  const microbatch = microbatchOf(model, box);
  if (stage < 0 || model.segments.kind[segment]! > 3) return model.facts.strings[model.segments.name[segment]!]!;
  return `${stage}${passLetters[model.segments.kind[segment]!]}${microbatch < 0 ? "" : microbatch}`;
}
