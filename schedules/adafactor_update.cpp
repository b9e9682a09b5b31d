#include "schedules/adafactor_update.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace simrun {
namespace {

std::int64_t share(std::int64_t elements, std::int64_t shards) { return (elements + shards - 1) / shards; }

// Numbers of the update, and behind them of every parameter: matrices, rows, columns, and 1 where [columns,
// rows] lie in memory; of vectors 0, the elements of each, their number and 0.
std::vector<double> adafactor_constants(const UpdateContext& context, const ParameterBucket& bucket) {
  std::vector<double> constants = update_constants(context);
  for (const ParameterMatrix& of : bucket.matrices) {
    const std::int64_t rows = of.count == 0 ? of.elements / of.vectors : of.rows;
    const std::int64_t columns = of.count == 0 ? of.vectors : of.columns;
    for (const std::int64_t number : {of.count, rows, columns, std::int64_t{of.columns_first ? 1 : 0}})
      constants.push_back(static_cast<double>(number));
  }
  return constants;
}

Instruction sums(const UpdateContext& context, const ParameterBucket& bucket, std::vector<Index> results,
                 const char* label) {
  Instruction instruction;
  instruction.opcode = Opcode::reduce;
  instruction.function = Function::sum_squares;
  instruction.phase = Phase::optimizer;
  instruction.inputs = {bucket.gradient_shard};
  instruction.outputs = std::move(results);
  instruction.label = label;
  instruction.constants = adafactor_constants(context, bucket);
  // A number that is known on the host: no operand.
  if (context.norm != no_index) instruction.waits_for = {context.norm};
  return instruction;
}

// An update is clipped by the root mean square of its matrix or vector: of one expert's, wherever the others
// are.
std::int64_t clipped(const ParameterMatrix& matrix) {
  return matrix.count == 0 ? matrix.vectors : matrix.count;
}

// All-reduces that are made of a list of buffers, by the axes over which each is partial.
class Sums {
 public:
  Sums(const UpdateContext& context, const ParameterBucket& bucket) : context_(context), bucket_(bucket) {}

  void add(const std::string& name, std::vector<AxisId> axes, std::int64_t elements) {
    if (elements > 0 && !axes.empty()) elements_[std::pair{name, std::move(axes)}] += elements;
  }

  // The kernel that writes the sums (with `also`), the all-reduces, and their FREE.
  std::vector<Instruction> instructions(const char* label, const std::vector<Index>& also) {
    std::vector<Index> results = also;
    std::vector<Instruction> reductions;
    Instruction release;
    release.opcode = Opcode::free;
    release.phase = Phase::optimizer;
    for (const auto& [what, elements] : elements_) {
      const auto& [name, axes] = what;
      const Index sum = add_step_buffer(context_.plan, name, Dtype::fp32, elements);
      results.push_back(sum);
      release.inputs.push_back(sum);
      Instruction reduction;
      reduction.opcode = Opcode::all_reduce;
      reduction.phase = Phase::reduction;
      reduction.stream = context_.step.data_stream;
      Communication communication;
      communication.group.axes = axes;
      communication.cause = name + ": partial sum over " + context_.step.mesh.words(axes);
      reduction.communication = context_.table.add(communication);
      reduction.inputs = reduction.outputs = {sum};
      reduction.label = name;
      reductions.push_back(std::move(reduction));
    }
    reductions.insert(reductions.begin(), sums(context_, bucket_, std::move(results), label));
    made = release.inputs;
    if (!release.inputs.empty()) freed = {std::move(release)};
    return reductions;
  }

  std::vector<Index> made;         // the sums
  std::vector<Instruction> freed;  // behind their last reader

 private:
  const UpdateContext& context_;
  const ParameterBucket& bucket_;
  std::map<std::pair<std::string, std::vector<AxisId>>, std::int64_t> elements_;
};

}  // namespace

FactoredElements factored_elements(const ParameterBucket& bucket) {
  FactoredElements elements;
  std::int64_t of_matrices = 0;
  for (const ParameterMatrix& matrix : bucket.matrices) {
    if (matrix.count == 0) continue;
    elements.rows += share(matrix.count * matrix.rows, bucket.shards);
    elements.columns += matrix.count * matrix.columns;
    of_matrices += matrix.count * matrix.rows * matrix.columns;
  }
  elements.rows += share(bucket.unpadded - of_matrices, bucket.shards);
  return elements;
}

std::vector<Instruction> adafactor_update(const UpdateContext& context, const ParameterBucket& bucket) {
  const std::vector<AxisId> shard_axes = bucket.shards > 1 ? bucket.shard_axes : std::vector<AxisId>{};
  Sums factors(context, bucket), squares(context, bucket);
  for (const ParameterMatrix& matrix : bucket.matrices) {
    std::vector<AxisId> both = shard_axes;
    const std::vector<AxisId> own = matrix.axes();
    both.insert(both.end(), own.begin(), own.end());
    squares.add("adafactor update norms", both, clipped(matrix));
    if (matrix.count == 0) continue;
    // Sums over rows, one per column, are partial where rows are cut; sums over columns likewise.
    factors.add("adafactor column sums", !matrix.column_axes.empty() ? shard_axes : both,
                matrix.count * matrix.columns);
    if (!matrix.column_axes.empty())
      factors.add("adafactor row sums", own, share(matrix.count * matrix.rows, bucket.shards));
  }
  std::vector<Instruction> instructions = factors.instructions("adafactor factors", bucket.more_state);
  std::vector<Instruction> norms = squares.instructions("adafactor update norms", {});
  // Without anything to sum over ranks the norms, one number each, stay on the rank.
  if (norms.front().outputs.empty()) {
    std::int64_t elements = 0;
    for (const ParameterMatrix& matrix : bucket.matrices) elements += clipped(matrix);
    const Index local = add_step_buffer(context.plan, "adafactor update norms", Dtype::fp32, elements);
    norms.front().outputs = squares.made = {local};
    Instruction release;
    release.opcode = Opcode::free;
    release.phase = Phase::optimizer;
    release.inputs = {local};
    squares.freed = {release};
  }
  std::vector<Index>& reads = norms.front().inputs;
  reads.insert(reads.end(), bucket.more_state.begin(), bucket.more_state.end());
  reads.insert(reads.end(), factors.made.begin(), factors.made.end());
  instructions.insert(instructions.end(), norms.begin(), norms.end());
  Instruction update = update_kernel(context, bucket, Function::adafactor, bucket.gradient_shard);
  update.constants = adafactor_constants(context, bucket);
  if (context.norm != no_index) update.waits_for = {context.norm};
  update.inputs.insert(update.inputs.end(), squares.made.begin(), squares.made.end());
  instructions.push_back(std::move(update));
  for (const Sums* of : {&factors, &squares})
    instructions.insert(instructions.end(), of->freed.begin(), of->freed.end());
  return instructions;
}

}  // namespace simrun
