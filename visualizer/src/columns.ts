// Reads what visualizer/columns.h writes: columns of integers as zigzag LEB128, in an order that both sides know.
export class ColumnReader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get exhausted(): boolean {
    return this.at === this.bytes.length;
  }

  // Arithmetic instead of shifts: values have up to 53 bits.
  private varint(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error("the data of this page is cut short");
      const byte = this.bytes[this.at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  column(): Float64Array {
    const values = new Float64Array(this.varint());
    for (let i = 0; i < values.length; i++) {
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
