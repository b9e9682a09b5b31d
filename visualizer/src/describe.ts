import {
  boxesOf, instructionOf, isPair, pairKind, partName, partsOf, passLane, passName, passNames, recomputePhase, segmentOf, unassignedKind,
  type Box, type Model, type Part,
} from "./model";
import { busiestAt, useAt } from "./links";
import { deviceOf, groupAxes, groupOf, memberText, stretches } from "./members";
import { eventAt, totalAt } from "./stack";
import { firstEndingAfter } from "./raster";
import { timeText } from "./viewport";

// What the page says about the thing under the pointer. Lines of text; the first is the name.

export function sizeText(bytes: number): string {
  const [of, unit] = bytes >= 2 ** 30 ? [2 ** 30, "GiB"] : bytes >= 2 ** 20 ? [2 ** 20, "MiB"] : [2 ** 10, "KiB"];
  return `${(bytes / of).toFixed(1)} ${unit}`;
}

// "14.0 TFLOP", "3.20 GB": three figures, decimal prefixes.
export function amount(value: number, unit: string): string {
  for (const [of, prefix] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as [number, string][]) {
    if (value >= of) return `${(value / of).toPrecision(3)} ${prefix}${unit}`;
  }
  return `${value} ${unit}`;
}

export const directionNames = ["down", "up"]; // by Direction in schedules/op.h

