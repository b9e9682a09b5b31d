import type { Link } from "./model";
import { pixelOf, type Scale } from "./raster";
import { fillColumn, type Place } from "./stack";

// Link lanes: how much of a link is in use, 0 to 1 over time. A pixel shows the mean of what it covers in full colour, and up to the
// highest slice that it touches in a lighter one: density is true, and a short burst does not vanish.

export interface Use {
  mean: Float64Array; // by pixel
  peak: Float64Array; // by pixel
}

// Time-weighted mean over [from, to), 0 outside the step. `before[i]` is the sum of the slices before slice i.
function meanOver(before: Float64Array, slice: number, from: number, to: number): number {
  const slices = before.length - 1;
  const integral = (time: number) => {
    const at = Math.min(Math.max(time / slice, 0), slices);
    const whole = Math.min(Math.floor(at), slices - 1);
    return before[whole]! + (before[whole + 1]! - before[whole]!) * (at - whole);
  };
  return ((integral(to) - integral(from)) * slice) / (to - from);
}

export function useOf(link: Link, step: number, scale: Scale): Use {
  const { use } = link;
  const slice = step / use.length;
  const before = new Float64Array(use.length + 1);
  use.forEach((share, i) => (before[i + 1] = before[i]! + share));
  const [mean, peak] = [new Float64Array(scale.width), new Float64Array(scale.width)];
  for (let x = 0; x < scale.width; x++) {
    const from = scale.from + x * scale.perPixel;
    const to = from + scale.perPixel;
    if (to <= 0 || from >= step) continue;
    mean[x] = meanOver(before, slice, from, to);
    const last = Math.min(Math.ceil(to / slice), use.length);
    for (let i = Math.max(Math.floor(from / slice), 0); i < last; i++) peak[x] = Math.max(peak[x]!, use[i]!);
  }
  return { mean, peak };
}

// The busiest link at every pixel: what the folded row shows.
export function highestUse(links: Link[], step: number, scale: Scale): Use {
  const highest = { mean: new Float64Array(scale.width), peak: new Float64Array(scale.width) };
  for (const link of links) {
    const { mean, peak } = useOf(link, step, scale);
    for (let x = 0; x < scale.width; x++) {
      highest.mean[x] = Math.max(highest.mean[x]!, mean[x]!);
      highest.peak[x] = Math.max(highest.peak[x]!, peak[x]!);
    }
  }
  return highest;
}

export function peakUse(link: Link): number {
  return link.use.reduce((most, share) => Math.max(most, share), 0);
}

// The slice that holds `time`; 0 outside the step.
export function useAt(link: Link, step: number, time: number): number {
  const slice = Math.floor((time / step) * link.use.length);
  return time >= 0 && time < step ? link.use[Math.min(slice, link.use.length - 1)]! : 0;
}

// The link most in use at `time`; -1 if none is.
export function busiestAt(links: Link[], step: number, time: number): number {
  let busiest = -1;
  links.forEach((link, l) => {
    const most = busiest < 0 ? 0 : useAt(links[busiest]!, step, time);
    if (useAt(link, step, time) > most) busiest = l;
  });
  return busiest;
}

// Draws into `image` (imageWidth pixels wide); what is in use at all takes at least one line.
export function drawUse(
  image: Uint32Array, imageWidth: number, use: Use, place: Place, colours: { mean: number; peak: number },
): void {
  const lines = (share: number) => (share <= 0 ? 0 : Math.min(Math.max(Math.round(share * place.height), 1), place.height));
  for (let x = 0; x < use.mean.length; x++) {
    const mean = lines(use.mean[x]!);
    fillColumn(image, imageWidth, place, x, 0, mean, pixelOf(colours.mean));
    fillColumn(image, imageWidth, place, x, mean, lines(use.peak[x]!), pixelOf(colours.peak));
  }
}
