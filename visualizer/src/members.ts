import type { Members, Rank } from "./model";

// The GPUs that a lane stands for, by their place in the pipeline rank's list of devices. All that is known of one follows from that
// place, so a lane of its own costs the page no data.

export function memberCount(members: Members): number {
  return members.devices.reduce((sum, [, count]) => sum + count, 0);
}

// Can the rank be unfolded? Not where it stands for some of its pipeline rank's GPUs: which ones, nobody recorded.
export function unfolds({ members }: Rank): boolean {
  return members !== undefined && memberCount(members) > 1;
}

// "gpu 64 is drawn; it stands for 1 of 64 GPUs, ..." of a rank that does not unfold although its pipeline rank has more GPUs.
export function whyFolded({ device, multiplicity, gpus, measured }: Rank): string {
  if (measured || gpus <= 1) return `gpu ${device} is drawn`;
  return `gpu ${device} is drawn; it stands for ${multiplicity} of ${gpus} GPUs, whose times differ: which others it stands for is not recorded`;
}

// Number of a GPU in the cluster.
export function deviceOf(members: Members, member: number): number {
  let before = member;
  for (const [first, count] of members.devices) {
    if (before < count) return first + before;
    before -= count;
  }
  return -1;
}

// By axis of a mesh, of which the first varies fastest.
function coordinates(axes: [string, number][], member: number): number[] {
  let rest = member;
  return axes.map(([, size]) => {
    const at = rest % size;
    rest = Math.floor(rest / size);
    return at;
  });
}

// "tp 3, dp 1": where it stands on the axes of the first mesh that divide anything.
export function placeText(members: Members, member: number): string {
  const axes = members.meshes[0] ?? [];
  const at = coordinates(axes, member);
  return axes.map(([name, size], i) => (size > 1 ? `${name} ${at[i]}` : "")).filter((text) => text !== "").join(", ");
}

// "gpu 17 (node 2, gpu 1), tp 1, dp 0".
export function memberText(rank: Rank, member: number, gpusPerNode: number): string {
  const device = deviceOf(rank.members!, member);
  const node = gpusPerNode > 0 ? ` (node ${Math.floor(device / gpusPerNode)}, gpu ${device % gpusPerNode})` : "";
  const place = placeText(rank.members!, member);
  return `gpu ${device}${node}${place === "" ? "" : `, ${place}`}`;
}

// A group as the page's data spell it: "0:1,2" is of the first mesh, over its axes 1 and 2.
interface Group {
  mesh: number;
  axes: number[];
}
function groupFrom(text: string): Group | undefined {
  const [mesh, axes] = text.split(":");
  return axes === undefined ? undefined : { mesh: Number(mesh), axes: axes === "" ? [] : axes.split(",").map(Number) };
}

// Who is in a member's group: those who differ from it in the group's axes only, in their order; itself where there is no group.
export function groupOf(members: Members, text: string, member: number): number[] {
  const group = groupFrom(text);
  const axes = group ? members.meshes[group.mesh] ?? [] : [];
  let stride = 1;
  let found = [member];
  axes.forEach(([, size], axis) => {
    const step = stride;
    stride *= size;
    if (!group!.axes.includes(axis)) return;
    found = found.flatMap((at) => {
      const first = at - (Math.floor(at / step) % size) * step;
      return Array.from({ length: size }, (_, i) => first + i * step);
    });
  });
  return [...new Set(found)].sort((a, b) => a - b);
}

// "tp" or "cp x dp": the axes that a group goes over; "" of one that divides nothing.
export function groupAxes(members: Members, text: string): string {
  const group = groupFrom(text);
  const axes = group ? members.meshes[group.mesh] ?? [] : [];
  return axes.filter(([, size], axis) => size > 1 && group!.axes.includes(axis)).map(([name]) => name).join(" \u00d7 ");
}

// "0-7, 16": neighbours as stretches.
export function stretches(numbers: number[]): string {
  const texts: string[] = [];
  for (let i = 0; i < numbers.length;) {
    let last = i;
    while (last + 1 < numbers.length && numbers[last + 1] === numbers[last]! + 1) last++;
    texts.push(last === i ? `${numbers[i]}` : `${numbers[i]}-${numbers[last]}`);
    i = last + 1;
  }
  return texts.join(", ");
}
