// A model as decode() makes it: two pipeline ranks, two microbatches, one instruction lane and one collective on rank 0.
const column = (...values) => Float64Array.from(values);

export function exampleModel() {
  const passes = (start, duration, entry) => ({ start: column(...start), duration: column(...duration), entry: column(...entry) });
  const memory = { time: column(0, 100, 300), live: [column(10, 10, 10), column(0, 5, 1)] };
  const rank = (pp, segment, p, lanes) => ({
    pp, multiplicity: 8, segment: column(...segment), microbatch: column(0, 1, 0, 1), passes: p, memory, lanes,
  });
  const lane = (stream, p, wait, instruction) => ({ stream, ...p, wait: column(...wait), instruction: column(...instruction) });
  return {
    facts: {
      version: 1, step: 400, memoryLimit: 16, peakFlops: 1e12,
      streams: [{ name: "compute", traffic: "compute" }, { name: "tp", traffic: "tp" }],
      categories: ["weights", "activations"], ranks: [{ pp: 0, multiplicity: 8 }, { pp: 1, multiplicity: 8 }],
      strings: ["", "forward", "backward", "gemm", "qkv", "all_gather", "split over tp"],
    },
    // 0: F of stage 0, 1: B of stage 0, 2: F of stage 1, 3: B of stage 1; two instructions each
    segments: { kind: column(0, 1, 0, 1), name: column(1, 2, 1, 2), chunk: column(0, 0, 0, 0), stage: column(0, 0, 1, 1),
                first: Uint32Array.of(0, 2, 4, 6) },
    instructions: {
      what: column(3, 5, 3, 5, 3, 5, 3, 5), label: column(4, 0, 4, 0, 4, 0, 4, 0), cause: column(0, 6, 0, 6, 0, 6, 0, 6),
      phase: column(0, 0, 1, 2, 0, 0, 2, 2), layer: column(0, 0, 0, 0, 1, 1, 1, 1), stream: column(0, 1, 0, 1, 0, 1, 0, 1),
      bytes: column(8, 4, 8, 4, 8, 4, 8, 4), flops: column(20, 0, 20, 0, 20, 0, 20, 0),
    },
    ranks: [
      rank(0, [0, 0, 1, 1], passes([0, 50, 200, 300], [50, 50, 100, 100], [0, 1, 2, 3]), [
        lane(0, passes([0, 50, 200, 300], [40, 40, 80, 80], [0, 1, 2, 3]), [0, 0, 0, 0], [0, 0, 0, 0]),
        lane(1, passes([40, 90], [10, 10], [0, 1]), [2, 0], [1, 1]),
      ]),
      rank(1, [2, 2, 3, 3], passes([60, 110, 160, 260], [50, 50, 100, 100], [0, 1, 2, 3]), []),
    ],
  };
}
