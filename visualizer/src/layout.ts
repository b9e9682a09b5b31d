import { deviceOf, memberCount, placeText, unfolds } from "./members";
import type { Side } from "./merge";
import { boxesOf, passLane, type Box, type Model } from "./model";
import { firstEndingAfter, type Scale } from "./raster";

// Where rows lie, in CSS pixels from the top of all lanes. Per pipeline rank: its compute, a thin row per stream in use, its memory; behind
// them the same of what was measured, on the same axis.
// Below them one row for all links, and one per link when it is open. A rank that is unfolded has its name, one memory and then compute
// and streams of each of its GPUs.

export type RowKind = "rank" | "compute" | "traffic" | "memory" | "links" | "link";
export interface Row {
  kind: RowKind;
  rank: number; // -1: links
  lane: number; // compute: of the instructions, passLane if none were recorded; link: into Model.links
  top: number;
  height: number;
  label: string;
  below: string; // in small type under the label
  member?: number; // of an unfolded rank: which of its GPUs
  typicalPass: number; // median duration of all passes: all ranks open at one zoom
}
export interface Layout {
  rows: Row[];
  height: number;
}

export const computeHeight = 30;
export const passStripHeight = 13; // of a compute row that also shows its instructions
const trafficHeight = 9;
const nameHeight = 18;
const memoryHeight = 42;
const linkHeight = 26;
const rowGap = 2;
const rankGap = 12;
const memberGap = 4;

function median(values: number[]): number {
  return Float64Array.from(values).sort()[values.length >> 1] ?? Infinity;
}

// "pp 0 x16", or "pp 0 x3 of 16" where the rank's GPUs differ and only some are drawn; "pp 0 measured".
export function rankLabel(rank: { pp: number; multiplicity: number; gpus: number; measured?: boolean; side?: Side }): string {
  if (rank.side) return `${rank.side} ${rankLabel({ ...rank, side: undefined })}`;
  if (rank.measured) return `pp ${rank.pp} measured`;
  const share = rank.multiplicity < rank.gpus ? `${rank.multiplicity} of ${rank.gpus}` : `${rank.multiplicity}`;
  return `pp ${rank.pp} \u00d7${share}`;
}

export type Links = "folded" | "open";

interface Place {
  kind: RowKind;
  rank: number;
  lane: number;
  height: number;
  label: string;
  below?: string;
  member?: number;
}

// The rows of one rank, or of one of its GPUs; `member` is undefined where all are one.
function lanesOf(model: Model, r: number, member: number | undefined): Place[] {
  const rank = model.ranks[r]!;
  const { streams } = model.facts;
  const lanes = rank.lanes.map((_, lane) => lane).filter((lane) => rank.lanes[lane]!.start.length > 0);
  const compute = lanes.find((lane) => rank.lanes[lane]!.stream === 0) ?? passLane;
  const names = member === undefined ? { label: rankLabel(rank) }
                                     : { label: `gpu ${deviceOf(rank.members!, member)}`, below: placeText(rank.members!, member) };
  const first: Place = { kind: "compute", rank: r, lane: compute, height: computeHeight, ...names, member };
  const traffic = lanes.filter((lane) => lane !== compute).map((lane): Place => (
    { kind: "traffic", rank: r, lane, height: trafficHeight, label: streams[rank.lanes[lane]!.stream]!.name.replace(/_/g, " "), member }));
  return [first, ...traffic];
}

// `unfolded`: the ranks whose GPUs have lanes of their own, among those that unfolds() allows.
export function layoutOf(model: Model, links: Links, unfolded: ReadonlySet<number> = new Set()): Layout {
  const rows: Row[] = [];
  let top = 4;
  const typicalPass = median(model.ranks.flatMap((rank) => [...rank.passes.duration]));
  const put = (place: Place) => {
    rows.push({ below: "", ...place, top, typicalPass });
    top += place.height + rowGap;
  };
  const place = (kind: RowKind, rank: number, lane: number, height: number, label: string) => put({ kind, rank, lane, height, label });
  model.ranks.forEach((rank, r) => {
    const memory = () => rank.memory.time.length > 0 && place("memory", r, passLane, memoryHeight, "memory");
    if (unfolded.has(r) && unfolds(rank)) {
      place("rank", r, passLane, nameHeight, rankLabel(rank));
      memory();
      for (let member = 0; member < memberCount(rank.members!); member++) {
        for (const lane of lanesOf(model, r, member)) put(lane);
        top += memberGap;
      }
    } else {
      for (const lane of lanesOf(model, r, undefined)) put(lane);
      memory();
    }
    top += rankGap;
  });
  if (model.links.length > 0) {
    const count = `${model.links.length} link${model.links.length > 1 ? "s" : ""}`;
    place("links", -1, passLane, linkHeight, `${links === "open" ? "\u25be" : "\u25b8"} ${count}`);
    if (links === "open") {
      model.links.forEach((link, l) =>
        place("link", -1, l, linkHeight, link.multiplicity > 1 ? `${link.name} \u00d7${link.multiplicity}` : link.name));
    }
    top += rankGap;
  }
  return { rows, height: top };
}

// Single instructions are worth drawing when a typical pass is this wide, in CSS pixels.
export const openPassWidth = 110;

export function passesAreOpen(row: Row, perPixel: number): boolean {
  return row.kind === "compute" && row.lane !== passLane && row.typicalPass / perPixel >= openPassWidth;
}

// The box of a sorted row under `time`, or one within `slack` of it (thin boxes are hard to hit); -1 if there is none.
export function boxAt(model: Model, rank: number, lane: number, time: number, slack: number): number {
  const boxes = boxesOf(model, rank, lane);
  const next = firstEndingAfter(boxes, time);
  const distance = (i: number) => {
    if (i < 0 || i >= boxes.start.length) return Infinity;
    return Math.max(boxes.start[i]! - time, time - boxes.start[i]! - boxes.duration[i]!, 0);
  };
  const best = distance(next - 1) < distance(next) ? next - 1 : next;
  return distance(best) <= slack ? best : -1;
}

// `y` from the top of all lanes.
export function rowAt(layout: Layout, y: number): Row | undefined {
  return layout.rows.find((row) => y >= row.top && y < row.top + row.height);
}

export function hit(model: Model, row: Row, y: number, time: number, scale: Scale): Box | undefined {
  if (row.kind !== "compute" && row.kind !== "traffic") return undefined;
  const open = passesAreOpen(row, scale.perPixel);
  const lane = row.kind === "compute" && !(open && y - row.top >= passStripHeight) ? passLane : row.lane;
  const index = boxAt(model, row.rank, lane, time, scale.perPixel * 2);
  if (index < 0) return undefined;
  return row.member === undefined ? { rank: row.rank, lane, index } : { rank: row.rank, lane, index, member: row.member };
}
