// The writing side of visualizer/columns.h, in BigInt so that 2^52 is exact. A column is a list of values, or `planes` of one.
export const planes = (values) => ({ planes: values });

const zigzag = (value) => (value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value));

export function written(...columns) {
  const bytes = [];
  const put = (value) => {
    for (; value >= 128n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
    bytes.push(Number(value));
  };
  const putPlanes = (values) => {
    const numbers = values.map(zigzag);
    let count = 0;
    for (let most = numbers.reduce((a, b) => (a > b ? a : b), 0n); most > 0n; most >>= 8n) count++;
    put(BigInt(values.length));
    put(BigInt(count));
    for (let plane = 0; plane < count; plane++) for (const number of numbers) bytes.push(Number((number >> BigInt(8 * plane)) & 255n));
  };
  for (const column of columns) {
    if (column.planes) {
      putPlanes(column.planes);
      continue;
    }
    put(BigInt(column.length));
    for (const value of column) put(zigzag(value));
  }
  return Uint8Array.from(bytes);
}

export const differences = (values) => values.map((value, i) => (i === 0 ? value : value - values[i - 1]));

// Lanes by the order of issue: of the next boxes the one with the least (entry, instruction), the first of equals.
function issueOrder(lanes) {
  const boxes = lanes.flatMap(({ entry, instruction }, lane) => entry.map((of, i) => ({ lane, i, entry: of, instruction: instruction[i] })));
  return boxes.sort((a, b) => a.entry - b.entry || a.instruction - b.instruction || a.lane - b.lane || a.i - b.i);
}

// The columns of one rank as visualizer/rank_columns.h orders them. Lanes and passes have plain times: {stream, start, duration, wait,
// entry, instruction} and {start, duration, entry}; lanes are sorted by (entry, instruction). memory: {time, live by category}.
export function rankColumns({ segment, microbatch, lanes, passes, memory }) {
  const usual = new Map();
  const ends = lanes.map(() => 0);
  const times = lanes.map(() => ({ after: [], arrival: [], wait: [], duration: [] }));
  const stretch = new Map(); // of the compute lane, by entry
  for (const { lane: l, i } of issueOrder(lanes)) {
    const { stream, start, duration, wait, entry, instruction } = lanes[l];
    const arrival = start[i] - wait[i];
    let nearest = l;
    ends.forEach((end, other) => (nearest = Math.abs(arrival - end) < Math.abs(arrival - ends[nearest]) ? other : nearest));
    const place = `${segment[entry[i]]}/${instruction[i]}`;
    times[l].after.push(nearest === l ? 0 : nearest + 1);
    times[l].arrival.push(arrival - ends[nearest]);
    times[l].wait.push(wait[i]);
    times[l].duration.push(usual.has(place) ? duration[i] - usual.get(place) : duration[i]);
    if (!usual.has(place)) usual.set(place, duration[i]);
    ends[l] = start[i] + duration[i];
    if (stream !== 0) continue;
    const of = stretch.get(entry[i]) ?? { from: Infinity, to: 0 };
    stretch.set(entry[i], { from: Math.min(of.from, start[i]), to: Math.max(of.to, ends[l]) });
  }
  const guess = passes.entry.map((entry, i) => {
    const end = i === 0 ? 0 : passes.start[i - 1] + passes.duration[i - 1];
    return stretch.get(entry) ?? { from: end, to: end };
  });
  return [segment, ...microbatch, lanes.map(({ stream }) => stream),
          ...lanes.flatMap(({ entry, instruction }) => [differences(entry), differences(instruction)]),
          ...times.flatMap(({ after, arrival, wait, duration }) => [after, planes(arrival), planes(wait), planes(duration)]),
          differences(passes.entry), planes(passes.start.map((start, i) => start - guess[i].from)),
          planes(passes.duration.map((duration, i) => duration - (guess[i].to - guess[i].from))),
          planes(differences(memory.time)), ...memory.live.map(differences)];
}
