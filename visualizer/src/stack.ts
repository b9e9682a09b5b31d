import type { Memory } from "./model";
import { pixelOf, type Scale } from "./raster";

// The memory strip: live bytes stacked by category. A pixel shows the fullest moment that it covers, so that a peak never vanishes.

export function totalAt(memory: Memory, event: number): number {
  let total = 0;
  for (const category of memory.live) total += category[event]!;
  return total;
}

export function peakEvent(memory: Memory): number {
  let peak = -1;
  let most = -1;
  for (let i = 0; i < memory.time.length; i++) {
    const total = totalAt(memory, i);
    if (total > most) [peak, most] = [i, total];
  }
  return peak;
}

// The last event at or before `time`; -1 if there is none.
export function eventAt(memory: Memory, time: number): number {
  let low = 0;
  let high = memory.time.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (memory.time[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// For every pixel the fullest event in it, or the one in force when it begins; -1 before the first.
export function fullestEvents(memory: Memory, scale: Scale): Int32Array {
  const fullest = new Int32Array(scale.width);
  let event = eventAt(memory, scale.from);
  for (let pixel = 0; pixel < scale.width; pixel++) {
    const end = scale.from + (pixel + 1) * scale.perPixel;
    let best = event;
    let most = event < 0 ? -1 : totalAt(memory, event);
    while (event + 1 < memory.time.length && memory.time[event + 1]! < end) {
      event++;
      const total = totalAt(memory, event);
      if (total > most) [best, most] = [event, total];
    }
    fullest[pixel] = best;
  }
  return fullest;
}

export interface Place {
  top: number; // first line in the image
  height: number; // lines
}

export interface Strip extends Place {
  full: number; // bytes that fill the strip
  limit: number; // bytes; 0: no line
}

export interface StripColours {
  categories: number[];
  order: number[]; // categories from the bottom up
  limit: number;
}

// Lines [low, high) from the bottom of the place, clipped to the image.
export function fillColumn(
  image: Uint32Array, imageWidth: number, place: Place, x: number, low: number, high: number, pixel: number,
): void {
  const bottom = place.top + place.height - 1;
  const lines = image.length / imageWidth;
  for (let line = Math.max(bottom - high + 1, 0); line <= Math.min(bottom - low, lines - 1); line++) {
    image[line * imageWidth + x] = pixel;
  }
}

// Draws into `image` (imageWidth pixels wide), leaving bare what is empty.
export function drawStrip(
  image: Uint32Array, imageWidth: number, memory: Memory, scale: Scale, strip: Strip, colours: StripColours,
): void {
  const events = fullestEvents(memory, scale);
  const pixels = colours.categories.map(pixelOf);
  for (let x = 0; x < scale.width; x++) {
    const event = events[x]!;
    if (event < 0) continue;
    let below = 0;
    let y = 0;
    for (const category of colours.order) {
      below += memory.live[category]![event]!;
      const reach = Math.min(Math.round((below / strip.full) * strip.height), strip.height);
      fillColumn(image, imageWidth, strip, x, y, reach, pixels[category]!);
      y = Math.max(y, reach);
    }
  }
  if (strip.limit <= 0) return;
  const line = Math.min(Math.round((strip.limit / strip.full) * strip.height), strip.height - 1);
  for (let x = 0; x < scale.width; x++) if (x % 6 < 4) fillColumn(image, imageWidth, strip, x, line, line + 1, pixelOf(colours.limit));
}
