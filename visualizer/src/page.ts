import { dark, light, modes, type Mode, type Theme } from "./colours";
import { describe } from "./describe";
import { bandsOf, isIn } from "./bands";
import { axisHeight, gutterWidth, Painter, scaleOf, type Scene } from "./draw";
import { layoutOf, rankLabel, type Links } from "./layout";
import { legend } from "./legend";
import { Minimap } from "./minimap";
import { boxesOf, type Box, type Model } from "./model";
import { describeMark, describeStretch, toggledMark } from "./marks";
import { memberCount, unfolds, whyFolded } from "./members";
import { describePath, passPath } from "./path";
import { search } from "./search";
import { clamped, hashOf, panned, revealing, stateFrom, wholeView, zoomedAbout, type View } from "./viewport";

export function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

// State of the page and what changes it; input.ts turns keys and pointers into these calls.
export class Page {
  readonly canvas = element<HTMLCanvasElement>("plot");
  minimap: Minimap;
  readonly scene: Scene;
  private painter: Painter;
  private readonly darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
  private place = -1; // among scene.found
  private painting = false;
  private isPainted = false;
  private hashTimer = 0;

  constructor(public model: Model) {
    this.painter = new Painter(this.canvas, model);
    this.minimap = new Minimap(element("minimap"), model);
    this.scene = { model, layout: layoutOf(model, "folded"), view: wholeView(this.step), mode: "op", theme: this.theme(),
                   scrollTop: 0, selection: undefined, found: [], links: "folded", unfolded: new Set(), path: false, marks: [], stretch: undefined };
    this.offerWhatThereIs();
    this.restore();
    this.setMode(this.scene.mode);
    this.darkScheme.addEventListener("change", () => this.refresh());
    window.addEventListener("hashchange", () => (this.restore(), this.setMode(this.scene.mode)));
    new ResizeObserver(() => this.refresh()).observe(this.canvas);
  }

  // Another run in the place of this one. What was selected, marked and measured was of the other; the part of the step in
  // view stays the same.
  show(model: Model): void {
    const { view, path } = this.scene;
    const scale = model.facts.step / this.step;
    this.model = model;
    this.painter = new Painter(this.canvas, model);
    this.minimap = new Minimap(element("minimap"), model);
    Object.assign(this.scene, { model, selection: undefined, unfolded: new Set(), marks: [], stretch: undefined, path: false });
    this.offerWhatThereIs();
    element("selection").textContent = "";
    this.setLinks(this.scene.links);
    this.setPath(path);
    this.find(element<HTMLInputElement>("query").value);
    this.setView({ from: view.from * scale, to: view.to * scale });
    this.setMode(this.scene.mode);
  }

  private offerWhatThereIs(): void {
    element("path").hidden = this.model.ranks.every(({ passes }) => passes.start.length === 0);
    element("unfold").hidden = !this.model.ranks.some(unfolds);
    element("links").hidden = this.model.links.length === 0;
  }

  get step(): number {
    return this.model.facts.step;
  }
  get plotWidth(): number {
    return Math.max(this.canvas.clientWidth - gutterWidth, 1);
  }
  get plotHeight(): number {
    return this.canvas.clientHeight - axisHeight;
  }
  private theme(): Theme {
    return this.darkScheme.matches ? dark : light;
  }

  refresh(): void {
    if (this.painting) return;
    this.painting = true;
    requestAnimationFrame(() => {
      this.painting = false;
      this.scene.theme = this.theme();
      this.painter.paint(this.scene);
      this.minimap.paint(this.scene);
      if (!this.isPainted) performance.mark("first picture");
      this.isPainted = true;
    });
    window.clearTimeout(this.hashTimer);
    this.hashTimer = window.setTimeout(() => this.remember(), 300);
  }

  setView(view: View): void {
    this.scene.view = clamped(view, this.step);
    this.refresh();
  }
  zoom(factor: number, at = (this.scene.view.from + this.scene.view.to) / 2): void {
    this.setView(zoomedAbout(this.scene.view, at, factor, this.step));
  }
  pan(pixels: number): void {
    this.setView(panned(this.scene.view, pixels * scaleOf(this.scene.view, this.plotWidth).perPixel, this.step));
  }
  // The pixels that are left of it once the lanes are at their end.
  scroll(pixels: number): number {
    const most = Math.max(this.scene.layout.height - this.plotHeight, 0);
    const before = this.scene.scrollTop;
    this.scene.scrollTop = Math.min(Math.max(before + pixels, 0), most);
    this.refresh();
    return before + pixels - this.scene.scrollTop;
  }

  setMode(mode: Mode): void {
    if (mode !== this.scene.mode) this.say(`coloured by ${mode}`);
    this.scene.mode = mode;
    for (const m of modes) element(`mode-${m}`).setAttribute("aria-pressed", String(m === mode));
    element("legend").replaceChildren(...legend(this.model, mode));
    this.refresh();
  }

  private setLinks(links: Links): void {
    this.scene.links = links;
    this.lay();
    element("links").setAttribute("aria-expanded", String(links === "open"));
  }

