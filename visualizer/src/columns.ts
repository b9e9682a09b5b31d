// Reads what visualizer/columns.h writes: columns of integers as zigzag LEB128, in an order that both sides know.
export class ColumnReader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get exhausted(): boolean {
    return this.at === this.bytes.length;
  }

  // Arithmetic instead of shifts: values have up to 53 bits.
  private varint(): number {
    const { bytes } = this;
    let at = this.at;
    let value = 0;
    for (let scale = 1; at < bytes.length; scale *= 128) {
      const byte = bytes[at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.at = at;
        return value;
      }
    }
    throw new Error("the data of this page is cut short");
  }

  column(): Float64Array {
    const values = new Float64Array(this.varint());
    const { bytes } = this;
    for (let i = 0; i < values.length; i++) {
      const first = bytes[this.at]!;
      if (first < 0x80) { // most values
        this.at++;
        values[i] = (first >> 1) ^ -(first & 1);
        continue;
      }
      const zigzag = this.varint();
      values[i] = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    }
    return values;
  }

  // A column that was written as planes of bytes.
  planes(): Float64Array {
    const values = new Float64Array(this.varint());
    const planes = this.varint();
    const { bytes } = this;
    if (planes > 7 || this.at + planes * values.length > bytes.length) throw new Error("the data of this page is cut short");
    const count = values.length;
    const from = this.at;
    this.at += planes * count;
    if (planes <= 4) { // all but times of a second and more; whole numbers of 32 bits are quicker
      const [second, third, fourth] = [1, 2, 3].map((plane) => (plane < planes ? from + plane * count : -1)) as [number, number, number];
      for (let i = 0; i < count && planes > 0; i++) {
        let zigzag = bytes[from + i]!;
        if (second >= 0) zigzag |= bytes[second + i]! << 8;
        if (third >= 0) zigzag |= bytes[third + i]! << 16;
        if (fourth >= 0) zigzag |= bytes[fourth + i]! << 24;
        values[i] = (zigzag >>> 1) ^ -(zigzag & 1);
      }
      return values;
    }
    for (let i = 0; i < count; i++) {
      let zigzag = 0;
      for (let plane = planes - 1; plane >= 0; plane--) zigzag = zigzag * 256 + bytes[from + plane * count + i]!;
      values[i] = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    }
    return values;
  }

  // v0, v1 - v0, v2 - v1, ... -> v0, v1, v2, ...
  differences(): Float64Array {
    const values = this.column();
    for (let i = 1; i < values.length; i++) values[i]! += values[i - 1]!;
    return values;
  }
}
