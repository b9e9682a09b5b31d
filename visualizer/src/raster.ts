import type { Passes } from "./model";

// Boxes become pixels here: pure functions over typed arrays, one row of pixels per lane. No canvas call per box, so a million boxes
// take milliseconds. Colours are 0xrrggbb; pixels are what ImageData wants on a little-endian machine, 0xaabbggrr.

export function pixelOf(rgb: number): number {
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

// Index of the first box that ends after `time`. Boxes are in time order and do not overlap.
export function firstEndingAfter(boxes: { start: Float64Array; duration: Float64Array }, time: number): number {
  let low = 0;
  let high = boxes.start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.start[middle]! + boxes.duration[middle]! > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

export interface Scale {
  from: number; // time at the left edge of pixel 0
  perPixel: number; // time per pixel
  width: number; // pixels
}

// Sums of coverage x colour and of coverage, per pixel.
export class RowSums {
  readonly red: Float32Array;
  readonly green: Float32Array;
  readonly blue: Float32Array;
  readonly cover: Float32Array;
  constructor(readonly width: number) {
    this.red = new Float32Array(width);
    this.green = new Float32Array(width);
    this.blue = new Float32Array(width);
    this.cover = new Float32Array(width);
  }

  clear(): void {
    for (const sums of [this.red, this.green, this.blue, this.cover]) sums.fill(0);
  }

  add(pixel: number, cover: number, rgb: number): void {
    this.red[pixel]! += cover * (rgb >> 16);
    this.green[pixel]! += cover * ((rgb >> 8) & 0xff);
    this.blue[pixel]! += cover * (rgb & 0xff);
    this.cover[pixel]! += cover;
  }

  // Box over [left, right) in pixels, clipped to the row.
  addSpan(left: number, right: number, rgb: number): void {
    const x0 = Math.max(left, 0);
    const x1 = Math.min(right, this.width);
    if (x1 <= x0) return;
    const first = Math.floor(x0);
    const last = Math.floor(x1);
    if (first === last) {
      this.add(first, x1 - x0, rgb);
      return;
    }
    this.add(first, first + 1 - x0, rgb);
    for (let pixel = first + 1; pixel < last; pixel++) this.add(pixel, 1, rgb);
    if (x1 > last) this.add(last, x1 - last, rgb);
  }

  // The time-weighted mean of what each pixel covers; what nothing covers is ground.
  pixels(ground: number, out: Uint32Array): void {
    const [r, g, b] = [ground >> 16, (ground >> 8) & 0xff, ground & 0xff];
    for (let i = 0; i < this.width; i++) {
      const cover = this.cover[i]!;
      const scale = cover > 1 ? 1 / cover : 1; // rounding, or boxes that overlap
      const bare = Math.max(1 - cover, 0);
      const red = Math.round(this.red[i]! * scale + bare * r);
      const green = Math.round(this.green[i]! * scale + bare * g);
      const blue = Math.round(this.blue[i]! * scale + bare * b);
      out[i] = (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
    }
  }
}

// Boxes this wide, in pixels, end a little early, so that neighbours of one colour can be told apart.
export const separatedWidth = 5;

// One row of pixels. `colour[i]` belongs to box i.
export function rasteriseRow(
  boxes: Passes, colour: Uint32Array, scale: Scale, ground: number, sums: RowSums, out: Uint32Array,
): void {
  sums.clear();
  const end = scale.from + scale.perPixel * scale.width;
  for (let i = firstEndingAfter(boxes, scale.from); i < boxes.start.length && boxes.start[i]! < end; i++) {
    const left = (boxes.start[i]! - scale.from) / scale.perPixel;
    const width = boxes.duration[i]! / scale.perPixel;
    sums.addSpan(left, left + (width > separatedWidth ? width - 1 : width), colour[i]!);
  }
  sums.pixels(ground, out);
}

// Draws a row of boxes into lines [top, top + height) of an image at column 0, clipped; the lower half in colours of its own, if it has
// any. One line has only the upper colours.
export function drawRow(
  image: Uint32Array, boxes: Passes, colours: { upper: Uint32Array; lower: Uint32Array }, scale: Scale, ground: number,
  buffers: { sums: RowSums; line: Uint32Array }, place: { top: number; height: number },
): void {
  const { sums, line } = buffers;
  rasteriseRow(boxes, colours.upper, scale, ground, sums, line);
  fillLines(image, scale.width, line, place.top, place.height);
  if (colours.lower === colours.upper) return;
  rasteriseRow(boxes, colours.lower, scale, ground, sums, line);
  const upper = Math.ceil(place.height / 2);
  fillLines(image, scale.width, line, place.top + upper, place.height - upper);
}

// Copies a row of pixels into an image at column 0 of lines [top, top + height), clipped.
export function fillLines(image: Uint32Array, imageWidth: number, row: Uint32Array, top: number, height: number): void {
  const first = Math.max(top, 0);
  const last = Math.min(top + height, image.length / imageWidth);
  for (let line = first; line < last; line++) image.set(row, line * imageWidth);
}
