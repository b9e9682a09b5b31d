#include "schedules/muon_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "schedules/extent_tables.h"
#include "schedules/release.h"

namespace simrun {
namespace {

constexpr int newton_schulz_iterations = 5;
// a X + b (X X') X + c (X X')^2 X (Jordan et al. 2024).
constexpr double of_x = 3.4445, of_gram = -4.7750, of_square = 2.0315;
// Of an update to have adamw's root mean square, whatever the matrix's sides (Liu et al. 2025, equation 4).
constexpr double update_scale = 0.2;

// Matrices of one parameter of the bucket, one behind the other: where they start, and how many.
struct Batch {
  std::size_t member = 0;   // of ParameterBucket::matrices
  std::int64_t first = 0;   // of the parameter's matrices
  std::int64_t offset = 0;  // elements of the bucket
  std::int64_t count = 0;
  bool of_fullest_shard = true;
};

// The sizes of a matrix of which tensor-parallel ranks hold parts.
struct WholeMatrix {
  std::int64_t rows = 0, columns = 0;
};
WholeMatrix whole(const DeviceMesh& mesh, const ParameterMatrix& matrix) {
  return {matrix.rows * mesh.size(matrix.row_axes), matrix.columns * mesh.size(matrix.column_axes)};
}

double flops_of(const DeviceMesh& mesh, const ParameterBucket& bucket, const std::vector<Batch>& batches) {
  double flops = 0;
  for (const Batch& of : batches) {
    const WholeMatrix size = whole(mesh, bucket.matrices[of.member]);
    flops += static_cast<double>(of.count) * newton_schulz_flops(size.rows, size.columns);
  }
  return flops;
}

std::vector<Batch> touched_by(const ParameterBucket& bucket, std::int64_t first, std::int64_t last) {
  std::vector<Batch> touched;
  std::int64_t offset = 0;
  for (std::size_t member = 0; member < bucket.matrices.size(); ++member) {
    const ParameterMatrix& matrix = bucket.matrices[member];
    const std::int64_t one = matrix.rows * matrix.columns;
    const std::int64_t begin = std::max<std::int64_t>(0, (first - offset) / one);
    const std::int64_t end = std::clamp<std::int64_t>((last - offset + one - 1) / one, 0, matrix.count);
    if (last > offset && begin < end) touched.push_back({member, begin, offset + begin * one, end - begin});
    offset += matrix.count * one;
  }
  return touched;
}

// Matrices [first, first + count) of a parameter, at most so many together.
void add_others(const ParameterBucket& bucket, Batch of, std::int64_t most, std::vector<Batch>& batches) {
  const ParameterMatrix& matrix = bucket.matrices[of.member];
  of.of_fullest_shard = false;
  for (std::int64_t left = of.count; left > 0; left -= of.count) {
    of.count = std::min(left, most);
    batches.push_back(of);
    of.first += of.count;
    of.offset += of.count * matrix.rows * matrix.columns;
  }
}

// All matrices of a bucket: those of which the shard with most to do has a part, and around them the others,
// of no parameter more together than one shard takes.
std::vector<Batch> batches_of(const DeviceMesh& mesh, const ParameterBucket& bucket) {
  const std::int64_t owned = bucket.elements / bucket.shards;
  std::vector<Batch> fullest;
  std::vector<std::int64_t> most(bucket.matrices.size(), 1);
  for (std::int64_t shard = 0; shard < bucket.shards; ++shard) {
    std::vector<Batch> touched = touched_by(bucket, shard * owned, (shard + 1) * owned);
    for (const Batch& of : touched) most[of.member] = std::max(most[of.member], of.count);
    if (shard == 0 || flops_of(mesh, bucket, touched) > flops_of(mesh, bucket, fullest))
      fullest = std::move(touched);
  }
  std::vector<Batch> batches;
  for (const Batch& all : touched_by(bucket, 0, bucket.unpadded)) {
    const auto own = std::ranges::find(fullest, all.member, &Batch::member);
    if (own == fullest.end()) {
      add_others(bucket, all, most[all.member], batches);
      continue;
    }
    add_others(bucket, {all.member, 0, all.offset, own->first}, most[all.member], batches);
    batches.push_back(*own);
    Batch behind = {all.member, own->first + own->count, 0, all.count - own->first - own->count};
    const ParameterMatrix& matrix = bucket.matrices[all.member];
    behind.offset = all.offset + behind.first * matrix.rows * matrix.columns;
    add_others(bucket, behind, most[all.member], batches);
  }
  return batches;
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

class MuonUpdate {
 public:
  MuonUpdate(const UpdateContext& context, const ParameterBucket& bucket)
      : context_(context), bucket_(bucket), name_(context.plan.buffers[bucket.weights].name) {}

  std::vector<Instruction> run() {
    apply_momentum();
    for (const Batch& of : batches_of(context_.step.mesh, bucket_)) {
      const std::size_t first = instructions_.size();
      orthogonalise(of);
      if (of.of_fullest_shard) continue;
      for (auto at = instructions_.begin() + static_cast<std::ptrdiff_t>(first); at != instructions_.end();
           ++at)
        if (at->opcode != Opcode::free)
          at->work_table = table_of_work(context_.plan, 0, "matrices of less busy shards");
    }
    ParameterBucket without_momentum = bucket_;
    without_momentum.exp_avg = no_index;
    without_momentum.more_state.clear();
    UpdateContext unclipped = context_;
    unclipped.norm = no_index;
    emit(update_kernel(unclipped, without_momentum, Function::muon, update_shard_));
    emit(release_of({update_}, Phase::optimizer));
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
      for (const Index shard : {made, update_shard_})
        context_.plan.buffers[shard].split = context_.plan.buffers[bucket_.gradient_shard].split;
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
    emit(release_of({made}, Phase::optimizer));
  }

  // Of the rank's parts of matrices, or of whole ones.
  Index add_matrices(const char* what, const Batch& of, WholeMatrix size, bool is_part) {
    const ParameterMatrix& matrix = bucket_.matrices[of.member];
    StoredMatrices stored{of.count, size.rows, size.columns, "", ""};
    if (is_part) {
      stored.leading_split = context_.step.mesh.names(matrix.row_axes);
      stored.trailing_split = context_.step.mesh.names(matrix.column_axes);
    }
    if (matrix.columns_first) {
      std::swap(stored.leading, stored.trailing);
      std::swap(stored.leading_split, stored.trailing_split);
    }
    return add_step_buffer(context_.plan, name_ + what, context_.step.precision, stored);
  }

  // Newton-Schulz of the matrices of one parameter, from the update and back into the rank's part of it.
  void orthogonalise(const Batch& of) {
    const ParameterMatrix& matrix = bucket_.matrices[of.member];
    const WholeMatrix size = whole(context_.step.mesh, matrix);
    const NewtonSchulzBuffers& buffers =
        context_.workspace.of(context_.plan, of.count, std::min(size.rows, size.columns),
                              std::max(size.rows, size.columns), context_.step.precision);
    const Index part = add_matrices(" muon matrix", of, {matrix.rows, matrix.columns}, true);
    context_.plan.buffers[part].parent = update_;
    context_.plan.buffers[part].parent_offset = of.offset;
    Index source = part;
    if (!matrix.axes().empty()) {
      source = add_matrices(" muon whole matrix", of, size, false);
      emit(gather(context_.step.tensor_stream, matrix.axes(), part, source, "muon gather over tp"));
    }
    Instruction start =
        kernel(Opcode::map, Function::scale, {source}, buffers.x[0].whole, "muon normalisation");
    start.constants = {static_cast<double>(matrix.columns_first ? size.columns : size.rows)};
    emit(start);
    if (source != part) emit(release_of({source}, Phase::optimizer));
    iterate(buffers);
    constexpr int last = newton_schulz_iterations % 2;
    Instruction keep = kernel(Opcode::map, Function::cast, {buffers.x[last].whole}, part, "muon keep part");
    keep.constants = {start.constants[0],
                      update_scale * std::sqrt(static_cast<double>(std::max(size.rows, size.columns)))};
    emit(std::move(keep));
    emit(release_of({buffers.x[last].whole}, Phase::optimizer));
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
      emit(release_of({x.whole, buffers.gram, buffers.square}, Phase::optimizer));
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
