// Random small graphs under random layouts: what the lowered code moves, judged by index sets.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "models/flops.h"
#include "models/graph_builder.h"
#include "schedules/chunk_code.h"
#include "schedules/context_parallel.h"
#include "tests/schedules/index_sets.h"

namespace simrun {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t n) { return random() % n; }

// A chain of products, norms, activations and residual additions over [batch 12, sequence 12, width].
struct OperatorChain {
  Graph graph;
  TensorId first = 0, last = 0;
};

OperatorChain random_chain(Random& random) {
  GraphBuilder builder(Dtype::bf16);
  const DimensionId batch = builder.dimension("batch", 12), sequence = builder.dimension("sequence", 12);
  std::vector<DimensionId> widths;
  for (const char* name : {"hidden", "ffn", "vocab"})
    widths.push_back(builder.dimension(name, below(random, 2) == 0 ? 12 : 24));
  const DimensionId statistics = builder.dimension("statistics", 1);
  builder.enter_layer(0);
  const auto rows = [&](std::size_t w) { return std::vector<DimensionId>{batch, sequence, widths[w]}; };
  std::size_t w = 0;
  const TensorId first = builder.activation("x", rows(w));
  std::map<std::size_t, std::vector<TensorId>> made{{w, {first}}};
  TensorId x = first;
  const std::size_t length = 2 + below(random, 5);
  for (std::size_t o = 0; o < length; ++o) {
    const std::string name = fmt::format("op{}", o);
    const std::size_t kind = below(random, 5);
    TensorId y = 0;
    if (kind < 2) {
      const std::size_t to = below(random, widths.size());
      if (to == w) continue;  // a product over the dimension that it also has
      y = builder.activation(name, rows(to));
      builder.add(name, Opcode::gemm, Function::none,
                  {x, builder.parameter(name + "_weight", {widths[w], widths[to]})}, {y});
      w = to;
    } else if (kind == 2) {
      y = builder.activation(name, rows(w));
      const TensorId row = builder.tensor(name + "_statistics", {batch, sequence, statistics}, Dtype::fp32,
                                          TensorKind::activation);
      builder
          .add(name, Opcode::norm, Function::rms_norm, {x, builder.parameter(name + "_weight", {widths[w]})},
               {y, row})
          .whole_dims = {widths[w]};
    } else if (kind == 3) {
      y = builder.activation(name, rows(w));
      builder.add(name, Opcode::map, Function::gelu, {x}, {y});
    } else {
      const std::vector<TensorId>& others = made[w];
      y = builder.activation(name, rows(w));
      builder.add(name, Opcode::map, Function::add, {x, others[below(random, others.size())]}, {y});
    }
    made[w].push_back(y);
    x = y;
  }
  return {builder.take(), first, x};
}

// Each axis splits one of the dimensions or none.
Layout random_layout(Random& random, const std::vector<DimensionId>& dims, const DeviceMesh& mesh) {
  std::map<DimensionId, std::vector<AxisId>> axes_of;
  std::vector<AxisId> order;
  for (std::size_t a = 0; a < mesh.mesh.axes.size(); ++a) order.push_back(static_cast<AxisId>(a));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(random, i)]);
  for (const AxisId axis : order) {
    const std::size_t place = below(random, dims.size() + 1);
    if (place < dims.size()) axes_of[dims[place]].push_back(axis);
  }
  Layout layout;
  for (const auto& [dim, axes] : axes_of) layout.splits.push_back({dim, axes});
  return layout;
}

std::vector<DimensionId> splittable(const Graph& graph, const Operator& op) {
  std::vector<DimensionId> dims;
  for (const DimensionId dim : iteration_space(graph, op))
    if (graph.dimensions[dim].size > 1 &&
        std::find(op.whole_dims.begin(), op.whole_dims.end(), dim) == op.whole_dims.end())
      dims.push_back(dim);
  return dims;
}

