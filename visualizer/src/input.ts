import { memoryOrder, modes } from "./colours";
import { describe, describeIdle, describeLink, describeLinks, describeMemory } from "./describe";
import { axisHeight, gutterWidth, scaleOf } from "./draw";
import { hit, rowAt, type Row } from "./layout";
import { unfolds, whyFolded } from "./members";
import type { Box } from "./model";
import { element, type Page } from "./page";

// Keys and pointers.

const zoomStep = 1.5;
const panShare = 0.15; // of the plot's width

interface Point {
  x: number; // CSS pixels from the left edge of the lanes
  y: number; // CSS pixels from the top of all lanes
  time: number;
}

function pointOf(page: Page, event: MouseEvent): Point {
  const frame = page.canvas.getBoundingClientRect();
  const x = event.clientX - frame.left - gutterWidth;
  const y = event.clientY - frame.top - axisHeight + page.scene.scrollTop;
  return { x, y, time: page.scene.view.from + x * scaleOf(page.scene.view, page.plotWidth).perPixel };
}

interface Target {
  row?: Row;
  box?: Box;
  lines: string[];
  folds?: boolean; // a click unfolds the row's rank, or folds it
}

const folds = (page: Page, row: Row) => row.rank >= 0 && unfolds(page.model.ranks[row.rank]!) && (row.kind === "compute" || row.kind === "rank");

function foldLines(page: Page, row: Row): string[] {
  if (row.kind !== "compute" && row.kind !== "rank") return [];
  if (!folds(page, row)) return [whyFolded(page.model.ranks[row.rank]!)];
  return [page.scene.unfolded.has(row.rank) ? "click or U: one lane for all GPUs of this pipeline rank" : "click or U: a lane for each GPU"];
}

function under(page: Page, point: Point): Target {
  const { model } = page;
  const row = rowAt(page.scene.layout, point.y);
  if (!row) return { lines: [] };
  if (row.kind === "links") return { row, lines: describeLinks(model, point.time) };
  if (point.x < 0) return { row, lines: foldLines(page, row), folds: folds(page, row) };
  if (row.kind === "link") return { row, lines: describeLink(model, row.lane, point.time) };
  if (row.kind === "memory") return { row, lines: describeMemory(model, row.rank, point.time, memoryOrder) };
  const box = hit(model, row, point.y, point.time, scaleOf(page.scene.view, page.plotWidth));
  if (box) return { row, box, lines: describe(model, box) };
  return { row, lines: row.kind === "compute" ? describeIdle(model, row.rank, point.time) : [] };
}

function click(page: Page, target: Target): void {
  if (target.row?.kind === "links") page.toggleLinks();
  else if (target.folds) page.toggleRank(target.row!.rank);
  else page.select(target.box, false);
}

function showTip(lines: string[], event: MouseEvent): void {
  const tip = element("tip");
  tip.hidden = lines.length === 0;
  if (tip.hidden) return;
  tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
  const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
  const below = event.clientY + 16 + tip.offsetHeight > window.innerHeight;
  tip.style.left = `${right ? Math.max(event.clientX - 12 - tip.offsetWidth, 0) : event.clientX + 16}px`;
  tip.style.top = `${below ? event.clientY - 12 - tip.offsetHeight : event.clientY + 16}px`;
}

export function listenToPointers(page: Page): { time: () => number | undefined } {
  const { canvas } = page;
  const down = new Map<number, PointerEvent>();
  let moved = 0;
  let measuredFrom: number | undefined; // while shift is held and the pointer drags
  let pointerTime: number | undefined;
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
    measuredFrom = event.shiftKey && down.size === 1 ? pointOf(page, event).time : undefined;
  });
  canvas.addEventListener("pointermove", (event) => {
    pointerTime = pointOf(page, event).time;
    const before = down.get(event.pointerId);
    if (!before) {
      const target = under(page, pointOf(page, event));
      canvas.style.cursor = target.row?.kind === "links" || target.folds ? "pointer" : "";
      return showTip(target.lines, event);
    }
    showTip([], event);
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    const other = [...down.values()].find((p) => p.pointerId !== event.pointerId);
    if (other) {
      const apart = (p: PointerEvent) => Math.max(Math.abs(p.clientX - other.clientX), 8);
      page.zoom(apart(event) / apart(before), pointOf(page, other).time);
    } else if (measuredFrom !== undefined) {
      if (moved >= 4) page.measure(measuredFrom, pointerTime);
    } else {
      page.pan(before.clientX - event.clientX);
      const left = page.scroll(before.clientY - event.clientY);
      if (event.pointerType === "touch" && left !== 0) window.scrollBy(0, left); // the plot leaves little else to take hold of
    }
    down.set(event.pointerId, event);
  });
  const release = (event: PointerEvent) => {
    if (down.delete(event.pointerId) && event.type === "pointerup" && moved < 4) {
      click(page, under(page, pointOf(page, event)));
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => ((pointerTime = undefined), showTip([], event)));
  canvas.addEventListener("dblclick", () => page.fit());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const pixels = event.deltaMode === 0 ? 1 : 30;
    const point = pointOf(page, event);
    if (point.x < 0) page.scroll(event.deltaY * pixels); // over the labels
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) page.pan((event.deltaX || event.deltaY) * pixels);
    else page.zoom(Math.exp((-event.deltaY * pixels) / 400), point.time);
  }, { passive: false });
  return { time: () => pointerTime };
}

