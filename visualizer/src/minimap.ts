import { css, type Mode, type Theme } from "./colours";
import { ColourCache, type Scene } from "./draw";
import { passLane, type Model } from "./model";
import { drawRow, pixelOf, RowSums } from "./raster";
import { wholeView } from "./viewport";

// The whole step, a few lines per pipeline rank, and the stretch that the plot shows.
export class Minimap {
  private readonly context: CanvasRenderingContext2D;
  private readonly colours = new ColourCache();
  private image: ImageData | undefined;
  private drawnFor = "";

  constructor(private readonly canvas: HTMLCanvasElement, private readonly model: Model) {
    this.context = canvas.getContext("2d")!;
  }

  timeAt(x: number): number {
    const whole = wholeView(this.model.facts.step);
    return whole.from + (x / this.canvas.clientWidth) * (whole.to - whole.from);
  }

  paint({ view, mode, theme, path, marks }: Scene): void {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth * ratio, this.canvas.clientHeight * ratio].map(Math.round) as
      [number, number];
    if (width === 0 || height === 0) return;
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    const back = path ? theme.lane : undefined;
    const key = `${width} ${height} ${mode} ${theme.lane} ${back}`;
    if (key !== this.drawnFor) this.image = this.raster(width, height, mode, theme, back);
    this.drawnFor = key;
    this.context.putImageData(this.image!, 0, 0);
    const whole = wholeView(this.model.facts.step);
    const x = (time: number) => ((time - whole.from) / (whole.to - whole.from)) * width;
    this.context.fillStyle = theme.lane === 0xf1f2f4 ? "rgba(255,255,255,0.65)" : "rgba(27,30,35,0.65)";
    this.context.fillRect(0, 0, x(view.from), height);
    this.context.fillRect(x(view.to), 0, width - x(view.to), height);
    this.context.fillStyle = this.context.strokeStyle = theme.text;
    for (const mark of marks) this.context.fillRect(x(mark) - ratio / 2, 0, ratio, height);
    this.context.lineWidth = ratio;
    const left = Math.max(x(view.from), ratio / 2);
    this.context.strokeRect(left, ratio / 2, Math.min(Math.max(x(view.to) - left, 2), width - left - ratio / 2),
                            height - ratio);
    this.canvas.style.borderColor = css(theme.lane);
  }

  private raster(width: number, height: number, mode: Mode, theme: Theme, back: number | undefined): ImageData {
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(pixelOf(theme.lane));
    const whole = wholeView(this.model.facts.step);
    const scale = { from: whole.from, perPixel: (whole.to - whole.from) / width, width };
    const buffers = { sums: new RowSums(width), line: new Uint32Array(width) };
    const { ranks } = this.model;
    ranks.forEach((rank, r) => {
      const top = Math.floor((r * height) / ranks.length);
      const bottom = Math.floor(((r + 1) * height) / ranks.length);
      drawRow(pixels, rank.passes, this.colours.of(this.model, r, passLane, mode, back), scale, theme.lane, buffers,
              { top, height: Math.max(bottom - top - (bottom - top > 3 ? 1 : 0), 1) });
    });
    return image;
  }
}