// One random graph, laid out and lowered as a stage that receives its first tensor and sends its last.
struct Lowered {
  explicit Lowered(unsigned seed) : random(seed), chain(random_chain(random)) {
    const std::vector<DimensionId> first = chain.graph.tensors[chain.first].dims;
    const std::vector<DimensionId> last = chain.graph.tensors[chain.last].dims;
    for (std::size_t o = 0; o < chain.graph.operators.size(); ++o) {
      layouts.push_back(random_layout(random, splittable(chain.graph, chain.graph.operators[o]), mesh));
      regions.region_of.push_back(-1);
      operators.push_back(o);
    }
    ContextParallelism whole_sequences;
    const ChunkContext context{chain.graph,
                               layouts,
                               regions,
                               mesh,
                               streams,
                               1,
                               whole_sequences,
                               Dtype::bf16,
                               operators,
                               {{chain.first, random_layout(random, first, mesh)}},
                               {{chain.last, random_layout(random, last, mesh)}}};
    lower_forward(context, code);
    lower_backward(context, code);
  }

  Random random;
  OperatorChain chain;
  // Twelve ranks: tp 2, cp 2, dp 3.
  const DeviceMesh mesh = device_mesh({.tp = 2, .cp = 2, .dp = 3});
  const std::vector<std::uint8_t> streams{1, 2, 3};
  std::vector<Layout> layouts;
  RecomputeRegions regions;
  std::vector<std::size_t> operators;
  ChunkCode code;
};

std::vector<std::int64_t> axis_sizes(const Mesh& mesh) {
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : mesh.axes) sizes.push_back(axis.size);
  return sizes;
}

std::vector<std::int64_t> extents(const Graph& graph) {
  std::vector<std::int64_t> sizes;
  for (const Dimension& dimension : graph.dimensions) sizes.push_back(dimension.padded_size);
  return sizes;
}

// Runs the steps on index sets. `faults` says what a reader found that it does not want.
class Interpreter {
 public:
  explicit Interpreter(const Lowered& lowered)
      : lowered_(lowered),
        graph_(lowered.chain.graph),
        sets_(axis_sizes(lowered.mesh.mesh), extents(lowered.chain.graph)) {
    for (std::size_t v = 0; v < lowered.code.values.size(); ++v) {
      const Value& value = lowered.code.values[v];
      if (value.conversion == Opcode::free) held_[static_cast<ValueId>(v)] = fresh(value);
    }
    for (std::size_t o = 0; o < graph_.operators.size(); ++o) by_name_[graph_.operators[o].name] = o;
    for (const CodeStep& step : lowered.code.forward) run(step);
    for (const CodeStep& step : lowered.code.backward) run(step);
  }

  std::vector<std::string> faults;
  int conversions = 0, reads = 0;

 private:
  IndexedTensor fresh(const Value& value) const {
    return sets_.held(value.layout, graph_.tensors[value.tensor].dims);
  }

  void run(const CodeStep& step) {
    if (!step.axes.empty()) return convert(step);
    if (step.function == Function::sum_gradients) return add_alike(step);
    const std::size_t o = by_name_.at(step.label);
    for (const ValueId input : step.inputs) read(step, o, input);
  }

  void convert(const CodeStep& step) {
    ++conversions;
    const Value& from = lowered_.code.values[step.inputs.front()];
    const Value& to = lowered_.code.values[step.outputs.front()];
    IndexedTensor tensor = held_.at(step.inputs.front());
    const std::string fault =
        sets_.apply({step.opcode, step.axes, step.reduction, to.layout}, from.layout, tensor);
    if (!fault.empty()) faults.push_back(step.label + " " + fault);
    std::vector<AxisId> summed = summed_[step.inputs.front()];
    for (const AxisId axis : from.layout.partial_sum)
      if (std::find(to.layout.partial_sum.begin(), to.layout.partial_sum.end(), axis) ==
          to.layout.partial_sum.end())
        summed.push_back(axis);
    std::sort(summed.begin(), summed.end());
    if (!(tensor == sets_.held(to.layout, graph_.tensors[to.tensor].dims, summed)))
      faults.push_back(step.label + " leaves other pieces than its layout says");
    summed_[step.outputs.front()] = summed;
    held_[step.outputs.front()] = std::move(tensor);
  }

  void add_alike(const CodeStep& step) {
    for (const ValueId input : step.inputs)
      for (std::size_t rank = 0; rank < held_.at(input).pieces.size(); ++rank)
        if (held_.at(input).pieces[rank].indices != held_.at(step.outputs.front()).pieces[rank].indices)
          faults.push_back(step.label + " adds pieces of different places");
  }

