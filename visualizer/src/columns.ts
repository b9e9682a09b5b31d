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

  // v0, v1 - v0, v2 - v1, ... -> v0, v1, v2, ...
  differences(): Float64Array {
    const values = this.column();
    for (let i = 1; i < values.length; i++) values[i]! += values[i - 1]!;
    return values;
  }
}
