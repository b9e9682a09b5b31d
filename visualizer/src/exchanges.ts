import { boxesOf, directionOf, instructionOf, partsOf, passLane, type Box, type Model, type Part } from "./model";

// Who hands what to whom. Instructions of one exchange have equal channel and microbatch on all ranks that take part; passes hand
// over to the same microbatch of the next stage (forward) or the one before (backward). An overlapped pair hands over both its results. What was
// measured exchanges nothing with what was predicted.

export interface Arrow {
  from: Box;
  to: Box;
}

export class Exchanges {
  private readonly ends = new Map<string, Box[]>();
  private readonly passes = new Map<string, Box[]>();

  constructor(private readonly model: Model) {
    model.ranks.forEach((rank, r) => {
      rank.lanes.forEach((_, lane) => this.index(r, lane, this.ends, (box) => this.exchangeKeys(box)));
      this.index(r, passLane, this.passes, (box) => this.passKeys(box, 0));
    });
  }

  private index(rank: number, lane: number, map: Map<string, Box[]>, keysOf: (box: Box) => string[]): void {
    const count = boxesOf(this.model, rank, lane).start.length;
    for (let index = 0; index < count; index++) {
      const box = { rank, lane, index };
      for (const key of keysOf(box)) {
        const boxes = map.get(key);
        if (boxes) boxes.push(box);
        else map.set(key, [box]);
      }
    }
  }

  private exchangeKeys(box: Box): string[] {
    const channel = this.model.instructions.channel[instructionOf(this.model, box)]!;
    return channel < 0 ? [] : [`${channel}/${partsOf(this.model, box)[0]!.microbatch}/${this.run(box)}`];
  }

  private run(box: Box): string {
    const { side, measured } = this.model.ranks[box.rank]!;
    return `${side ?? ""} ${measured ? "measured" : "predicted"}`;
  }

  // Of the pass `stages` further on the microbatch's way. A weight gradient (W) hands nothing to a neighbour, and step work has no stage.
  private passKeys(box: Box, stages: number): string[] {
    const keyOf = (part: Part) => {
      const [letter, stage] = part.kind === 0 ? ["F", part.stage + stages] : ["B", part.stage - stages];
      return `${letter}/${stage}/${directionOf(this.model, part)}/${part.microbatch}/${this.run(box)}`;
    };
    return partsOf(this.model, box).filter(({ kind, stage }) => kind <= 2 && stage >= 0).map(keyOf);
  }

  // All other ends of the exchange that this instruction takes part in.
  partners(box: Box): Box[] {
    if (box.lane === passLane) return [];
    const ends = this.exchangeKeys(box).flatMap((key) => this.ends.get(key)!);
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
    const neighbours = (stages: number): Box[] => {
      const boxes = this.passKeys(box, stages).map((key) => this.passes.get(key) ?? []).filter(({ length }) => length === 1);
      return [...new Set(boxes.map(([only]) => only!))]; // one arrow where both parts come from one pair
    };
    return [...neighbours(-1).map((from) => ({ from, to: box })), ...neighbours(1).map((to) => ({ from: box, to }))];
  }
}
