import { arrives, asInGroup, bandFinder, bandsOf, isIn, leaves } from "./bands";
import { css, linkColour, memoryColours, memoryOrder, mixed, rowColours, type Mode, type RowColours, type Theme } from "./colours";
import { percentText, sizeText } from "./describe";
import { Exchanges } from "./exchanges";
import { drawArrow, drawHatching, drawNames, outline, type Band } from "./labels";
import type { Layout, Links, Row } from "./layout";
import { unfolds } from "./members";
import { crossings, isOnPath, onPath, type OnPath } from "./path";
import { drawUse, highestUse, peakUse, useOf } from "./links";
import { drawMarks, type Stretch } from "./marks";
import { boxesOf, partsOf, passLane, sharesMicrobatch, type Box, type Model } from "./model";
import { drawRow, fillLines, pixelOf, RowSums, type Scale } from "./raster";
import { drawStrip, peakEvent, totalAt, type Place } from "./stack";
import { escaped, runsOf, SvgContext } from "./svg";
import { tickText, ticks, type View } from "./viewport";

export const gutterWidth = 118; // CSS pixels left of the lanes
export const axisHeight = 22;

export interface Scene {
  model: Model;
  layout: Layout;
  view: View;
  mode: Mode;
  theme: Theme;
  scrollTop: number; // CSS pixels of the lanes above the canvas
  selection: Box | undefined;
  found: Box[]; // search results
  links: Links;
  unfolded: ReadonlySet<number>; // ranks whose GPUs have lanes of their own
  path: boolean; // the critical path stands out
  marks: number[]; // ps, rising
  stretch: Stretch | undefined; // measured
}

// Colours per row are pure in (row, mode, ground of what stands back): kept until the mode or the ground changes.
export class ColourCache {
  private drawnFor = "";
  private rows = new Map<string, RowColours>();
  private marked: OnPath[] | undefined;

  // `back`: what is not on the critical path stands back towards this colour; undefined: nothing does.
  of(model: Model, rank: number, lane: number, mode: Mode, back?: number): RowColours {
    const drawnFor = `${mode} ${back}`;
    if (drawnFor !== this.drawnFor) this.rows.clear();
    this.drawnFor = drawnFor;
    const key = `${rank}/${lane}`;
    let colours = this.rows.get(key);
    if (!colours) this.rows.set(key, (colours = this.made(model, rank, lane, mode, back)));
    return colours;
  }

  private made(model: Model, rank: number, lane: number, mode: Mode, back?: number): RowColours {
    const colours = rowColours(model, rank, lane, mode);
    if (back === undefined) return colours;
    const marked = (this.marked ??= onPath(model));
    const faded = (half: Uint32Array) =>
      half.map((rgb, index) => (isOnPath(marked, { rank, lane, index }) ? rgb : mixed(rgb, back, 0.8)));
    const upper = faded(colours.upper);
    return { upper, lower: colours.lower === colours.upper ? upper : faded(colours.lower) };
  }
}

export function scaleOf(view: View, width: number): Scale {
  return { from: view.from, perPixel: (view.to - view.from) / width, width };
}

// Bytes that fill a memory strip: the same for all ranks, so that strips compare. The device's limit is on it, unless a job uses so
// little of the device that nothing could be seen.
export function fullStrip(model: Model): number {
  const peaks = model.ranks.map((r) => (r.memory.time.length === 0 ? 0 : totalAt(r.memory, peakEvent(r.memory))));
  const peak = Math.max(...peaks, 1);
  return Math.max(peak, peak * 8 < model.facts.memoryLimit ? 0 : model.facts.memoryLimit) * 1.06;
}

export class Painter {
  private context: CanvasRenderingContext2D;
  private readonly colours = new ColourCache();
  private readonly full: number;
  private readonly peaks: string[];
  private crossings: [Box, Box][] | undefined; // of scene.model; made when the path is first shown
  private exchanges: Exchanges | undefined; // of scene.model; made when something is first selected

  constructor(private readonly canvas: HTMLCanvasElement, model: Model) {
    this.context = canvas.getContext("2d")!;
    this.full = fullStrip(model);
    this.peaks = model.ranks.map((r) => (r.memory.time.length === 0 ? "" : sizeText(totalAt(r.memory, peakEvent(r.memory)))));
  }

