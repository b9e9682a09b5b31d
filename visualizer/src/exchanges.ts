import { boxesOf, instructionOf, microbatchOf, passLane, segmentOf, type Box, type Model } from "./model";

// Who hands what to whom. Instructions of one exchange have equal channel and microbatch on all ranks that take part; passes hand
// over to the same microbatch of the next stage (forward) or the one before (backward).

export interface Arrow {
  from: Box;
  to: Box;
}

export class Exchanges {
  private readonly ends = new Map<string, Box[]>();
  private readonly passes = new Map<string, Box[]>();

  constructor(private readonly model: Model) {
    model.ranks.forEach((rank, r) => {
      rank.lanes.forEach((_, lane) => this.index(r, lane, this.ends, (box) => this.exchangeKey(box)));
      this.index(r, passLane, this.passes, (box) => this.passKey(box, 0));
    });
  }

  private index(rank: number, lane: number, map: Map<string, Box[]>, keyOf: (box: Box) => string | undefined): void {
    const count = boxesOf(this.model, rank, lane).start.length;
    for (let index = 0; index < count; index++) {
      const box = { rank, lane, index };
      const key = keyOf(box);
      if (key === undefined) continue;
      const boxes = map.get(key);
      if (boxes) boxes.push(box);
      else map.set(key, [box]);
    }
  }

  private exchangeKey(box: Box): string | undefined {
    const channel = this.model.instructions.channel[instructionOf(this.model, box)]!;
    return channel < 0 ? undefined : `${channel}/${microbatchOf(this.model, box)}`;
  }

  // Of the pass `stages` further on the microbatch's way. A weight gradient (W) hands nothing to a neighbour, and step work has no stage.
  private passKey(box: Box, stages: number): string | undefined {
    const segment = segmentOf(this.model, box);
    const kind = this.model.segments.kind[segment]!;
    const stage = this.model.segments.stage[segment]!;
    if (kind > 2 || stage < 0) return undefined;
    return `${kind === 0 ? "F" : "B"}/${stage + (kind === 0 ? stages : -stages)}/${microbatchOf(this.model, box)}`;
  }

  // All other ends of the exchange that this instruction takes part in.
  partners(box: Box): Box[] {
    if (box.lane === passLane) return [];
    const key = this.exchangeKey(box);
    const ends = key === undefined ? [] : this.ends.get(key)!;
    return ends.filter((end) => end.rank !== box.rank || end.lane !== box.lane || end.index !== box.index);
  }

  // Of an instruction: from its send to its receive. Of a pass: from where its input comes, and to where its output goes; none where
  // that is not a single pass.
  arrows(box: Box): Arrow[] {
    if (box.lane !== passLane) {
      const what = (end: Box) => this.model.facts.strings[this.model.instructions.what[instructionOf(this.model, end)]!]!;
      const ends = [box, ...this.partners(box)];
      const [from, to] = [ends.filter((end) => what(end) === "send"), ends.filter((end) => what(end) === "recv")];
      return from.length === 1 && to.length === 1 ? [{ from: from[0]!, to: to[0]! }] : [];
    }
    const only = (stages: number) => {
      const key = this.passKey(box, stages);
      const boxes = key === undefined ? undefined : this.passes.get(key);
      return boxes?.length === 1 ? boxes[0] : undefined;
    };
    const [before, after] = [only(-1), only(1)];
    return [...(before ? [{ from: before, to: box }] : []), ...(after ? [{ from: box, to: after }] : [])];
  }
}
