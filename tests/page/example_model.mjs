// A model as decode() makes it: two pipeline ranks, two microbatches; on rank 0 an instruction lane, one of collectives and one of
// sends, on rank 1 one of receives; two links.
const column = (...values) => Float64Array.from(values);
const none = (count) => new Float64Array(count).fill(-1);

export function exampleModel() {
  const passes = (start, duration, entry) => ({ start: column(...start), duration: column(...duration), entry: column(...entry) });
  const memory = { time: column(0, 100, 300), live: [column(10, 10, 10), column(0, 5, 1)] };
  const rank = (pp, segment, p, lanes) => ({
    pp, multiplicity: 8, gpus: 8, device: 0, segment: column(...segment), microbatch: [column(0, 1, 0, 1, 0, 1), none(6)], passes: p, memory, lanes,
  });
  const lane = (stream, p, wait, instruction) => ({ stream, ...p, wait: column(...wait), instruction: column(...instruction) });
  return {
    facts: {
      version: 6, step: 400, predictedStep: 400, memoryLimit: 16, peakFlops: 1e12, bidirectional: false,
      streams: [{ name: "compute", traffic: "compute" }, { name: "tp", traffic: "tp" },
                { name: "pp", traffic: "pp" }],
      categories: ["weights", "activations"], ranks: [{ pp: 0, multiplicity: 8, gpus: 8, device: 0 }, { pp: 1, multiplicity: 8, gpus: 8, device: 0 }], gpusPerNode: 4, useSteps: 10000, links: [],
      strings: ["", "forward", "backward", "gemm", "qkv", "all_gather", "split over tp", "hand over", "send", "recv"],
    },
    // 0: F of stage 0, 1: B of stage 0, 2: F of stage 1, 3: B of stage 1, two instructions each; 4: a send, 5: a receive
    segments: { kind: column(0, 1, 0, 1, 4, 4), name: column(1, 2, 1, 2, 7, 7), chunk: [column(0, 0, 0, 0, 0, 0), none(6)],
                stage: [column(0, 0, 1, 1, 0, 1), none(6)], first: Uint32Array.of(0, 2, 4, 6, 8, 9) },
    instructions: {
      what: column(3, 5, 3, 5, 3, 5, 3, 5, 8, 9), label: column(4, 0, 4, 0, 4, 0, 4, 0, 0, 0),
      cause: column(0, 6, 0, 6, 0, 6, 0, 6, 0, 0), phase: column(0, 0, 1, 2, 0, 0, 2, 2, 0, 0),
      layer: column(0, 0, 0, 0, 1, 1, 1, 1, -1, -1), stream: column(0, 1, 0, 1, 0, 1, 0, 1, 2, 2),
      bytes: column(8, 4, 8, 4, 8, 4, 8, 4, 4, 4), flops: column(20, 0, 20, 0, 20, 0, 20, 0, 0, 0),
      channel: column(-1, -1, -1, -1, -1, -1, -1, -1, 7, 7), binding: new Float64Array(10), group: new Float64Array(10),
    },
    // 0F0, its collective, the send of it, on rank 1 nothing recorded of F; then B of rank 0
    path: { rank: column(0, 0, 0, 0), lane: column(0, 1, 2, 0), index: column(0, 0, 0, 3) },
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

// Two pipeline ranks of a bidirectional schedule around a pair: rank 0 holds stage 0 down and stage 1 up, rank 1 the other way round.
//
//   rank 0   0..80  (0F2;1B7), then sends 80..90 (activations of 2) and 90..100 (gradients of 7)   100..140  0F3
//   rank 1          the receives of both                                                           100..180  (1F2;0B7)
//
// Microbatches 2 and 3 go down, 7 goes up. A pair has two instructions, one of each pass.
export function pairModel() {
  const passes = (start, duration, entry) => ({ start: column(...start), duration: column(...duration), entry: column(...entry) });
  const memory = { time: column(), live: [column()] };
  const lane = (stream, p, instruction) => ({ stream, ...p, wait: new Float64Array(p.start.length), instruction: column(...instruction) });
  const rank = (pp, more) => ({ pp, multiplicity: 8, gpus: 8, device: 0, memory, ...more });
  return {
    facts: {
      version: 6, step: 200, predictedStep: 200, memoryLimit: 16, peakFlops: 0, bidirectional: true,
      streams: [{ name: "compute", traffic: "compute" }, { name: "pp", traffic: "pp" }],
      categories: ["weights"], ranks: [{ pp: 0, multiplicity: 8, gpus: 8, device: 0 }, { pp: 1, multiplicity: 8, gpus: 8, device: 0 }], gpusPerNode: 4, useSteps: 10000, links: [],
      strings: ["", "forward", "backward", "pair", "gemm", "send", "recv"],
    },
    // 0: pair of rank 0; 1: its 0F (down); 2: send of activations; 3: send of gradients; 4: pair of rank 1; 5 and 6: its receives
    segments: {
      kind: column(6, 0, 4, 4, 6, 4, 4), name: column(3, 1, 5, 5, 3, 6, 6),
      chunk: [column(0, 0, 0, 1, 0, 0, 1), column(1, -1, -1, -1, 1, -1, -1)],
      stage: [column(0, 0, 0, 1, 1, 1, 0), column(1, -1, -1, -1, 0, -1, -1)],
      first: Uint32Array.of(0, 2, 3, 4, 5, 7, 8),
    },
    instructions: {
      what: column(4, 4, 4, 5, 5, 4, 4, 6, 6), label: new Float64Array(9), cause: new Float64Array(9), phase: column(0, 2, 0, 0, 2, 0, 2, 0, 2),
      layer: column(0, 5, 0, -1, -1, 5, 0, -1, -1), stream: column(0, 0, 0, 1, 1, 0, 0, 1, 1), bytes: new Float64Array(9),
      flops: new Float64Array(9), channel: column(-1, -1, -1, 0, 3, -1, -1, 0, 3), binding: column(0, 1, 0, 0, 0, 0, 1, 0, 0), group: new Float64Array(9),
    },
    links: [],
    path: { rank: column(), lane: column(), index: column() },
    ranks: [
      rank(0, { segment: column(0, 2, 3, 1), microbatch: [column(2, 2, 7, 3), column(7, -1, -1, -1)],
                passes: passes([0, 100], [80, 40], [0, 3]),
                lanes: [lane(0, passes([0, 40, 100], [40, 40, 40], [0, 0, 3]), [0, 1, 0]),
                        lane(1, passes([80, 90], [10, 10], [1, 2]), [0, 0])] }),
      rank(1, { segment: column(5, 6, 4), microbatch: [column(2, 7, 2), column(-1, -1, 7)], passes: passes([100], [80], [2]),
                lanes: [lane(0, passes([100, 140], [40, 40], [2, 2]), [0, 1]), lane(1, passes([80, 90], [10, 10], [0, 1]), [0, 0])] }),
    ],
  };
}