export function listenToMinimap(page: Page): void {
  const map = element<HTMLCanvasElement>("minimap");
  const centre = (event: PointerEvent) => {
    const at = page.minimap.timeAt(event.clientX - map.getBoundingClientRect().left);
    const half = (page.scene.view.to - page.scene.view.from) / 2;
    page.setView({ from: at - half, to: at + half });
  };
  map.addEventListener("pointerdown", (event) => (map.setPointerCapture(event.pointerId), centre(event)));
  map.addEventListener("pointermove", (event) => event.buttons !== 0 && centre(event));
}

// A field keeps what is typed into it.
function takesKeys(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}

export function listenToKeys(page: Page, pointer: { time: () => number | undefined }): void {
  const help = element<HTMLDialogElement>("help");
  const query = element<HTMLInputElement>("query");
  const wide = () => page.plotWidth * panShare;
  const actions: Record<string, () => void> = {
    w: () => page.zoom(zoomStep, pointer.time()),
    s: () => page.zoom(1 / zoomStep, pointer.time()),
    a: () => page.pan(-wide()),
    d: () => page.pan(wide()),
    f: () => page.fit(),
    l: () => page.toggleLinks(),
    u: () => page.toggleRank(),
    "0": () => page.setView({ from: -Infinity, to: Infinity }),
    ".": () => page.stepSelection(1),
    ",": () => page.stepSelection(-1),
    "/": () => (query.focus(), query.select()),
    "?": () => (help.open ? help.close() : help.showModal()),
    c: () => page.togglePath(),
    m: () => page.mark(pointer.time()),
    p: () => page.savePicture("png"),
    v: () => page.savePicture("svg"),
    escape: () => page.clear(),
    pageup: () => page.scroll(-page.plotHeight * 0.8),
    pagedown: () => page.scroll(page.plotHeight * 0.8),
  };
  modes.forEach((mode, i) => (actions[`${i + 1}`] = () => page.setMode(mode)));
  const onPlot: Record<string, () => void> = {
    arrowright: () => page.stepSelection(1),
    arrowleft: () => page.stepSelection(-1),
    arrowdown: () => page.stepLane(1),
    arrowup: () => page.stepLane(-1),
  };
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || takesKeys(event.target)) return;
    const key = event.key.toLowerCase();
    if (key === "m" && event.shiftKey && !help.open) return page.clearMarks();
    if (key === "u" && event.shiftKey && !help.open) return page.foldAll();
    const action = actions[key] ?? (document.activeElement === page.canvas ? onPlot[key] : undefined);
    if (!action || (help.open && key !== "?")) return;
    event.preventDefault();
    action();
  });
  query.addEventListener("input", () => page.find(query.value));
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter") page.nextFound(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") ((query.value = ""), page.find(""), query.blur());
  });
  for (const mode of modes) element(`mode-${mode}`).addEventListener("click", () => page.setMode(mode));
  element("path").addEventListener("click", () => page.togglePath());
  element("png").addEventListener("click", () => page.savePicture("png"));
  element("svg").addEventListener("click", () => page.savePicture("svg"));
  element("links").addEventListener("click", () => page.toggleLinks());
  element("unfold").addEventListener("click", () => (page.scene.unfolded.size > 0 ? page.foldAll() : page.toggleRank()));
  element("whole").addEventListener("click", () => actions["0"]!());
  element("keys").addEventListener("click", () => help.showModal());
}
