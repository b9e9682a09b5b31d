#include "schedules/muon_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "schedules/flat_buffer.h"

namespace simrun {
namespace {

constexpr int newton_schulz_iterations = 5;
// a X + b (X X') X + c (X X')^2 X (Jordan et al. 2024).
constexpr double of_x = 3.4445, of_gram = -4.7750, of_square = 2.0315;
// Of an update to have adamw's root mean square, whatever the matrix's sides (Liu et al. 2025, equation 4).
constexpr double update_scale = 0.2;

// A member of the bucket of which a shard has a part: which, where it starts, and how many of its matrices.
struct Touched {
  const ParameterMatrix* matrix = nullptr;
  std::int64_t offset = 0;  // elements
  std::int64_t count = 0;
};

// The sizes of a matrix of which tensor-parallel ranks hold parts.
struct WholeMatrix {
  std::int64_t rows = 0, columns = 0;
};
WholeMatrix whole(const DeviceMesh& mesh, const ParameterMatrix& matrix) {
  const std::int64_t parts = mesh.size(matrix.axes);
  if (matrix.splits_columns) return {matrix.rows, matrix.columns * parts};
  return {matrix.rows * parts, matrix.columns};
}

double flops_of(const DeviceMesh& mesh, const std::vector<Touched>& matrices) {
  double flops = 0;
  for (const Touched& of : matrices) {
    const WholeMatrix size = whole(mesh, *of.matrix);
    flops += static_cast<double>(of.count) * newton_schulz_flops(size.rows, size.columns);
  }
  return flops;
}

std::vector<Touched> touched_by(const ParameterBucket& bucket, std::int64_t first, std::int64_t last) {
  std::vector<Touched> touched;
  std::int64_t offset = 0;
  for (const ParameterMatrix& matrix : bucket.matrices) {
    const std::int64_t one = matrix.rows * matrix.columns;
    const std::int64_t begin = std::max<std::int64_t>(0, (first - offset) / one);
    const std::int64_t end = std::clamp<std::int64_t>((last - offset + one - 1) / one, 0, matrix.count);
    if (last > offset && begin < end) touched.push_back({&matrix, offset + begin * one, end - begin});
    offset += matrix.count * one;
  }
  return touched;
}

std::vector<Touched> busiest_shard(const DeviceMesh& mesh, const ParameterBucket& bucket) {
  const std::int64_t owned = bucket.elements / bucket.shards;
  std::vector<Touched> busiest;
  for (std::int64_t shard = 0; shard < bucket.shards; ++shard) {
    std::vector<Touched> touched = touched_by(bucket, shard * owned, (shard + 1) * owned);
    if (shard == 0 || flops_of(mesh, touched) > flops_of(mesh, busiest)) busiest = std::move(touched);
  }
  return busiest;
}

Instruction kernel(Opcode opcode, Function function, std::vector<Index> inputs, Index output,
                   const char* label) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.function = function;
  instruction.phase = Phase::optimizer;
  instruction.inputs = std::move(inputs);
  instruction.outputs = {output};
  instruction.label = label;
  return instruction;
}

Instruction release_in_step(std::vector<Index> buffers) {
  Instruction instruction;
  instruction.opcode = Opcode::free;
  instruction.phase = Phase::optimizer;
  instruction.inputs = std::move(buffers);
  return instruction;
}

class MuonUpdate {
 public:
  MuonUpdate(const UpdateContext& context, const ParameterBucket& bucket)
      : context_(context), bucket_(bucket), name_(context.plan.buffers[bucket.weights].name) {}

  std::vector<Instruction> run() {
    apply_momentum();
    for (const Touched& of : busiest_shard(context_.step.mesh, bucket_)) orthogonalise(of);
    ParameterBucket without_momentum = bucket_;
    without_momentum.exp_avg = no_index;
    without_momentum.more_state.clear();
    UpdateContext unclipped = context_;
    unclipped.norm = no_index;
    emit(update_kernel(unclipped, without_momentum, Function::muon, update_shard_));
    emit(release_in_step({update_}));
    return std::move(instructions_);
  }

 private:
  void emit(Instruction instruction) { instructions_.push_back(std::move(instruction)); }

  Instruction gather(std::uint8_t stream, std::vector<AxisId> axes, Index from, Index to, const char* label) {
    Instruction instruction = kernel(Opcode::all_gather, Function::none, {from}, to, label);
    instruction.stream = stream;
    Communication communication;
    communication.cause = std::string("muon needs whole matrices: shard over ") +
                          context_.step.mesh.words(axes) + " -> replicated";
    communication.group.axes = std::move(axes);
    instruction.communication = context_.table.add(communication);
    return instruction;
  }

