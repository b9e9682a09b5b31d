#include "schedules/gradient_compression.h"

#include <utility>

namespace simrun {
namespace {

Instruction cast(Index from, Index to, const char* label) {
  Instruction instruction;
  instruction.opcode = Opcode::map;
  instruction.function = Function::cast;
  instruction.phase = Phase::reduction;
  instruction.inputs = {from};
  instruction.outputs = {to};
  instruction.label = label;
  return instruction;
}

Instruction release(Index buffer) {
  Instruction instruction;
  instruction.opcode = Opcode::free;
  instruction.phase = Phase::reduction;
  instruction.inputs = {buffer};
  return instruction;
}

constexpr const char* compression = "gradient compression";
constexpr const char* decompression = "gradient decompression";

}  // namespace

std::vector<Instruction> compressed(const Instruction& reduction, const ParameterBucket& bucket) {
  Instruction narrow = reduction;
  narrow.inputs = {bucket.compressed};
  narrow.outputs = {bucket.compressed_shard};
  Instruction back = cast(bucket.compressed_shard, reduction.outputs.front(), decompression);
  back.stream = reduction.stream;
  return {cast(bucket.gradients, bucket.compressed, compression), std::move(narrow), std::move(back),
          release(bucket.compressed)};
}

std::vector<Instruction> compressed_of_pass(Instruction reduction, const ParameterBucket& bucket,
                                            bool first) {
  reduction.inputs = {bucket.compressed};
  reduction.outputs = {bucket.reduced};
  Instruction sum = cast(bucket.reduced, bucket.gradient_shard, decompression);
  if (!first) {
    sum.function = Function::sum_gradients;
    sum.accumulate = true;
    sum.label = "gradient accumulation";
  }
  return {cast(bucket.gradients, bucket.compressed, compression),
          release(bucket.gradients),
          std::move(reduction),
          release(bucket.compressed),
          std::move(sum),
          release(bucket.reduced)};
}

}  // namespace simrun
