import { gutterWidth } from "./draw";
import { rankLabel } from "./layout";
import type { Model } from "./model";
import { firstEndingAfter, type Scale } from "./raster";
import { timeText } from "./viewport";

// Moments that the reader marks, and a stretch of time that is measured.

export interface Stretch {
  from: number; // ps, from <= to
  to: number;
}

// The marks with `time` among them in order, or without the one that lies within `slack` of it.
export function toggledMark(marks: number[], time: number, slack: number): number[] {
  const near = marks.filter((mark) => Math.abs(mark - time) <= slack);
  return near.length > 0 ? marks.filter((mark) => !near.includes(mark)) : [...marks, time].sort((a, b) => a - b);
}

export function markName(place: number): string {
  return place < 26 ? String.fromCharCode(65 + place) : `#${place + 1}`;
}

// "mark B at 1.200 s, 0.300 s behind mark A".
export function describeMark(marks: number[], time: number): string {
  const place = marks.indexOf(time);
  if (place < 0) return "mark removed";
  const behind = place > 0 ? `, ${timeText(time - marks[place - 1]!)} behind mark ${markName(place - 1)}` : "";
  return `mark ${markName(place)} at ${timeText(time)}${behind}`;
}

// Time within the stretch that passes of the rank cover.
export function coveredTime(model: Model, rank: number, { from, to }: Stretch): number {
  const { passes } = model.ranks[rank]!;
  let covered = 0;
  for (let i = firstEndingAfter(passes, from); i < passes.start.length && passes.start[i]! < to; i++) {
    covered += Math.min(passes.start[i]! + passes.duration[i]!, to) - Math.max(passes.start[i]!, from);
  }
  return covered;
}

const mostListed = 8; // ranks named one by one

export function describeStretch(model: Model, stretch: Stretch): string {
  const length = stretch.to - stretch.from;
  const shares = model.ranks.map((_, rank) => (length > 0 ? coveredTime(model, rank, stretch) / length : 0));
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
  const text = shares.length <= mostListed
    ? model.ranks.map((rank, r) => `${rankLabel(rank)} ${percent(shares[r]!)}`).join(", ")
    : `${percent(Math.min(...shares))} to ${percent(Math.max(...shares))} on ${shares.length} ranks`;
  return `${timeText(length)}, from ${timeText(stretch.from)} to ${timeText(stretch.to)}  \u00b7  covered by passes: ${text}`;
}

interface Ink {
  text: string;
  ground: string;
  veil: string;
}

// Over the lanes and the axis, in CSS pixels.
export function drawMarks(
  context: CanvasRenderingContext2D, marks: number[], stretch: Stretch | undefined, scale: Scale, height: number, ink: Ink,
): void {
  const x = (time: number) => gutterWidth + (time - scale.from) / scale.perPixel;
  context.textBaseline = "middle";
  context.font = "600 11px system-ui, sans-serif";
  const label = (text: string, at: number, top: number) => {
    const width = context.measureText(text).width + 8;
    const left = Math.min(Math.max(at - width / 2, gutterWidth), gutterWidth + scale.width - width);
    context.fillStyle = ink.text;
    context.fillRect(left, top, width, 16);
    context.fillStyle = ink.ground;
    context.textAlign = "left";
    context.fillText(text, left + 4, top + 8.5);
  };
  const line = (time: number) => {
    context.beginPath();
    context.moveTo(x(time), 0);
    context.lineTo(x(time), height);
    context.stroke();
  };
  const visible = (time: number) => time >= scale.from && time <= scale.from + scale.perPixel * scale.width;
  context.strokeStyle = ink.text;
  context.lineWidth = 1.5;
  if (stretch) {
    const [left, right] = [Math.max(x(stretch.from), gutterWidth), Math.min(x(stretch.to), gutterWidth + scale.width)];
    if (right > left) {
      context.fillStyle = ink.veil;
      context.fillRect(left, 0, right - left, height);
      for (const time of [stretch.from, stretch.to]) if (visible(time)) line(time);
      label(timeText(stretch.to - stretch.from), (left + right) / 2, height - 18);
    }
  }
  marks.forEach((time, place) => {
    if (!visible(time)) return;
    line(time);
    label(`${markName(place)} ${timeText(time)}`, x(time), 2);
  });
}
