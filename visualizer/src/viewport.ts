// Which stretch of time is on screen. Pure: every function returns a new View.

export interface View {
  from: number; // picoseconds
  to: number;
}

export const shortestSpan = 1e5; // 100 ns

// All of [0, step] with a little air.
export function wholeView(step: number): View {
  const air = Math.max(step, shortestSpan) * 0.01;
  return { from: -air, to: Math.max(step, shortestSpan) + air };
}

// The nearest view that is not too narrow and does not leave the whole.
export function clamped(view: View, step: number): View {
  const whole = wholeView(step);
  const span = Math.min(Math.max(view.to - view.from, shortestSpan), whole.to - whole.from);
  const from = Math.min(Math.max(view.from, whole.from), whole.to - span);
  return { from, to: from + span };
}

// factor > 1 zooms in; `at` stays where it is on the screen.
export function zoomedAbout(view: View, at: number, factor: number, step: number): View {
  const span = Math.max((view.to - view.from) / factor, shortestSpan);
  const share = (at - view.from) / (view.to - view.from);
  return clamped({ from: at - share * span, to: at - share * span + span }, step);
}

export function panned(view: View, by: number, step: number): View {
  return clamped({ from: view.from + by, to: view.to + by }, step);
}

// A view that shows [start, start + duration], moved no more than needed and widened or narrowed only if the box would be
// invisible or larger than the screen.
export function revealing(view: View, start: number, duration: number, step: number): View {
  const span = view.to - view.from;
  const end = start + duration;
  if (duration > span || duration < span / 400) {
    const wanted = Math.max(duration * 12, shortestSpan);
    const middle = start + duration / 2;
    return clamped({ from: middle - wanted / 2, to: middle + wanted / 2 }, step);
  }
  if (start >= view.from && end <= view.to) return view;
  const middle = start + duration / 2;
  return clamped({ from: middle - span / 2, to: middle + span / 2 }, step);
}

// Round times 1, 2 or 5 x 10^k apart, at least `apart` pixels from each other.
export function ticks(view: View, width: number, apart: number): { every: number; times: number[] } {
  const least = ((view.to - view.from) * apart) / width;
  const power = 10 ** Math.floor(Math.log10(least));
  const every = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least * (1 - 1e-9))!;
  const times: number[] = [];
  for (let n = Math.ceil(view.from / every) + 0; n * every <= view.to; n++) times.push(n * every);
  return { every, times };
}

const units: [number, string][] = [[1e12, "s"], [1e9, "ms"], [1e6, "us"], [1e3, "ns"], [1, "ps"]];

// "23.20 ms": four figures in the unit that fits.
export function timeText(ps: number): string {
  if (ps === 0) return "0 s";
  const size = Math.abs(ps);
  const [of, name] = units.find(([u]) => size >= u * 0.99995) ?? [1, "ps"];
  const decimals = Math.max(0, 3 - Math.floor(Math.log10(size / of) + 1e-9));
  return `${(ps / of).toFixed(of === 1 ? 0 : Math.min(decimals, 3))} ${name}`;
}

// A tick's label: the unit of the whole view, and as many decimals as tell neighbours apart.
export function tickText(ps: number, every: number, longest: number): string {
  const [of, name] = units.find(([u]) => longest >= u) ?? [1, "ps"];
  const decimals = Math.max(0, -Math.floor(Math.log10(every / of) + 1e-9));
  return `${(ps / of).toFixed(decimals)} ${name}`;
}

export interface PageState {
  view: View;
  mode: string;
  selection: number[]; // rank, lane, index, and of an unfolded rank its GPU; empty: nothing
  links: "folded" | "open";
  unfolded: number[]; // ranks
  path: boolean;
  scroll: number; // CSS pixels of the lanes above the plot
  marks: number[]; // ps
  stretch: number[]; // from, to; empty: nothing is measured
}

// "v=0,14900000000000&c=op&s=1,-1,17&l=open&u=0,3&p=on&y=240&m=1000,2000&d=0,5000"; what does not parse is left out.
export function hashOf(state: PageState): string {
  const parts = [`v=${Math.round(state.view.from)},${Math.round(state.view.to)}`, `c=${state.mode}`];
  if (state.selection.length >= 3) parts.push(`s=${state.selection.join(",")}`);
  if (state.links === "open") parts.push("l=open");
  if (state.unfolded.length > 0) parts.push(`u=${state.unfolded.join(",")}`);
  if (state.path) parts.push("p=on");
  if (state.scroll > 0) parts.push(`y=${state.scroll}`);
  if (state.marks.length > 0) parts.push(`m=${state.marks.map(Math.round).join(",")}`);
  if (state.stretch.length === 2) parts.push(`d=${state.stretch.map(Math.round).join(",")}`);
  return parts.join("&");
}

export function stateFrom(hash: string): Partial<PageState> {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const numbers = (key: string) => (fields.get(key) ?? "").split(",").map((n) => (n === "" ? NaN : Number(n)));
  const state: Partial<PageState> = {};
  const [from, to] = numbers("v");
  if (Number.isFinite(from) && Number.isFinite(to) && to! > from!) state.view = { from: from!, to: to! };
  const mode = fields.get("c");
  if (mode) state.mode = mode;
  const selection = numbers("s");
  if ((selection.length === 3 || selection.length === 4) && selection.every(Number.isInteger)) state.selection = selection;
  if (fields.get("l") === "open") state.links = "open";
  const unfolded = numbers("u");
  if (unfolded.every(Number.isInteger)) state.unfolded = unfolded;
  if (fields.get("p") === "on") state.path = true;
  const [scroll] = numbers("y");
  if (Number.isFinite(scroll) && scroll! > 0) state.scroll = scroll!;
  const marks = numbers("m");
  if (marks.every(Number.isFinite)) state.marks = marks.sort((a, b) => a - b);
  const stretch = numbers("d");
  if (stretch.length === 2 && stretch.every(Number.isFinite) && stretch[1]! >= stretch[0]!) state.stretch = stretch;
  return state;
}
