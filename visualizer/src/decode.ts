import { ColumnReader } from "./columns";
import type { Facts, Link, Model } from "./model";
import { decodeRank } from "./rank_columns";

export function bytesFromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The order of columns is that of visualizer/payload.h.
export function decode(facts: Facts, columns: Uint8Array): Model {
  if (facts.version !== 6) throw new Error(`this page reads data of version 6, not ${facts.version}`);
  const reader = new ColumnReader(columns);
  const [kind, name, chunk, stage, secondChunk] = [0, 1, 2, 3, 4].map(() => reader.column()) as Five;
  const [secondStage, count] = [reader.column(), reader.column()];
  const first = new Uint32Array(count.length);
  for (let i = 1; i < first.length; i++) first[i] = first[i - 1]! + count[i - 1]!;
  const [what, label, cause, phase, layer] = [0, 1, 2, 3, 4].map(() => reader.column()) as Five;
  const instructions = {
    what, label, cause, phase, layer,
    stream: reader.column(), bytes: reader.column(), flops: reader.column(), channel: reader.column(),
    binding: reader.column(), group: reader.column(),
  };
  const segments = { kind, name, chunk: [chunk, secondChunk], stage: [stage, secondStage], first };
  const ranks = facts.ranks.map((_, i) => decodeRank(reader, { facts, segments, instructions }, i));
  const links = facts.links.map((link): Link => ({ ...link, use: reader.differences().map((parts) => parts / facts.useSteps) }));
  const path = { rank: reader.differences(), lane: reader.differences(), index: reader.differences() };
  if (!reader.exhausted) throw new Error("the data of this page is longer than it should be");
  return { facts, segments, instructions, ranks, links, path };
}

type Five = [Float64Array, Float64Array, Float64Array, Float64Array, Float64Array];