  private lay(): void {
    this.scene.layout = layoutOf(this.model, this.scene.links, this.scene.unfolded);
    const lanes = Math.min(this.scene.layout.height, Math.max(window.innerHeight * 0.68, 260));
    this.canvas.style.height = `${lanes + axisHeight + 2}px`; // 2: its border
    this.scroll(0);
  }

  // Opening scrolls the first links into view, with some of what stands above them.
  toggleLinks(): void {
    this.setLinks(this.scene.links === "open" ? "folded" : "open");
    const row = this.scene.layout.rows.find(({ kind }) => kind === "links");
    if (!row || this.scene.links === "folded") return;
    const wanted = row.top - this.plotHeight * 0.4;
    if (wanted > this.scene.scrollTop) this.scroll(wanted - this.scene.scrollTop);
  }

  // Its GPUs get lanes of their own, or one lane for all of them again. Without a rank: the selection's, or the first that can.
  toggleRank(rank = this.scene.selection?.rank ?? this.model.ranks.findIndex(unfolds)): void {
    const of = this.model.ranks[rank];
    if (!of) return;
    const name = rankLabel(of);
    if (!unfolds(of)) return this.tell(`${name}: ${whyFolded(of)}`);
    const unfolded = new Set(this.scene.unfolded);
    if (!unfolded.delete(rank)) unfolded.add(rank);
    this.setUnfolded(unfolded);
    this.say(`${name}: ${unfolded.has(rank) ? `a lane for each of ${memberCount(of.members!)} GPUs` : "one lane for all its GPUs"}`);
    const top = this.scene.layout.rows.find((row) => row.rank === rank)!.top;
    if (top < this.scene.scrollTop || top > this.scene.scrollTop + this.plotHeight - 60) this.scroll(top - this.scene.scrollTop);
  }
  foldAll(): void {
    this.setUnfolded(new Set());
    this.say("one lane for all GPUs of a pipeline rank");
  }
  private setUnfolded(unfolded: Set<number>): void {
    this.scene.unfolded = unfolded;
    element("unfold").setAttribute("aria-expanded", String(unfolded.size > 0));
    const { selection } = this.scene;
    if (selection && !unfolded.has(selection.rank)) delete selection.member;
    this.lay();
  }

  // Announced to screen readers; not shown.
  private say(text: string): void {
    element("said").textContent = text;
  }

  togglePath(): void {
    this.setPath(!this.scene.path);
    const text = this.scene.path ? describePath(this.model) : "";
    this.tell(text);
    if (text === "") this.say("critical path hidden");
  }
  private setPath(path: boolean): void {
    if (path && this.model.path.rank.length === 0) this.model.path = passPath(this.model);
    this.scene.path = path && this.model.path.rank.length > 0;
    element("path").setAttribute("aria-pressed", String(this.scene.path));
    this.refresh();
  }

  // At the pointer; without one at the selection's start, or in the middle of the view.
  mark(pointer: number | undefined): void {
    const { selection, view, marks } = this.scene;
    const own = selection && boxesOf(this.model, selection.rank, selection.lane).start[selection.index]!;
    const time = Math.round(Math.min(Math.max(pointer ?? own ?? (view.from + view.to) / 2, 0), this.step));
    this.scene.marks = toggledMark(marks, time, scaleOf(view, this.plotWidth).perPixel * 4);
    this.tell(describeMark(this.scene.marks, time));
  }
  clearMarks(): void {
    this.scene.marks = [];
    this.say("marks removed");
    this.refresh();
  }

  // Of the step, in either direction.
  measure(one: number, other: number): void {
    const within = (time: number) => Math.min(Math.max(time, 0), this.step);
    this.scene.stretch = { from: within(Math.min(one, other)), to: within(Math.max(one, other)) };
    this.tell(describeStretch(this.model, this.scene.stretch));
  }

  private tell(text: string): void {
    element("selection").textContent = text;
    this.refresh();
  }

  clear(): void {
    this.scene.stretch = undefined;
    this.select(undefined, false);
    this.find("");
  }

  // The view as a file of its own.
  savePicture(kind: "png" | "svg"): void {
    const save = (blob: Blob | null) => {
      if (!blob) return;
      const url = URL.createObjectURL(blob);
      const name = document.title.replace(/ - simrun$/, "").replace(/[^\w.-]+/g, "-");
      Object.assign(document.createElement("a"), { href: url, download: `${name}.${kind}` }).click();
      window.setTimeout(() => URL.revokeObjectURL(url), 10000);
      this.say(`${name}.${kind} was saved`);
    };
    this.painter.paint(this.scene);
    if (kind === "png") this.canvas.toBlob(save, "image/png");
    else save(new Blob([this.painter.svg(this.scene, document.title)], { type: "image/svg+xml" }));
  }

  select(box: Box | undefined, reveal: boolean): void {
    this.scene.selection = box;
    element("selection").textContent = box ? describe(this.model, box).join("  \u00b7  ") : "";
    if (box && reveal) this.reveal(box);
    this.refresh();
  }