  void apply_momentum() {
    const Dtype dtype = context_.step.precision;
    update_ = add_step_buffer(context_.plan, name_ + " muon update", dtype, bucket_.elements);
    update_shard_ = update_;
    Index made = update_;
    if (bucket_.shards > 1) {
      made = add_step_buffer(context_.plan, name_ + " muon update shard", dtype,
                             bucket_.elements / bucket_.shards);
      update_shard_ = add_step_buffer(context_.plan, name_ + " muon update part", dtype,
                                      bucket_.elements / bucket_.shards);
      context_.plan.buffers[update_shard_].parent = update_;
    }
    Instruction momentum = kernel(Opcode::optimizer, Function::muon,
                                  {bucket_.gradient_shard, bucket_.exp_avg}, made, "muon momentum");
    momentum.outputs.push_back(bucket_.exp_avg);
    for (const Index scales : bucket_.more_state) {
      momentum.inputs.push_back(scales);
      momentum.outputs.push_back(scales);
    }
    if (context_.norm != no_index) momentum.inputs.push_back(context_.norm);
    momentum.constants = update_constants(context_);
    emit(std::move(momentum));
    if (bucket_.shards == 1) return;
    emit(gather(context_.step.data_stream, bucket_.shard_axes, made, update_, "muon gather"));
    emit(release_in_step({made}));
  }

  // Newton-Schulz of the matrices of one parameter, from the update and back into the rank's part of it.
  void orthogonalise(const Touched& of) {
    const ParameterMatrix& matrix = *of.matrix;
    const WholeMatrix size = whole(context_.step.mesh, matrix);
    const NewtonSchulzBuffers& buffers =
        context_.workspace.of(context_.plan, of.count, std::min(size.rows, size.columns),
                              std::max(size.rows, size.columns), context_.step.precision);
    const Index part = add_step_buffer(context_.plan, name_ + " muon matrix", context_.step.precision,
                                       of.count * matrix.rows * matrix.columns);
    context_.plan.buffers[part].parent = update_;
    context_.plan.buffers[part].parent_offset = of.offset;
    Index source = part;
    if (!matrix.axes.empty()) {
      source = add_step_buffer(context_.plan, name_ + " muon whole matrix", context_.step.precision,
                               of.count * size.rows * size.columns);
      emit(gather(context_.step.tensor_stream, matrix.axes, part, source, "muon gather over tp"));
    }
    Instruction start =
        kernel(Opcode::map, Function::scale, {source}, buffers.x[0].whole, "muon normalisation");
    start.constants = {static_cast<double>(matrix.columns_first ? size.columns : size.rows)};
    emit(start);
    if (source != part) emit(release_in_step({source}));
    iterate(buffers);
    constexpr int last = newton_schulz_iterations % 2;
    Instruction keep = kernel(Opcode::map, Function::cast, {buffers.x[last].whole}, part, "muon keep part");
    keep.constants = {start.constants[0],
                      update_scale * std::sqrt(static_cast<double>(std::max(size.rows, size.columns)))};
    emit(std::move(keep));
    emit(release_in_step({buffers.x[last].whole}));
  }

  void iterate(const NewtonSchulzBuffers& buffers) {
    for (int i = 0; i < newton_schulz_iterations; ++i) {
      const NewtonSchulzBuffers::Iterate& x = buffers.x[i % 2];
      emit(kernel(Opcode::gemm, Function::none, {x.whole, x.transposed}, buffers.gram, "newton-schulz X X'"));
      Instruction square = kernel(Opcode::gemm, Function::none, {buffers.gram, buffers.gram_right},
                                  buffers.square, "newton-schulz A A");
      square.constants = {of_square, of_gram};
      emit(std::move(square));
      Instruction next = kernel(Opcode::gemm, Function::none, {buffers.square, x.right},
                                buffers.x[1 - i % 2].whole, "newton-schulz B X");
      next.constants = {1, of_x};
      emit(std::move(next));
      emit(release_in_step({x.whole, buffers.gram, buffers.square}));
    }
  }

  const UpdateContext& context_;
  const ParameterBucket& bucket_;
  std::string name_;
  Index update_ = no_index, update_shard_ = no_index;
  std::vector<Instruction> instructions_;
};

}  // namespace

double newton_schulz_flops(std::int64_t rows, std::int64_t columns) {
  const auto m = static_cast<double>(std::min(rows, columns));
  const auto n = static_cast<double>(std::max(rows, columns));
  return newton_schulz_iterations * (4 * m * m * n + 2 * m * m * m);
}

std::vector<Instruction> muon_update(const UpdateContext& context, const ParameterBucket& bucket) {
  return MuonUpdate(context, bucket).run();
}

}  // namespace simrun
