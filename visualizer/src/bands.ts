import type { Band } from "./labels";
import { passesAreOpen, passStripHeight, type Layout, type Row } from "./layout";
import { groupOf } from "./members";
import { boxesOf, instructionOf, passLane, type Box, type Model } from "./model";

// Where boxes are drawn: bands of lanes, and which GPU's where a rank is unfolded.

// A compute row is one band of passes, or passes above their instructions; a traffic row is one band.
export function bandsOf(row: Row, perPixel: number): Band[] {
  if (row.kind !== "compute" && row.kind !== "traffic") return [];
  const { rank, member } = row;
  if (!passesAreOpen(row, perPixel)) {
    return [{ rank, lane: row.kind === "compute" ? passLane : row.lane, member, top: row.top, height: row.height }];
  }
  return [{ rank, lane: passLane, member, top: row.top, height: passStripHeight - 1 },
          { rank, lane: row.lane, member, top: row.top + passStripHeight, height: row.height - passStripHeight }];
}

// A pass hands over when it ends, and its input is there when it starts; a transfer takes from its start to its end.
export function leaves(model: Model, box: Box): number {
  const boxes = boxesOf(model, box.rank, box.lane);
  return boxes.start[box.index]! + (box.lane === passLane ? boxes.duration[box.index]! : 0);
}
export function arrives(model: Model, box: Box): number {
  const boxes = boxesOf(model, box.rank, box.lane);
  return boxes.start[box.index]! + (box.lane === passLane ? 0 : boxes.duration[box.index]!);
}

// Does the band show the box? Of a GPU's own lane only that GPU's.
export function isIn(band: Band, box: Box): boolean {
  return band.member === undefined || box.member === undefined || band.member === box.member;
}

const bandKey = (rank: number, lane: number, member: number | undefined) => `${rank}/${lane}/${member ?? ""}`;

// The band of a box as it is drawn; of an instruction in a pass that is not open, the pass's band. Of an unfolded rank that of the box's
// GPU, or of the first where it names none.
export function bandFinder(layout: Layout, perPixel: number): (box: Box) => Band | undefined {
  const bands = new Map<string, Band>();
  for (const row of layout.rows) {
    for (const band of bandsOf(row, perPixel)) {
      bands.set(bandKey(band.rank, band.lane, band.member), band);
      const own = bandKey(row.rank, row.lane, row.member);
      if (row.kind === "compute" && !bands.has(own)) bands.set(own, band);
    }
  }
  return ({ rank, lane, member }) => bands.get(bandKey(rank, lane, undefined)) ?? bands.get(bandKey(rank, lane, member ?? 0));
}

// A box as each GPU of its group has it: itself alone where its GPU is not known, or it is no collective.
export function asInGroup(model: Model, box: Box): Box[] {
  const { members } = model.ranks[box.rank]!;
  if (box.lane === passLane || box.member === undefined || !members) return [box];
  const group = model.facts.strings[model.instructions.group[instructionOf(model, box)]!]!;
  return groupOf(members, group, box.member).map((member) => ({ ...box, member }));
}
