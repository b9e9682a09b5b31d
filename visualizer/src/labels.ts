import { css, inkOn, type RowColours, type Theme } from "./colours";
import { boxesOf, instructionOf, isPair, passLane, recomputePhase, type Box, type Half, type Model, type Passes } from "./model";
import { firstEndingAfter, type Scale } from "./raster";
import { boxNames, halfNames } from "./search";

// Text, hatching and outlines over the pixels: only for boxes wide enough to carry them, so at most a few hundred calls.

export interface Band {
  rank: number;
  lane: number;
  member?: number; // of an unfolded rank
  top: number; // CSS pixels
  height: number;
}

const narrowest = 11; // CSS pixels that hold one character

interface Visible {
  box: Box;
  left: number;
  width: number;
}

// The widest box of a row: where even that is too narrow, as in a view of the whole step, no box needs to be looked at.
const longestOf = new WeakMap<Passes, number>();
function longest(boxes: Passes): number {
  let most = longestOf.get(boxes);
  if (most === undefined) longestOf.set(boxes, (most = boxes.duration.reduce((a, b) => Math.max(a, b), 0)));
  return most;
}

function* visible(model: Model, band: Band, scale: Scale, atLeast: number): Generator<Visible> {
  const boxes = boxesOf(model, band.rank, band.lane);
  const end = scale.from + scale.width * scale.perPixel;
  if (longest(boxes) / scale.perPixel < atLeast) return;
  for (let index = firstEndingAfter(boxes, scale.from); index < boxes.start.length; index++) {
    if (boxes.start[index]! >= end) return;
    const left = Math.max((boxes.start[index]! - scale.from) / scale.perPixel, 0);
    const right = Math.min((boxes.start[index]! + boxes.duration[index]! - scale.from) / scale.perPixel, scale.width);
    if (right - left >= atLeast) yield { box: { rank: band.rank, lane: band.lane, index }, left, width: right - left };
  }
}

function instructionNames(model: Model, box: Box): string[] {
  const row = instructionOf(model, box);
  const { strings } = model.facts;
  const label = strings[model.instructions.label[row]!]!;
  const what = strings[model.instructions.what[row]!]!;
  return label === "" ? [what] : [`${label} ${what}`, label];
}

const sizesFor = (height: number) => (height >= 20 ? [12, 9] : height >= 12 ? [10, 8] : [8]); // the smaller where nothing fits

// The first of `names` that fits, in the largest size that one fits in, around (x, y).
function drawName(
  context: CanvasRenderingContext2D, names: string[], sizes: number[], place: { x: number; y: number; width: number }, halo = "",
): void {
  for (const size of sizes) {
    context.font = `${size}px system-ui, sans-serif`;
    const name = names.find((text) => context.measureText(text).width <= place.width - 3);
    if (!name) continue;
    if (halo !== "") {
      context.strokeStyle = halo;
      context.lineWidth = 3;
      context.lineJoin = "round";
      context.strokeText(name, place.x, place.y + 0.5);
    }
    context.fillText(name, place.x, place.y + 0.5);
    return;
  }
}

// Each half of a pair's box has a line of its own where there is height for two; else one name lies across both colours.
const lowestPair = 24; // CSS pixels

export function drawNames(
  context: CanvasRenderingContext2D, model: Model, band: Band, scale: Scale, colours: RowColours, theme: Theme,
): void {
  context.textAlign = "center";
  context.textBaseline = "middle";
  const sizes = sizesFor(band.height);
  for (const { box, left, width } of visible(model, band, scale, narrowest)) {
    const at = (share: number) => ({ x: left + width / 2, y: band.top + band.height * share, width });
    if (isPair(model, box) && band.height >= lowestPair) {
      const line = (half: Half, share: number) => {
        context.fillStyle = inkOn(colours[half][box.index]!);
        drawName(context, halfNames(model, box, half), sizesFor(band.height / 2), at(share));
      };
      line("upper", 0.25);
      line("lower", 0.75);
    } else if (isPair(model, box)) {
      context.fillStyle = theme.text;
      drawName(context, boxNames(model, box), sizes, at(0.5), css(theme.ground));
    } else {
      context.fillStyle = inkOn(colours.upper[box.index]!);
      drawName(context, band.lane === passLane ? boxNames(model, box) : instructionNames(model, box), sizes, at(0.5));
    }
  }
}

// Recomputed instructions are hatched.
export function drawHatching(
  context: CanvasRenderingContext2D, model: Model, band: Band, scale: Scale, theme: Theme,
): void {
  context.strokeStyle = css(theme.lane);
  context.lineWidth = 1;
  for (const { box, left, width } of visible(model, band, scale, 5)) {
    if (model.instructions.phase[instructionOf(model, box)] !== recomputePhase) continue;
    context.save();
    context.beginPath();
    context.rect(left, band.top, width - 1, band.height);
    context.clip();
    context.beginPath();
    for (let x = left - band.height; x < left + width; x += 5) {
      context.moveTo(x, band.top + band.height);
      context.lineTo(x + band.height, band.top);
    }
    context.stroke();
    context.restore();
  }
}

export function outline(
  context: CanvasRenderingContext2D, model: Model, box: Box, band: Band, scale: Scale, colour: string, lineWidth: number,
): void {
  const boxes = boxesOf(model, box.rank, box.lane);
  const left = (boxes.start[box.index]! - scale.from) / scale.perPixel;
  const width = Math.max(boxes.duration[box.index]! / scale.perPixel, 2);
  if (left > scale.width || left + width < 0) return;
  context.strokeStyle = colour;
  context.lineWidth = lineWidth;
  context.strokeRect(left - 0.5, band.top - 0.5, width + 1, band.height + 1);
}

// From the edge of one band to the edge of the other that faces it.
export function drawArrow(
  context: CanvasRenderingContext2D, from: { x: number; band: Band }, to: { x: number; band: Band }, theme: Theme,
): void {
  const down = to.band.top >= from.band.top;
  const y0 = from.band.top + (down ? from.band.height : 0);
  const y1 = to.band.top + (down ? 0 : to.band.height);
  const bend = (y1 - y0) / 2;
  const head = down ? -6 : 6;
  context.strokeStyle = context.fillStyle = theme.text;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from.x, y0);
  context.bezierCurveTo(from.x, y0 + bend, to.x, y1 - bend, to.x, y1 + head);
  context.stroke();
  context.beginPath();
  context.moveTo(to.x, y1);
  context.lineTo(to.x - 4, y1 + head);
  context.lineTo(to.x + 4, y1 + head);
  context.fill();
}
