#include "schedules/adafactor_update.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "schedules/adafactor_parameters.h"
#include "schedules/release.h"

namespace simrun {
namespace {

std::int64_t share(std::int64_t elements, std::int64_t shards) { return (elements + shards - 1) / shards; }

std::vector<AxisId> joined(std::vector<AxisId> axes, const std::vector<AxisId>& more) {
  axes.insert(axes.end(), more.begin(), more.end());
  return axes;
}

// Numbers that a kernel writes of every parameter, in one buffer for all that are partial over the same axes,
// and the all-reduces behind it.
class Sums {
 public:
  explicit Sums(const UpdateContext& context) : context_(context) {}

  void add(const std::string& name, std::vector<AxisId> axes, std::int64_t elements) {
    elements_[std::pair{name, std::move(axes)}] += elements;
  }

  // The buffer's among `made`; -1: there is none.
  std::int64_t number(const std::string& name, const std::vector<AxisId>& axes) const {
    const auto found = elements_.find(std::pair{name, axes});
    return found == elements_.end() ? -1 : std::distance(elements_.begin(), found);
  }

  void make() {
    for (const auto& [what, elements] : elements_)
      made.push_back(add_step_buffer(context_.plan, what.first, Dtype::fp32, elements));
  }

  std::vector<Instruction> reductions() const {
    std::vector<Instruction> reductions;
    auto sum = made.begin();
    for (const auto& [what, elements] : elements_) {
      const auto& [name, axes] = what;
      Instruction reduction;
      reduction.inputs = reduction.outputs = {*sum++};
      if (axes.empty()) continue;  // the rank has all of it
      reduction.opcode = Opcode::all_reduce;
      reduction.phase = Phase::reduction;
      reduction.stream = context_.step.data_stream;
      Communication communication;
      communication.group.axes = axes;
      communication.cause = name + ": partial sum over " + context_.step.mesh.words(axes);
      reduction.communication = context_.table.add(communication);
      reduction.label = name;
      reductions.push_back(std::move(reduction));
    }
    return reductions;
  }

  std::vector<Index> made;

 private:
  const UpdateContext& context_;
  std::map<std::pair<std::string, std::vector<AxisId>>, std::int64_t> elements_;
};

constexpr const char* row_sums = "adafactor row sums";
constexpr const char* column_sums = "adafactor column sums";
constexpr const char* update_norms = "adafactor update norms";

class AdafactorUpdate {
 public:
  AdafactorUpdate(const UpdateContext& context, const ParameterBucket& bucket)
      : context_(context), bucket_(bucket), factors_(context), norms_(context) {
    if (bucket.shards > 1) shard_axes_ = bucket.shard_axes;
  }

  std::vector<Instruction> run() {
    for (const ParameterMatrix& matrix : bucket_.matrices) add(matrix);
    factors_.make();
    norms_.make();
    constants_ = update_constants(context_);
    std::vector<FactoredParameter> parameters;
    for (const ParameterMatrix& matrix : bucket_.matrices) parameters.push_back(factored(matrix));
    append_parameters(constants_, parameters);

    std::vector<Instruction> instructions;
    const auto append = [&](std::vector<Instruction> more) {
      std::ranges::move(more, std::back_inserter(instructions));
    };
    append({reduce("adafactor factors", {}, {&bucket_.more_state, &factors_.made})});
    append(factors_.reductions());
    append({reduce("adafactor update norms", {&bucket_.more_state, &factors_.made}, {&norms_.made})});
    append(norms_.reductions());
    append({update()});
    if (!factors_.made.empty()) append({release_of(factors_.made, Phase::optimizer)});
    append({release_of(norms_.made, Phase::optimizer)});
    return instructions;
  }

 private:
  using Lists = std::vector<const std::vector<Index>*>;

  // Sums over rows, one per column, are partial where rows are cut; sums over columns likewise. Shards of a
  // flat bucket cut wherever they end: of a matrix they leave parts of rows.
  std::vector<AxisId> row_axes(const ParameterMatrix& of) const {
    return joined(shard_axes_, of.column_axes);
  }
  std::vector<AxisId> column_axes(const ParameterMatrix& of) const {
    return joined(shard_axes_, of.row_axes);
  }
  std::vector<AxisId> norm_axes(const ParameterMatrix& of) const { return joined(shard_axes_, of.axes()); }

  void add(const ParameterMatrix& of) {
    // An update is clipped by the root mean square of its matrix or vector: of one expert's, wherever the
    // others are.
    norms_.add(update_norms, norm_axes(of), of.count == 0 ? of.vectors : of.count);
    if (!row_axes(of).empty())
      factors_.add(row_sums, row_axes(of), of.count == 0 ? of.elements : of.count * of.rows);
    if (of.count > 0 && !column_axes(of).empty())
      factors_.add(column_sums, column_axes(of), of.count * of.columns);
  }

  FactoredParameter factored(const ParameterMatrix& of) const {
    const DeviceMesh& mesh = context_.step.mesh;
    FactoredParameter result;
    const bool is_vector = of.count == 0;
    result.matrices = of.count;
    result.rows = is_vector ? of.elements / of.vectors : of.rows;
    result.columns = is_vector ? of.vectors : of.columns;
    result.columns_first = of.columns_first;
    result.whole_rows = of.whole_rows;
    result.whole_columns = of.whole_columns;
    result.divides_rows = mesh.size(of.row_axes) > 1;
    result.norms = norms_.number(update_norms, norm_axes(of));
    result.row_sums = factors_.number(row_sums, row_axes(of));
    if (!is_vector) result.column_sums = factors_.number(column_sums, column_axes(of));
    result.row_copies = mesh.size(of.column_axes);  // each shard keeps rows of its own
    result.column_copies = mesh.size(column_axes(of));
    return result;
  }

  Instruction reduce(const char* label, const Lists& reads, const Lists& writes) const {
    Instruction instruction;
    instruction.opcode = Opcode::reduce;
    instruction.function = Function::sum_squares;
    instruction.phase = Phase::optimizer;
    instruction.inputs = {bucket_.gradient_shard};
    for (const std::vector<Index>* list : reads)
      instruction.inputs.insert(instruction.inputs.end(), list->begin(), list->end());
    for (const std::vector<Index>* list : writes)
      instruction.outputs.insert(instruction.outputs.end(), list->begin(), list->end());
    instruction.label = label;
    instruction.constants = constants_;
    // A number that is known on the host: no operand.
    if (context_.norm != no_index) instruction.waits_for = {context_.norm};
    return instruction;
  }

  Instruction update() const {
    Instruction update = update_kernel(context_, bucket_, Function::adafactor, bucket_.gradient_shard);
    update.constants = constants_;
    if (context_.norm != no_index) update.waits_for = {context_.norm};
    for (const std::vector<Index>* list : {&factors_.made, &norms_.made})
      update.inputs.insert(update.inputs.end(), list->begin(), list->end());
    return update;
  }

  const UpdateContext& context_;
  const ParameterBucket& bucket_;
  std::vector<AxisId> shard_axes_;
  Sums factors_, norms_;
  std::vector<double> constants_;
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
  return AdafactorUpdate(context, bucket).run();
}

}  // namespace simrun