  // An operator's rank reads just the part of each operand that belongs to its block of the iteration space,
  // and whole sums.
  void read(const CodeStep& step, std::size_t o, ValueId value) {
    ++reads;
    const Value& what = lowered_.code.values[value];
    Layout block = lowered_.layouts[o];
    const IndexedTensor wanted = sets_.held(block, graph_.tensors[what.tensor].dims);
    const IndexedTensor& has = held_.at(value);
    if (!what.layout.partial_sum.empty())
      faults.push_back(step.label + " reads a partial sum of " + what.name);
    for (std::size_t rank = 0; rank < has.pieces.size(); ++rank)
      if (has.pieces[rank].indices != wanted.pieces[rank].indices) {
        faults.push_back(step.label + " reads another part of " + what.name);
        break;
      }
  }

  const Lowered& lowered_;
  const Graph& graph_;
  IndexSets sets_;
  std::map<ValueId, IndexedTensor> held_;
  std::map<ValueId, std::vector<AxisId>> summed_;
  std::map<std::string, std::size_t> by_name_;
};

TEST_CASE(
    "random layouts: every operand arrives in the part and the sum that its reader wants, both passes") {
  int conversions = 0, reads = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Lowered lowered(seed);
    const Interpreter interpreter(lowered);
    if (!interpreter.faults.empty()) FAIL("seed " << seed << ": " << interpreter.faults.front());
    conversions += interpreter.conversions;
    reads += interpreter.reads;
  }
  CHECK(conversions > 3000);
  CHECK(reads > 2000);
}

// Elements of a piece, and of all different pieces.
struct Cover {
  std::int64_t over_ranks = 0, distinct = 0;
  std::set<std::int64_t> holders;  // of a piece: the numbers that occur
};
Cover cover_of(const IndexedTensor& tensor) {
  std::map<std::vector<std::vector<std::int64_t>>, std::int64_t> holders;
  for (const HeldPiece& piece : tensor.pieces) ++holders[piece.indices];
  Cover cover;
  for (const auto& [indices, count] : holders) {
    std::int64_t elements = 1;
    for (const std::vector<std::int64_t>& of_dim : indices)
      elements *= static_cast<std::int64_t>(of_dim.size());
    cover.over_ranks += count * elements;
    cover.distinct += elements;
    cover.holders.insert(count);
  }
  return cover;
}

TEST_CASE("random layouts: FLOPs over ranks are the model's, and more just where an axis splits nothing") {
  int replicated = 0, exact = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Lowered lowered(seed);
    const Graph& graph = lowered.chain.graph;
    const IndexSets sets(axis_sizes(lowered.mesh.mesh), extents(graph));
    for (std::size_t o = 0; o < graph.operators.size(); ++o) {
      if (graph.operators[o].opcode != Opcode::gemm) continue;
      const Cover cover = cover_of(sets.held(lowered.layouts[o], iteration_space(graph, graph.operators[o])));
      const double whole = operator_flops(graph, graph.operators[o], Extents::padded).forward;
      CHECK(2.0 * static_cast<double>(cover.distinct) == whole);
      CHECK(2.0 * static_cast<double>(cover.over_ranks) >= whole);
      std::int64_t parts = 1;
      for (const DimensionSplit& split : lowered.layouts[o].splits) parts *= lowered.mesh.size(split.axes);
      const bool splits_all = parts == sets.ranks();
      CHECK((cover.over_ranks == cover.distinct) == splits_all);
      ++(splits_all ? exact : replicated);
    }
  }
  CHECK(replicated > 50);
  CHECK(exact > 50);
}

TEST_CASE(
    "random layouts: the pieces of a parameter make it up, each on equally many ranks that sum its "
    "gradient") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Lowered lowered(seed);
    const Graph& graph = lowered.chain.graph;
    const IndexSets sets(axis_sizes(lowered.mesh.mesh), extents(graph));
    for (std::size_t p = 0; p < lowered.code.parameters.size(); ++p) {
      const Value& value = lowered.code.values[lowered.code.parameters[p]];
      const Cover cover = cover_of(sets.held(value.layout, graph.tensors[value.tensor].dims));
      CHECK(cover.distinct == padded_elements(graph, graph.tensors[value.tensor]));
      REQUIRE(cover.holders.size() == 1);
      // Replicas that saw different tokens or columns sum their gradients; the rest computed the same.
      CHECK(*cover.holders.begin() % lowered.mesh.size(lowered.code.gradient_axes[p]) == 0);
    }
  }
}

}  // namespace
}  // namespace simrun
