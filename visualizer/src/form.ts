// The form of `simrun --serve`: one field per key of the job, as the server describes it (cli/estimate_form.h).

export interface Field {
  key: string; // dotted path, as in the job's YAML
  kind: "integer" | "boolean" | "word" | "preset";
  value: string; // "" of a preset: the job writes the section itself
  words?: string[];
  least?: number;
  most?: number;
  slider?: "doubling" | "ones" | "relative";
  top?: number; // where the slider ends
}

export interface Problem {
  key: string;
  message: string;
  hint: string;
  place: string;
}

// Where a slider stops, rising. The values given are among them, so that it can always show where the field stands and get
// back to where it began.
export function sliderStops(field: Field, ...among: number[]): number[] {
  const [least, most] = [field.least ?? 0, Math.min(field.most ?? Infinity, field.top ?? Infinity)];
  const stops = new Set(among);
  if (field.slider === "ones") for (let value = least; value <= most; value++) stops.add(value);
  if (field.slider === "doubling") for (let value = Math.max(least, 1); value <= most; value *= 2) stops.add(value);
  if (field.slider === "relative") {
    for (const quarters of [1, 2, 3, 4, 5, 6, 8, 12, 16]) {
      const value = ((among[0] ?? least) * quarters) / 4;
      if (Number.isInteger(value) && value >= least && value <= most) stops.add(value);
    }
  }
  return [...stops].sort((a, b) => a - b);
}

function made<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Partial<HTMLElementTagNameMap[K]> = {},
                                                      ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export function problemText(problem: Problem): (Node | string)[] {
  return [problem.message, ...(problem.hint === "" ? [] : [made("span", { className: "hint" }, problem.hint)])];
}

// The control of one field. `set` shows a value without telling of it.
interface Control {
  row: HTMLElement;
  said: HTMLElement; // its problems
  set(value: string): void;
}

type Changed = (key: string, value: string) => void;

// `among`: may be chosen as well, in front of the field's own words.
function options(select: HTMLSelectElement, field: Field, among: string[], value: string): void {
  const words = field.words ?? [];
  const all = new Set([...among.filter((word) => !words.includes(word)), ...words]);
  const nothing = field.key.includes(".") ? "as the job writes it" : "none named";
  select.replaceChildren(...[...all].map((word) => made("option", { value: word }, word || nothing)));
  select.value = value;
}

function integerControl(field: Field, id: string, changed: Changed): { parts: HTMLElement[]; set: (value: string) => void } {
  const number = made("input", { type: "number", id, step: "1" });
  if (field.least !== undefined) number.min = String(field.least);
  const slider = made("input", { type: "range", min: "0", step: "1" });
  slider.setAttribute("aria-label", `${field.key}, slider`);
  const first = Number(field.value);
  let stops: number[] = [];
  const show = (value: number) => {
    if (!stops.includes(value)) stops = sliderStops(field, first, value);
    slider.max = String(stops.length - 1);
    slider.value = String(stops.indexOf(value));
    slider.setAttribute("aria-valuetext", String(value));
  };
  slider.addEventListener("input", () => {
    const value = stops[Number(slider.value)]!;
    number.value = String(value);
    slider.setAttribute("aria-valuetext", number.value);
    changed(field.key, number.value);
  });
  number.addEventListener("input", () => {
    if (!/^\d{1,18}$/.test(number.value)) return;
    show(Number(number.value));
    changed(field.key, number.value);
  });
  const set = (value: string) => {
    if (document.activeElement !== number) number.value = value;
    show(Number(value));
  };
  return { parts: [number, slider], set };
}

function control(field: Field, changed: Changed): Control {
  const id = `field-${field.key}`;
  const words = field.key.slice(field.key.indexOf(".") + 1).split("_"); // may go on in the next line behind any of them
  const label = made("label", { htmlFor: id, title: field.key },
                     ...words.flatMap((word, w) => (w === 0 ? [word] : ["_", made("wbr"), word])));
  const said = made("div", { className: "problems" });
  const row = made("div", { className: "field" }, label);
  row.dataset.key = field.key;
  let set: (value: string) => void;
  if (field.kind === "integer") {
    const parts = integerControl(field, id, changed);
    row.append(...parts.parts);
    set = parts.set;
  } else if (field.kind === "boolean") {
    const box = made("input", { type: "checkbox", id });
    box.addEventListener("change", () => changed(field.key, String(box.checked)));
    row.append(box);
    set = (value) => void (box.checked = value === "true");
  } else {
    row.classList.add("wide");
    const select = made("select", { id });
    select.addEventListener("change", () => changed(field.key, select.value));
    row.append(select);
    set = (value) => options(select, field, [field.value, value], value);
  }
  said.style.gridColumn = "1 / -1";
  row.append(said);
  set(field.value);
  return { row, said, set };
}

export class Form {
  private controls = new Map<string, Control>();
  private builtFor = "";

  constructor(private readonly place: HTMLElement, private readonly changed: Changed) {}

  // Values change in place while the keys stay the same, so that focus and a held slider do; `anew`: values begin again.
  show(fields: Field[], own: ReadonlyMap<string, string>, anew: boolean): void {
    const shape = JSON.stringify(fields.map(({ key, kind, words, least, most }) => [key, kind, words, least, most]));
    if (anew || shape !== this.builtFor) this.build(fields);
    this.builtFor = shape;
    for (const field of fields) {
      const { row, set } = this.controls.get(field.key)!;
      set(field.value);
      row.classList.toggle("changed", own.has(field.key));
    }
  }

  private build(fields: Field[]): void {
    const focused = document.activeElement?.id;
    this.controls = new Map(fields.map((field) => [field.key, control(field, this.changed)]));
    const sections = new Set(fields.map(({ key }) => key.split(".")[0]!));
    this.place.replaceChildren(...[...sections].map((section) =>
      made("fieldset", {}, made("legend", {}, section),
           ...fields.filter(({ key }) => key.split(".")[0] === section).map(({ key }) => this.controls.get(key)!.row))));
    if (focused) document.getElementById(focused)?.focus();
  }

  // Beside their fields; returns those that have none.
  tell(problems: Problem[]): Problem[] {
    for (const { row, said } of this.controls.values()) {
      row.classList.remove("wrong");
      said.replaceChildren();
    }
    return problems.filter((problem) => {
      const at = this.controls.get(problem.key);
      at?.row.classList.add("wrong");
      at?.said.append(made("p", { className: "problem" }, ...problemText(problem)));
      return !at;
    });
  }
}