  // The view as an SVG document of the canvas's size.
  svg(scene: Scene, title: string): string {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const shown = this.context;
    const written = new SvgContext(shown);
    this.context = written as unknown as CanvasRenderingContext2D;
    this.paintText(scene, width, height);
    this.context = shown;
    const ratio = 2; // pixels per unit
    const image = this.pixels(scene, ratio, (width - gutterWidth) * ratio, (height - axisHeight) * ratio);
    const runs = runsOf(new Uint32Array(image.data.buffer), image.width, pixelOf(scene.theme.ground), ratio, gutterWidth, axisHeight);
    const outer = document.createElement("template");
    outer.innerHTML = "<svg></svg>";
    const space = outer.content.firstElementChild!.namespaceURI; // written nowhere in the page: it is an address
    return `<svg xmlns="${space}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">\n` +
           `<title>${escaped(title)}</title>\n<rect width="${width}" height="${height}" fill="${css(scene.theme.ground)}"/>\n` +
           `<g shape-rendering="crispEdges">${runs}</g>\n${written.drawn()}\n</svg>\n`;
  }

  paint(scene: Scene): void {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const [deviceWidth, deviceHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== deviceWidth) this.canvas.width = deviceWidth;
    if (this.canvas.height !== deviceHeight) this.canvas.height = deviceHeight;
    if (width <= gutterWidth || height <= axisHeight) return;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.fillStyle = css(scene.theme.ground);
    this.context.fillRect(0, 0, deviceWidth, deviceHeight);
    const [left, top] = [Math.round(gutterWidth * ratio), Math.round(axisHeight * ratio)];
    if (deviceWidth > left && deviceHeight > top) {
      this.context.putImageData(this.pixels(scene, ratio, deviceWidth - left, deviceHeight - top), left, top);
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintText(scene, width, height);
  }

  // The lanes, without text.
  private pixels(scene: Scene, ratio: number, width: number, height: number): ImageData {
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(pixelOf(scene.theme.ground));
    const scale = scaleOf(scene.view, width);
    const cssPerPixel = scale.perPixel * ratio;
    const buffers = { sums: new RowSums(width), line: new Uint32Array(width) };
    const bare = new Uint32Array(width).fill(pixelOf(scene.theme.lane));
    const device = (y: number) => Math.round((y - scene.scrollTop) * ratio);
    for (const row of scene.layout.rows) {
      if (row.top + row.height < scene.scrollTop || device(row.top) >= height) continue;
      const place = { top: device(row.top), height: device(row.top + row.height) - device(row.top) };
      if (row.kind !== "rank") fillLines(pixels, width, bare, place.top, place.height);
      for (const band of bandsOf(row, cssPerPixel)) {
        const colours = this.colours.of(scene.model, band.rank, band.lane, scene.mode, this.back(scene));
        drawRow(pixels, boxesOf(scene.model, band.rank, band.lane), colours, scale, scene.theme.lane, buffers,
                { top: device(band.top), height: device(band.top + band.height) - device(band.top) });
      }
      if (row.kind === "memory") this.paintMemory(pixels, scene, row, place, scale);
      else this.paintLinks(pixels, scene, row, place, scale);
    }
    return image;
  }

  private back(scene: Scene): number | undefined {
    return scene.path && scene.model.path.rank.length > 0 ? scene.theme.lane : undefined;
  }

  private paintMemory(pixels: Uint32Array, scene: Scene, row: Row, place: Place, scale: Scale): void {
    const memoryLimit = scene.model.ranks[row.rank]!.memoryLimit ?? scene.model.facts.memoryLimit;
    const strip = { ...place, full: this.full, limit: memoryLimit <= this.full ? memoryLimit : 0 };
    drawStrip(pixels, scale.width, scene.model.ranks[row.rank]!.memory, scale, strip,
              { categories: memoryColours, order: memoryOrder, limit: scene.theme.limit });
  }

  private paintLinks(pixels: Uint32Array, scene: Scene, row: Row, place: Place, scale: Scale): void {
    const { links, facts } = scene.model;
    if (row.kind !== "links" && row.kind !== "link") return;
    const step = facts.predictedStep;
    const use = row.kind === "links" ? highestUse(links, step, scale) : useOf(links[row.lane]!, step, scale);
    drawUse(pixels, scale.width, use, place, { mean: linkColour, peak: mixed(linkColour, scene.theme.lane, 0.55) });
  }

  private paintText(scene: Scene, width: number, height: number): void {
    const { context } = this;
    const scale = scaleOf(scene.view, width - gutterWidth);
    context.save();
    context.beginPath();
    context.rect(0, axisHeight, width, height - axisHeight);
    context.clip();
    context.translate(0, axisHeight - scene.scrollTop);
    for (const row of scene.layout.rows) {
      if (row.top + row.height < scene.scrollTop || row.top > scene.scrollTop + height) continue;
      this.paintRowLabel(scene, row);
    }
    context.beginPath();
    context.rect(gutterWidth, scene.scrollTop, width - gutterWidth, height);
    context.clip();
    context.translate(gutterWidth, 0);
    for (const row of scene.layout.rows) {
      if (row.top + row.height < scene.scrollTop || row.top > scene.scrollTop + height) continue;
      for (const band of bandsOf(row, scale.perPixel)) {
        const colours = this.colours.of(scene.model, band.rank, band.lane, scene.mode, this.back(scene));
        if (band.lane !== passLane) drawHatching(context, scene.model, band, scale, scene.theme);
        if (band.height >= 8) drawNames(context, scene.model, band, scale, colours, scene.theme);
        this.paintMarks(scene, band, scale);
      }
    }
    if (this.back(scene) !== undefined) this.paintCrossings(scene, scale);
    this.paintExchange(scene, scale);
    context.restore();
    this.paintAxis(scene, width);
    drawMarks(context, scene.marks, scene.stretch, scale, height,
              { text: scene.theme.text, ground: css(scene.theme.ground), veil: scene.theme.veil });
    this.paintScroll(scene, width, height - axisHeight);
  }

  // How much of the lanes is on screen; nothing if all are.
  private paintScroll(scene: Scene, width: number, height: number): void {
    const share = height / scene.layout.height;
    if (share >= 1) return;
    this.context.fillStyle = scene.theme.faint;
    this.context.fillRect(width - 5, axisHeight + scene.scrollTop * share, 4, height * share);
  }

  // The selection, its microbatch on every rank, and what the search found.
  private paintMarks(scene: Scene, band: Band, scale: Scale): void {
    const { model, selection, theme } = scene;
    const mark = (box: Box, colour: string, lineWidth: number) =>
      outline(this.context, model, box, band, scale, colour, lineWidth);
    const here = (box: Box) => box.rank === band.rank && box.lane === band.lane && isIn(band, box);
    if (scene.found.length <= 500) for (const box of scene.found) if (here(box)) mark(box, theme.text, 1);
    if (!selection) return;
    if (band.lane === passLane && isIn(band, selection)) {
      const { microbatch, passes } = model.ranks[band.rank]!;
      const selected = partsOf(model, selection);
      const numbers = selected.map((part) => part.microbatch);
      for (let index = 0; index < passes.entry.length; index++) {
        const entry = passes.entry[index]!;
        if (!microbatch.some((of) => numbers.includes(of[entry]!))) continue; // most
        const box = { rank: band.rank, lane: passLane, index };
        if (sharesMicrobatch(model, selected, partsOf(model, box))) mark(box, theme.text, 1);
      }
    }
    if (here(selection)) mark(selection, theme.text, 3);
  }

  // Lines where the critical path goes over from one rank to another.
  private paintCrossings(scene: Scene, scale: Scale): void {
    this.crossings ??= crossings(scene.model);
    const bandOf = bandFinder(scene.layout, scale.perPixel);
    const { context } = this;
    const to = scale.from + scale.width * scale.perPixel;
    context.strokeStyle = scene.theme.text;
    context.lineWidth = 1;
    context.beginPath();
    for (const [one, other] of this.crossings) {
      const time = boxesOf(scene.model, other.rank, other.lane).start[other.index]!;
      if (time < scale.from || time > to) continue;
      const [from, into] = [bandOf(one), bandOf(other)];
      if (!from || !into) continue;
      const x = Math.round((time - scale.from) / scale.perPixel) + 0.5;
      const [upper, lower] = from.top < into.top ? [from, into] : [into, from];
      context.moveTo(x, upper.top + upper.height);
      context.lineTo(x, lower.top);
    }
    context.stroke();
  }

  // Who takes part in what is selected, and arrows from who sends to who receives.
  private paintExchange(scene: Scene, scale: Scale): void {
    if (!scene.selection) return;
    this.exchanges ??= new Exchanges(scene.model);
    const { selection } = scene;
    const bandOf = bandFinder(scene.layout, scale.perPixel);
    const ends = [selection, ...this.exchanges.partners(selection).map((box) => ({ ...box, member: selection.member }))];
    for (const end of ends.flatMap((box) => asInGroup(scene.model, box))) {
      const band = bandOf(end);
      const isSelected = end.rank === selection.rank && end.lane === selection.lane && end.index === selection.index &&
                         end.member === selection.member;
      if (band && !isSelected) outline(this.context, scene.model, end, band, scale, scene.theme.text, 2);
    }
    for (const { from, to } of this.exchanges.arrows(selection)) {
      const [first, last] = [from, to].map((box) => bandOf({ ...box, member: selection.member }));
      if (!first || !last) continue;
      const x = (time: number) => (time - scale.from) / scale.perPixel;
      drawArrow(this.context, { x: x(leaves(scene.model, from)), band: first }, { x: x(arrives(scene.model, to)), band: last },
                scene.theme);
    }
  }

  private paintLinkLabel(scene: Scene, row: Row): void {
    const { context } = this;
    const link = scene.model.links[row.lane];
    const below = link ? `peak ${percentText(peakUse(link))}` : "the busiest, 0 to 100 %";
    context.textBaseline = "middle";
    context.textAlign = link ? "right" : "left";
    const left = link ? gutterWidth - 6 : 6;
    context.fillStyle = scene.theme.text;
    context.font = link ? "10px system-ui, sans-serif" : "600 12px system-ui, sans-serif";
    context.fillText(row.label, left, row.top + row.height / 2 - 5, gutterWidth - 10);
    context.fillStyle = scene.theme.faint;
    context.font = "9px system-ui, sans-serif";
    context.fillText(below, left, row.top + row.height / 2 + 7, gutterWidth - 10);
  }

  private paintRowLabel(scene: Scene, row: Row): void {
    if (row.kind === "links" || row.kind === "link") return this.paintLinkLabel(scene, row);
    const { context } = this;
    const middle = row.top + row.height / 2 + 0.5;
    context.textBaseline = "middle";
    context.textAlign = "left";
    if (row.kind === "compute" || row.kind === "rank") return this.paintRankLabel(scene, row, middle);
    context.fillStyle = scene.theme.faint;
    context.font = `${row.kind === "memory" ? 11 : 9}px system-ui, sans-serif`;
    context.textAlign = "right";
    if (row.kind === "traffic") {
      context.fillText(row.label, gutterWidth - 6, middle, gutterWidth - 12);
      return;
    }
    context.fillText(`memory ${this.peaks[row.rank]}`, gutterWidth - 6, middle, gutterWidth - 12);
  }

  // A rank that can be unfolded, or is, has a triangle before its name; a GPU of it has its place on the mesh below its own.
  private paintRankLabel(scene: Scene, row: Row, middle: number): void {
    const { context } = this;
    const foldable = row.member === undefined && unfolds(scene.model.ranks[row.rank]!);
    const left = row.member === undefined ? 6 : 18;
    context.fillStyle = scene.theme.text;
    context.font = row.member === undefined ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
    if (foldable) context.fillText(row.kind === "rank" ? "\u25be" : "\u25b8", left, middle);
    context.fillText(row.label, left + (foldable ? 12 : 0), middle - (row.below === "" ? 0 : 6), gutterWidth - left - 4);
    if (row.below === "") return;
    context.fillStyle = scene.theme.faint;
    context.font = "9px system-ui, sans-serif";
    context.fillText(row.below, left, middle + 7, gutterWidth - left - 4);
  }

  private paintAxis(scene: Scene, width: number): void {
    const { context } = this;
    const { every, times } = ticks(scene.view, width - gutterWidth, 90);
    const scale = scaleOf(scene.view, width - gutterWidth);
    const longest = Math.max(Math.abs(scene.view.from), Math.abs(scene.view.to));
    context.fillStyle = scene.theme.faint;
    context.strokeStyle = scene.theme.line;
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.beginPath();
    for (const time of times) {
      const x = gutterWidth + (time - scale.from) / scale.perPixel;
      context.moveTo(Math.round(x) + 0.5, axisHeight - 6);
      context.lineTo(Math.round(x) + 0.5, axisHeight);
      const text = tickText(time, every, longest);
      if (x + 3 + context.measureText(text).width < width) context.fillText(text, x + 3, axisHeight / 2 - 1);
    }
    context.moveTo(gutterWidth, axisHeight - 0.5);
    context.lineTo(width, axisHeight - 0.5);
    context.stroke();
  }
}