  private reveal(box: Box): void {
    const boxes = boxesOf(this.model, box.rank, box.lane);
    this.scene.view = revealing(this.scene.view, boxes.start[box.index]!, boxes.duration[box.index]!, this.step);
    const row = this.scene.layout.rows.find(
      (r) => r.rank === box.rank && r.kind !== "rank" && r.kind !== "memory" && (box.member === undefined || r.member === box.member) &&
             (r.lane === box.lane || (r.kind === "compute" && box.lane < 0)));
    if (!row) return;
    if (row.top < this.scene.scrollTop) this.scroll(row.top - 8 - this.scene.scrollTop);
    const below = row.top + row.height + 8 - this.scene.scrollTop - this.plotHeight;
    if (below > 0) this.scroll(below);
  }

  // The selection, zoomed so that it fills the plot.
  fit(): void {
    const box = this.scene.selection;
    if (!box) return;
    const boxes = boxesOf(this.model, box.rank, box.lane);
    const [start, duration] = [boxes.start[box.index]!, boxes.duration[box.index]!];
    this.setView({ from: start - duration * 0.1, to: start + duration * 1.1 });
  }

  // by = 1: the next box of the row, or the first on screen if nothing is selected.
  stepSelection(by: number): void {
    const { selection } = this.scene;
    if (!selection) return this.stepLane(0);
    const count = boxesOf(this.model, selection.rank, selection.lane).start.length;
    const index = Math.min(Math.max(selection.index + by, 0), count - 1);
    this.select({ ...selection, index }, true);
  }

  // The box of the row above or below that lies nearest in time.
  stepLane(by: number): void {
    const perPixel = scaleOf(this.scene.view, this.plotWidth).perPixel;
    const bands = this.scene.layout.rows.flatMap((row) => bandsOf(row, perPixel))
      .filter((band) => boxesOf(this.model, band.rank, band.lane).start.length > 0);
    if (bands.length === 0) return;
    const { selection } = this.scene;
    const at = selection ? bands.findIndex((b) => b.rank === selection.rank && b.lane === selection.lane && isIn(b, selection)) : 0;
    const band = bands[Math.min(Math.max(at + by, 0), bands.length - 1)]!;
    const time = selection ? boxesOf(this.model, selection.rank, selection.lane).start[selection.index]!
                           : this.scene.view.from;
    const { start } = boxesOf(this.model, band.rank, band.lane);
    const after = start.findIndex((s) => s >= time);
    this.select({ rank: band.rank, lane: band.lane, member: band.member, index: after < 0 ? start.length - 1 : after }, true);
  }

  find(text: string): void {
    this.scene.found = search(this.model, text);
    this.place = -1;
    element("found").textContent = text.trim() === "" ? "" : `${this.scene.found.length} found`;
    this.refresh();
  }
  nextFound(by: number): void {
    const { found } = this.scene;
    if (found.length === 0) return;
    this.place = (this.place + by + found.length) % found.length;
    element("found").textContent = `${this.place + 1} of ${found.length}`;
    this.select(found[this.place], true);
  }

  private remember(): void {
    const { view, mode, selection, links, path, marks, stretch, scrollTop: scroll } = this.scene;
    const unfolded = [...this.scene.unfolded].sort((a, b) => a - b);
    const own = selection?.member === undefined ? [] : [selection.member];
    const chosen = selection ? [selection.rank, selection.lane, selection.index, ...own] : [];
    const measured = stretch ? [stretch.from, stretch.to] : [];
    history.replaceState(null, "", `#${hashOf({ view, mode, selection: chosen, links, unfolded, path, scroll, marks, stretch: measured })}`);
  }

  private restore(): void {
    const state = stateFrom(location.hash);
    if (state.view) this.scene.view = clamped(state.view, this.step);
    this.setLinks(state.links ?? "folded");
    this.setUnfolded(new Set((state.unfolded ?? []).filter((rank) => this.model.ranks[rank] && unfolds(this.model.ranks[rank]))));
    this.setPath(state.path ?? false);
    this.scroll((state.scroll ?? 0) - this.scene.scrollTop);
    this.scene.marks = state.marks ?? [];
    const [start, end] = state.stretch ?? [];
    this.scene.stretch = undefined;
    if (start !== undefined) this.measure(start, end!);
    else if (this.scene.path) this.tell(describePath(this.model));
    if (state.mode && modes.includes(state.mode as Mode)) this.scene.mode = state.mode as Mode;
    const [rank, lane, index, member] = state.selection ?? [];
    const known = rank !== undefined && this.model.ranks[rank] && lane! >= -1 && lane! < this.model.ranks[rank].lanes.length;
    if (known && index! >= 0 && index! < boxesOf(this.model, rank, lane!).start.length) {
      const of = this.scene.unfolded.has(rank) ? this.model.ranks[rank]!.members : undefined;
      const isMember = of && member !== undefined && member >= 0 && member < memberCount(of);
      this.select({ rank, lane: lane!, index: index!, ...(isMember ? { member } : {}) }, false);
    }
  }
}
