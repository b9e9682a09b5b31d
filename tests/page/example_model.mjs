// A model as decode() makes it: two pipeline ranks, two microbatches; on rank 0 an instruction lane, one of collectives and one of
// sends, on rank 1 one of receives; two links.
const column = (...values) => Float64Array.from(values);

export function exampleModel() {
  const passes = (start, duration, entry) => ({ start: column(...start), duration: column(...duration), entry: column(...entry) });
  const memory = { time: column(0, 100, 300), live: [column(10, 10, 10), column(0, 5, 1)] };
  const rank = (pp, segment, p, lanes) => ({
    pp, multiplicity: 8, gpus: 8, segment: column(...segment), microbatch: column(0, 1, 0, 1, 0, 1), passes: p, memory, lanes,
  });
  const lane = (stream, p, wait, instruction) => ({ stream, ...p, wait: column(...wait), instruction: column(...instruction) });
  return {
    facts: {
      version: 1, step: 400, memoryLimit: 16, peakFlops: 1e12,
      streams: [{ name: "compute", traffic: "compute" }, { name: "tp", traffic: "tp" },
                { name: "pp", traffic: "pp" }],
      categories: ["weights", "activations"], ranks: [{ pp: 0, multiplicity: 8, gpus: 8 }, { pp: 1, multiplicity: 8, gpus: 8 }], useSteps: 10000, links: [],
      strings: ["", "forward", "backward", "gemm", "qkv", "all_gather", "split over tp", "hand over", "send", "recv"],
    },
    // 0: F of stage 0, 1: B of stage 0, 2: F of stage 1, 3: B of stage 1, two instructions each; 4: a send, 5: a receive
    segments: { kind: column(0, 1, 0, 1, 4, 4), name: column(1, 2, 1, 2, 7, 7), chunk: column(0, 0, 0, 0, 0, 0),
                stage: column(0, 0, 1, 1, 0, 1), first: Uint32Array.of(0, 2, 4, 6, 8, 9) },
    instructions: {
      what: column(3, 5, 3, 5, 3, 5, 3, 5, 8, 9), label: column(4, 0, 4, 0, 4, 0, 4, 0, 0, 0),
      cause: column(0, 6, 0, 6, 0, 6, 0, 6, 0, 0), phase: column(0, 0, 1, 2, 0, 0, 2, 2, 0, 0),
      layer: column(0, 0, 0, 0, 1, 1, 1, 1, -1, -1), stream: column(0, 1, 0, 1, 0, 1, 0, 1, 2, 2),
      bytes: column(8, 4, 8, 4, 8, 4, 8, 4, 4, 4), flops: column(20, 0, 20, 0, 20, 0, 20, 0, 0, 0),
      channel: column(-1, -1, -1, -1, -1, -1, -1, -1, 7, 7),
    },
    links: [
      { name: "node0.nic0.tx", multiplicity: 4, bandwidth: 5e10, bytes: 5, busy: 100, contended: 20, use: column(0, 1, 0.5, 0) },
      { name: "node1.nic0.tx", multiplicity: 1, bandwidth: 5e10, bytes: 0, busy: 0, contended: 0, use: column(0.25, 0, 0, 0) },
    ],
    ranks: [
      rank(0, [0, 0, 1, 1, 4, 4], passes([0, 50, 200, 300], [50, 50, 100, 100], [0, 1, 2, 3]), [
        lane(0, passes([0, 50, 200, 300], [40, 40, 80, 80], [0, 1, 2, 3]), [0, 0, 0, 0], [0, 0, 0, 0]),
        lane(1, passes([40, 90], [10, 10], [0, 1]), [2, 0], [1, 1]),
        lane(2, passes([50, 100], [10, 10], [4, 5]), [0, 0], [0, 0]),
      ]),
      rank(1, [2, 2, 3, 3, 5, 5], passes([60, 110, 160, 260], [50, 50, 100, 100], [0, 1, 2, 3]), [
        lane(2, passes([50, 100], [10, 10], [4, 5]), [0, 0], [0, 0]),
      ]),
    ],
  };
}
