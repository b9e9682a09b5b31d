import type { Side } from "./merge";
import type { Path } from "./path";

// What the page draws. All times are picoseconds in doubles (exact up to 2^53 ps = 2.5 hours), columns are parallel arrays.

export interface Facts {
  version: number;
  step: number; // what is drawn of: the longer one beside a measured run
  predictedStep: number; // what the links' use is of
  memoryLimit: number; // bytes
  peakFlops: number; // of the matmul type; 0: unknown
  bidirectional: boolean; // two pipelines over the same stages: chunk 0 of a rank is of the one down, 1 of the one up
  streams: { name: string; traffic: string }[];
  categories: string[];
  // GPU `device` was recorded; it stands for `multiplicity` of the pipeline rank's `gpus`; measured: where the plan ran, beside what was predicted.
  ranks: { pp: number; multiplicity: number; gpus: number; device: number; measured?: boolean; members?: Members }[];
  gpusPerNode: number;
  useSteps: number; // a utilisation of 1 in the data
  links: LinkFacts[]; // most used first
  strings: string[];
}

// The GPUs of a pipeline rank that one lane stands for all of: stretches of devices as first and count, and the meshes over them, each
// with its axes' names and sizes, the first varying fastest.
export interface Members {
  devices: [number, number][];
  meshes: [string, number][][];
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

export const passLetters = ["F", "B", "I", "W", "C", "S", "", "?"]; // by PassKind in schedules/plan.h, and unassignedKind
export const passNames = ["forward", "backward", "backward-input", "backward-weight", "communication", "step",
                          "forward with backward", "unassigned"];
export const pairKind = 6; // PassKind::overlapped: binding 0 is a forward, binding 1 a backward
export const unassignedKind = 7; // measured kernels of which the trace does not say what phase they are of
export const recomputePhase = 1; // Phase::recompute

export interface Segments {
  kind: Float64Array;
  name: Float64Array; // into Facts.strings
  chunk: Float64Array[]; // by binding; -1: none
  stage: Float64Array[]; // likewise
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
  binding: Float64Array; // which of its entry's: 1 in the backward of an overlapped pair
  group: Float64Array; // into Facts.strings: who takes part, see groupOf in members.ts
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
  device: number;
  measured?: boolean;
  members?: Members;
  side?: Side; // of two runs that are compared
  memoryLimit?: number; // of its run, where there are two
  segment: Float64Array; // by entry
  microbatch: Float64Array[]; // by binding, then entry; -1: none
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
  path: Path;
}

// A box: `lane` indexes Rank.lanes, and passLane means Rank.passes.
export const passLane = -1;
export interface Box {
  rank: number;
  lane: number;
  index: number;
  member?: number; // of the rank, where it is unfolded: one GPU's; see members.ts
}

export function boxesOf(model: Model, rank: number, lane: number): Passes {
  const r = model.ranks[rank]!;
  return lane === passLane ? r.passes : r.lanes[lane]!;
}

export function segmentOf(model: Model, box: Box): number {
  const rank = model.ranks[box.rank]!;
  return rank.segment[boxesOf(model, box.rank, box.lane).entry[box.index]!]!;
}

// Row in Instructions; only for boxes of lanes.
export function instructionOf(model: Model, box: Box): number {
  const lane = model.ranks[box.rank]!.lanes[box.lane]!;
  return model.segments.first[segmentOf(model, box)]! + lane.instruction[box.index]!;
}

// What one box runs of one stage and microbatch, as an Op of schedules/op.h; fields are -1 where it has none.
export interface Part {
  kind: number;
  stage: number;
  chunk: number;
  microbatch: number;
}

function partOf(model: Model, box: Box, binding: number): Part {
  const segment = segmentOf(model, box);
  const kind = model.segments.kind[segment]!;
  const entry = boxesOf(model, box.rank, box.lane).entry[box.index]!;
  return { kind: kind === pairKind ? binding : kind, stage: model.segments.stage[binding]![segment]!,
           chunk: model.segments.chunk[binding]![segment]!, microbatch: model.ranks[box.rank]!.microbatch[binding]![entry]! };
}

export function isPair(model: Model, box: Box): boolean {
  return box.lane === passLane && model.segments.kind[segmentOf(model, box)] === pairKind;
}

// One, but two of an overlapped pair: its forward and its backward. An instruction in a pair belongs to one of them.
export function partsOf(model: Model, box: Box): Part[] {
  if (box.lane !== passLane) return [partOf(model, box, model.instructions.binding[instructionOf(model, box)]!)];
  return isPair(model, box) ? [partOf(model, box, 0), partOf(model, box, 1)] : [partOf(model, box, 0)];
}

// The part drawn in the upper half of a box, or in the lower one.
export type Half = "upper" | "lower";
export function partIn(model: Model, box: Box, half: Half): Part {
  if (box.lane !== passLane) return partsOf(model, box)[0]!;
  return partOf(model, box, half === "lower" && isPair(model, box) ? 1 : 0);
}

// Of two pipelines over the same stages, each may count microbatches from 0 again.
export function directionOf(model: Model, part: Part): number {
  return model.facts.bidirectional ? part.chunk : 0;
}

export function sharesMicrobatch(model: Model, a: Part[], b: Part[]): boolean {
  return a.some((one) => one.microbatch >= 0 && b.some(
    (other) => other.microbatch === one.microbatch && directionOf(model, other) === directionOf(model, one)));
}

// "3B17": stage, kind, microbatch, as PyTorch spells it; "" of what has no stage.
export function partName(part: Part): string {
  if (part.stage < 0 || part.kind > 3) return "";
  return `${part.stage}${passLetters[part.kind]}${part.microbatch < 0 ? "" : part.microbatch}`;
}

// "3B17", or "(0F8;7B3)" of an overlapped pair and what runs in it. Step work has no stage: its segment's name.
export function passName(model: Model, box: Box): string {
  const segment = segmentOf(model, box);
  const paired = model.segments.kind[segment] === pairKind;
  const names = (paired ? [0, 1] : [0]).map((binding) => partName(partOf(model, box, binding)));
  if (names.includes("")) return model.facts.strings[model.segments.name[segment]!]!;
  return paired ? `(${names.join(";")})` : names[0]!;
}
