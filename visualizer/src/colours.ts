import {
  boxesOf, instructionOf, isPair, partIn, passLane, recomputePhase, unassignedKind, type Box, type Half, type Model, type Part,
} from "./model";

// Okabe and Ito's palette, by meaning. Colour never stands alone: boxes carry letters, and traffic has its own lanes.

export type Mode = "op" | "microbatch" | "chunk" | "stage";
export const modes: Mode[] = ["op", "microbatch", "chunk", "stage"];

export const passColours = [0x0072b2, 0xe69f00, 0xd55e00, 0x009e73, 0xcc79a7, 0xf0e442]; // by PassKind
const unassigned = 0x707070;
const trafficColours: Record<string, number> = { pp: 0x56b4e9, offload: 0x999999 };
const collective = 0xcc79a7;
export const linkColour = 0x5b7c99; // none of the meanings above and below
export const categorical = [0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442, 0x999999];

// Weights, gradients, optimizer, activations, comm, workspace; stacked with what lasts at the bottom.
export const memoryColours = [0x0072b2, 0x56b4e9, 0x009e73, 0xe69f00, 0xcc79a7, 0x999999];
export const memoryOrder = [0, 2, 1, 3, 4, 5];

export interface Theme {
  ground: number;
  lane: number; // bare ground of a lane: idle
  text: string;
  faint: string;
  line: string;
  limit: number;
  veil: string; // over what is measured
}
export const light: Theme = {
  ground: 0xffffff, lane: 0xf1f2f4, text: "#1c2024", faint: "#5f6770", line: "#d4d8dd", limit: 0xc00000,
  veil: "rgba(0,0,0,0.12)",
};
export const dark: Theme = {
  ground: 0x1b1e23, lane: 0x262a31, text: "#e6e8eb", faint: "#9aa3ad", line: "#3a4049", limit: 0xff6b6b,
  veil: "rgba(255,255,255,0.18)",
};

export function css(rgb: number): string {
  return `#${rgb.toString(16).padStart(6, "0")}`;
}

// share 0: a, 1: b.
export function mixed(a: number, b: number, share: number): number {
  const channel = (shift: number) =>
    Math.round(((a >> shift) & 0xff) * (1 - share) + ((b >> shift) & 0xff) * share) << shift;
  return channel(16) | channel(8) | channel(0);
}

// Relative luminance as WCAG 2 has it, 0 to 1.
export function luminance(rgb: number): number {
  const linear = (shift: number) => {
    const share = ((rgb >> shift) & 0xff) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
}

// Black or white, whichever reads better on the colour.
export function inkOn(rgb: number): string {
  return luminance(rgb) > 0.179 ? "#000000" : "#ffffff";
}

function hued(hue: number, lightness: number): number {
  const reach = 0.65 * Math.min(lightness, 1 - lightness);
  const channel = (offset: number) => {
    const k = (offset + hue / 30) % 12;
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return (channel(0) << 16) | (channel(8) << 8) | channel(4);
}

// Neighbouring numbers get hues far apart (the golden angle), and luminances too, so that they differ without hues.
export function numbered(n: number): number {
  const wanted = [0.16, 0.5, 0.29][n % 3]!;
  let [dark, light] = [0, 1]; // the lightness that has it lies between
  for (let i = 0; i < 10; i++) {
    const middle = (dark + light) / 2;
    if (luminance(hued((n * 137.508) % 360, middle)) < wanted) dark = middle;
    else light = middle;
  }
  return hued((n * 137.508) % 360, light);
}

// Model order as a ramp from blue over white-yellow to red.
function ramp(share: number): number {
  const stops = [0x2166ac, 0x92c5de, 0xf6e8a8, 0xf4a582, 0xb2182b];
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return mixed(stops[low]!, stops[low + 1]!, at - low);
}

export function kindColour(kind: number): number {
  return kind === unassignedKind ? unassigned : passColours[kind]!;
}

function partColour(part: Part, mode: Mode, stages: number): number {
  const { kind } = part;
  const number = mode === "op" ? 0 : part[mode];
  if (mode === "op" || number < 0 || kind > 3) return kindColour(kind);
  const base = mode === "microbatch" ? numbered(number)
             : mode === "chunk" ? categorical[number % categorical.length]!
             : ramp(stages < 2 ? 0 : number / (stages - 1));
  return kind === 0 ? base : mixed(base, 0x000000, 0.25); // backward darker than forward
}

// Within a pass: matrix products in its colour, attention darker, what is bound by memory lighter, recompute greyer.
function instructionColour(model: Model, box: Box, base: number): number {
  const row = instructionOf(model, box);
  const what = model.facts.strings[model.instructions.what[row]!]!;
  const tone = what.startsWith("gemm") ? base : what.startsWith("attention") ? mixed(base, 0x000000, 0.3)
             : mixed(base, 0xffffff, 0.5);
  return model.instructions.phase[row] === recomputePhase ? mixed(tone, 0x808080, 0.4) : tone;
}

export function colourOf(model: Model, box: Box, mode: Mode, stages: number, half: Half = "upper"): number {
  const base = partColour(partIn(model, box, half), mode, stages);
  if (box.lane === passLane) return base;
  const traffic = model.facts.streams[model.ranks[box.rank]!.lanes[box.lane]!.stream]!.traffic;
  if (traffic === "compute") return instructionColour(model, box, base);
  return mode === "op" ? (trafficColours[traffic] ?? collective) : base;
}

// Of all boxes of one row, in their order. A pair's forward is drawn in the upper half of its box and its backward in the lower one, as
// in the figures of DualPipe; the two are one array in a row without pairs.
export interface RowColours {
  upper: Uint32Array;
  lower: Uint32Array;
}

export function rowColours(model: Model, rank: number, lane: number, mode: Mode): RowColours {
  const stages = 1 + model.segments.stage.reduce((most, of) => of.reduce((a, b) => Math.max(a, b), most), 0);
  if (lane !== passLane) {
    const upper = laneColours(model, rank, lane, mode, stages);
    return { upper, lower: upper };
  }
  const { start } = boxesOf(model, rank, lane);
  const of = (half: Half) => Uint32Array.from(start, (_, index) => colourOf(model, { rank, lane, index }, mode, stages, half));
  const upper = of("upper");
  return { upper, lower: start.some((_, index) => isPair(model, { rank, lane, index })) ? of("lower") : upper };
}

// Boxes of one instruction have one colour, but in the mode of microbatches one for each: worked out once.
function laneColours(model: Model, rank: number, lane: number, mode: Mode, stages: number): Uint32Array {
  const { segment, microbatch, lanes } = model.ranks[rank]!;
  const { entry, instruction } = lanes[lane]!;
  const { first } = model.segments;
  const { binding } = model.instructions;
  const known = new Map<number, number>();
  const colours = new Uint32Array(entry.length);
  for (let index = 0; index < colours.length; index++) {
    const at = entry[index]!;
    const row = first[segment[at]!]! + instruction[index]!;
    const key = mode === "microbatch" ? row + binding.length * (1 + microbatch[binding[row]!]![at]!) : row;
    let colour = known.get(key);
    if (colour === undefined) known.set(key, (colour = colourOf(model, { rank, lane, index }, mode, stages)));
    colours[index] = colour;
  }
  return colours;
}
