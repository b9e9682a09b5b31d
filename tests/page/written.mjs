// The writing side of visualizer/columns.h, in BigInt so that 2^52 is exact.
export function written(...columns) {
  const bytes = [];
  const put = (value) => {
    for (; value >= 128n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
    bytes.push(Number(value));
  };
  for (const column of columns) {
    put(BigInt(column.length));
    for (const value of column) put(value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value));
  }
  return Uint8Array.from(bytes);
}
