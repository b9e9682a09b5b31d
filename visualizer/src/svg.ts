// The view as SVG: what the rasteriser made as runs of equal pixels, and over it text and lines as the same calls draw
// them on the canvas.

const hex = (pixel: number) =>
  `#${[pixel & 0xff, (pixel >> 8) & 0xff, (pixel >> 16) & 0xff].map((c) => c.toString(16).padStart(2, "0")).join("")}`;

// One rectangle per run of equal pixels and stretch of equal lines; what is ground is left out. Pixels are 0xaabbggrr.
export function runsOf(pixels: Uint32Array, width: number, ground: number, scale: number, left: number, top: number): string {
  const paths = new Map<number, string>(); // by colour
  const lines = pixels.length / width;
  const equal = (a: number, b: number) => {
    for (let x = 0; x < width; x++) if (pixels[a * width + x] !== pixels[b * width + x]) return false;
    return true;
  };
  const at = (value: number, offset: number) => Number((offset + value / scale).toFixed(2));
  for (let line = 0, next = 0; line < lines; line = next) {
    for (next = line + 1; next < lines && equal(line, next);) next++;
    for (let x = 0, end = 0; x < width; x = end) {
      const pixel = pixels[line * width + x]!;
      for (end = x + 1; end < width && pixels[line * width + end] === pixel;) end++;
      if (pixel === ground) continue;
      const run = `M${at(x, left)} ${at(line, top)}H${at(end, left)}V${at(next, top)}H${at(x, left)}z`;
      paths.set(pixel, (paths.get(pixel) ?? "") + run);
    }
  }
  return [...paths].map(([pixel, path]) => `<path fill="${hex(pixel)}" d="${path}"/>`).join("\n");
}

export function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

interface State {
  x: number;
  y: number;
  clips: number; // since the state was saved
}

const anchors: Record<string, string> = { left: "start", right: "end", center: "middle" };

// Of CanvasRenderingContext2D what Painter calls, writing elements.
export class SvgContext {
  fillStyle = "";
  strokeStyle = "";
  lineWidth = 1;
  lineJoin = "miter";
  font = "";
  textAlign = "left";
  textBaseline = "middle"; // all text of the page
  private elements: string[] = [];
  private state: State = { x: 0, y: 0, clips: 0 };
  private readonly saved: State[] = [];
  private path = "";
  private box = ""; // of the path's last rectangle: what is clipped to

  constructor(private readonly ruler: CanvasRenderingContext2D) {}

  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  save(): void {
    this.saved.push(this.state);
    this.state = { ...this.state, clips: 0 };
  }
  restore(): void {
    this.elements.push("</svg>".repeat(this.state.clips));
    this.state = this.saved.pop()!;
  }
  translate(x: number, y: number): void {
    this.state.x += x;
    this.state.y += y;
  }

  beginPath(): void {
    this.path = "";
  }
  private point(x: number, y: number): string {
    return `${Number((x + this.state.x).toFixed(2))} ${Number((y + this.state.y).toFixed(2))}`;
  }
  moveTo(x: number, y: number): void {
    this.path += `M${this.point(x, y)}`;
  }
  lineTo(x: number, y: number): void {
    this.path += `L${this.point(x, y)}`;
  }
  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.path += `C${this.point(x1, y1)} ${this.point(x2, y2)} ${this.point(x, y)}`;
  }
  rect(x: number, y: number, width: number, height: number): void {
    this.box = `${this.point(x, y)} ${Math.max(width, 0).toFixed(2)} ${Math.max(height, 0).toFixed(2)}`;
    this.path += `M${this.point(x, y)}L${this.point(x + width, y)}L${this.point(x + width, y + height)}L${this.point(x, y + height)}z`;
  }
  // To a rectangle, as all clips of the page are: a drawing in the drawing, in the same coordinates.
  clip(): void {
    const [x, y, width, height] = this.box.split(" ");
    this.elements.push(`<svg x="${x}" y="${y}" width="${width}" height="${height}" viewBox="${this.box}">`);
    this.state.clips++;
  }

  stroke(): void {
    if (this.path === "") return;
    this.elements.push(`<path fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" d="${this.path}"/>`);
  }
  fill(): void {
    this.elements.push(`<path fill="${this.fillStyle}" d="${this.path}"/>`);
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.fill();
  }
  strokeRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.stroke();
  }

  fillText(text: string, x: number, y: number, mostWidth = Infinity): void {
    this.text(text, x, y, mostWidth, `fill="${this.fillStyle}"`);
  }
  strokeText(text: string, x: number, y: number): void {
    this.text(text, x, y, Infinity,
              `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="${this.lineJoin}"`);
  }
  private text(text: string, x: number, y: number, mostWidth: number, paint: string): void {
    const squeezed = this.measureText(text).width > mostWidth ? ` textLength="${mostWidth}" lengthAdjust="spacingAndGlyphs"` : "";
    const [left, top] = this.point(x, y).split(" ");
    this.elements.push(`<text x="${left}" y="${top}" dy="0.35em" text-anchor="${anchors[this.textAlign] ?? "start"}" ` +
                       `style="font:${this.font}" ${paint}${squeezed}>${escaped(text)}</text>`);
  }

  drawn(): string {
    return this.elements.join("\n");
  }
}