export function percentText(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

// "microbatch 0, chunk 1, stage 4"; of two pipelines the one in place of the chunk: "microbatch 0, up, stage 4".
function where(model: Model, { microbatch, chunk, stage }: Part): string {
  const texts: string[] = [];
  if (microbatch >= 0) texts.push(`microbatch ${microbatch}`);
  if (stage >= 0) texts.push(model.facts.bidirectional ? directionNames[chunk]! : `chunk ${chunk}`, `stage ${stage}`);
  return texts.join(", ");
}

function when(model: Model, box: Box): string {
  const boxes = boxesOf(model, box.rank, box.lane);
  return `${timeText(boxes.duration[box.index]!)} at ${timeText(boxes.start[box.index]!)}`;
}

// Idle time in front of a pass, if there is any worth a word.
function idleBefore(model: Model, box: Box): string {
  const { start, duration } = model.ranks[box.rank]!.passes;
  const before = box.index === 0 ? 0 : start[box.index - 1]! + duration[box.index - 1]!;
  const gap = start[box.index]! - before;
  return gap > duration[box.index]! * 0.005 ? `no compute for ${timeText(gap)} before it` : "";
}

// Of which run it is, where there are two.
function measured(model: Model, box: Box): string {
  const { side, measured } = model.ranks[box.rank]!;
  return (side ? `, ${side}` : "") + (measured ? ", measured" : "");
}

// Which of the rank's GPUs, where it is unfolded.
function ownGpu(model: Model, { rank, member }: Box): string {
  const of = model.ranks[rank]!;
  return member === undefined || !of.members ? "" : memberText(of, member, model.facts.gpusPerNode);
}

// "among gpus 0-7 (tp)" of one GPU's collective; "among 8 GPUs each (tp)" of what stands for many.
function group(model: Model, { rank, member }: Box, row: number): string {
  const { members } = model.ranks[rank]!;
  const text = model.facts.strings[model.instructions.group[row]!]!;
  const axes = members ? groupAxes(members, text) : "";
  if (!members || axes === "") return "";
  const others = groupOf(members, text, member ?? 0);
  if (member === undefined) return `among ${others.length} GPUs each (${axes})`;
  return `among gpus ${stretches(others.map((of) => deviceOf(members, of)).sort((a, b) => a - b))} (${axes})`;
}

function describePass(model: Model, box: Box): string[] {
  const segment = segmentOf(model, box);
  const kind = model.segments.kind[segment]!;
  const what = kind === unassignedKind ? "kernels of unknown phase" : `${passNames[kind]!} pass`;
  const name = model.facts.strings[model.segments.name[segment]!]!;
  const pair = isPair(model, box);
  const places = partsOf(model, box).map((part) => (pair ? `${passNames[part.kind]}: ` : "") + where(model, part));
  return [`${passName(model, box)}  ${what} on pp ${model.ranks[box.rank]!.pp}${measured(model, box)}`, ownGpu(model, box), when(model, box), ...places, name,
          idleBefore(model, box)];
}

function work(model: Model, row: number, duration: number): string {
  const { bytes, flops } = model.instructions;
  const seconds = duration * 1e-12;
  if (flops[row]! > 0) {
    const share = model.facts.peakFlops * seconds;
    const percent = share > 0 ? `, ${((flops[row]! / share) * 100).toFixed(0)} % of peak` : "";
    return `${amount(flops[row]!, "FLOP")}${percent}`;
  }
  if (bytes[row]! <= 0) return "";
  return `${amount(bytes[row]!, "B")}${seconds > 0 ? `, ${amount(bytes[row]! / seconds, "B/s")}` : ""}`;
}

function describeInstruction(model: Model, box: Box): string[] {
  const lane = model.ranks[box.rank]!.lanes[box.lane]!;
  const row = instructionOf(model, box);
  const { strings, streams } = model.facts;
  const { what, label, cause, phase, layer } = model.instructions;
  const name = [strings[label[row]!]!, strings[what[row]!]!].filter((s) => s !== "").join("  ");
  const part = partsOf(model, box)[0]!;
  const [own, pass] = [partName(part), passName(model, box)];
  const place = [own === "" || own === pass ? pass : `${own} in ${pass}`, layer[row]! >= 0 ? `layer ${layer[row]}` : "",
                 phase[row] === recomputePhase ? "recompute" : "", `stream ${streams[lane.stream]!.name}`];
  const wait = lane.wait[box.index]!;
  return [name + measured(model, box), ownGpu(model, box), when(model, box), wait > 0 ? `waited ${timeText(wait)} for its partners` : "", where(model, part),
          place.filter((s) => s !== "").join(", "), work(model, row, lane.duration[box.index]!), group(model, box, row), strings[cause[row]!]!];
}

export function describe(model: Model, box: Box): string[] {
  const lines = box.lane === passLane ? describePass(model, box) : describeInstruction(model, box);
  return lines.filter((line) => line !== "");
}

// Why no compute runs at a moment between passes, as sim/accounting.h counts it: what is in flight, or else where the rank
// stands in its step. Collectives of a rank that wait for other GPUs count as imbalance there, and are not told apart here.
export function idleCause(model: Model, rank: number, time: number): string {
  const { passes, segment, lanes } = model.ranks[rank]!;
  const inFlight = lanes.filter((lane) => {
    const next = firstEndingAfter(lane, time);
    return lane.stream !== 0 && next < lane.start.length && lane.start[next]! <= time;
  }).map((lane) => model.facts.streams[lane.stream]!.traffic);
  const exposed = inFlight.find((traffic) => traffic !== "pp");
  if (exposed) return `${exposed} in flight: exposed communication`;
  const kind = (index: number) => model.segments.kind[segment[passes.entry[index]!]!]!;
  const indices = [...passes.start.keys()];
  const isForward = (index: number) => kind(index) === 0 || kind(index) === pairKind;
  const isBackward = (index: number) => kind(index) === 1 || kind(index) === 2 || kind(index) === pairKind;
  const firstBackward = indices.find(isBackward);
  const lastForward = indices.filter(isForward).pop();
  if (inFlight.length > 0) return "p2p: a pipeline transfer is in flight";
  if (firstBackward === undefined || time < passes.start[firstBackward]!) return "warm-up: before the rank's first backward";
  if (lastForward === undefined || time > passes.start[lastForward]!) return "drain: after the rank's last forward";
  return "imbalance: waits for a neighbour's pass";
}

// Bare ground of a compute row.
export function describeIdle(model: Model, rank: number, time: number): string[] {
  const { passes } = model.ranks[rank]!;
  const next = firstEndingAfter(passes, time);
  const from = next === 0 ? 0 : passes.start[next - 1]! + passes.duration[next - 1]!;
  const to = next < passes.start.length ? passes.start[next]! : model.facts.step;
  if (time < from || time > to || time < 0 || time > model.facts.step) return [];
  const name = (index: number) => passName(model, { rank, lane: passLane, index });
  const between = [next > 0 ? `after ${name(next - 1)}` : "", next < passes.start.length ? `before ${name(next)}` : ""];
  return [`no pass for ${timeText(to - from)}`, between.filter((s) => s !== "").join(", "), idleCause(model, rank, time)];
}

export function describeMemory(model: Model, rank: number, time: number, order: number[]): string[] {
  const { memory } = model.ranks[rank]!;
  const event = eventAt(memory, time);
  if (event < 0) return [];
  const parts = [...order].reverse().filter((c) => memory.live[c]![event]! > 0);
  return [`${sizeText(totalAt(memory, event))} live at ${timeText(time)}`,
          ...parts.map((c) => `${model.facts.categories[c]} ${sizeText(memory.live[c]![event]!)}`)];
}

export function describeLink(model: Model, index: number, time: number): string[] {
  const link = model.links[index]!;
  const step = model.facts.predictedStep;
  const equal = link.multiplicity > 1 ? `one of ${link.multiplicity} links with equal figures` : "";
  return [`${link.name}  ${percentText(useAt(link, step, time))} of ${amount(link.bandwidth, "B/s")} at ${timeText(time)}`,
          `${amount(link.bytes, "B")} in a step, mean use ${percentText(link.bytes / (link.bandwidth * step * 1e-12))}`,
          `busy ${percentText(link.busy / step)} of the step, contended for ${timeText(link.contended)}`, equal,
         ].filter((line) => line !== "");
}

// The row that stands for all links.
export function describeLinks(model: Model, time: number): string[] {
  const busiest = busiestAt(model.links, model.facts.predictedStep, time);
  const most = busiest < 0 ? "no link is in use" :
    `${model.links[busiest]!.name} is used most, ${percentText(useAt(model.links[busiest]!, model.facts.predictedStep, time))}`;
  return [`${most} at ${timeText(time)}`, "click or L: a lane for each link"];
}
