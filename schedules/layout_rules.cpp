#include "schedules/layout_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "configs/nearest.h"
#include "models/model_scope.h"
#include "schedules/task_graphs.h"

namespace simrun {
namespace {

std::optional<DimensionId> dimension_named(const Graph& graph, const std::string& name) {
  for (std::size_t d = 0; d < graph.dimensions.size(); ++d)
    if (graph.dimensions[d].name == name) return static_cast<DimensionId>(d);
  return {};
}

// Query heads are grouped by key-value head: splitting `heads` splits the groups.
std::string graph_name(const Graph& graph, const std::string& dim) {
  return dim == "heads" && !dimension_named(graph, dim) ? "kv_heads" : dim;
}

std::string place_of(const Operator& op) {
  return op.layer < 0 ? op.name : fmt::format("{} of layer {}", op.name, op.layer);
}

// What the layout section says of one dimension of one operator.
struct Decision {
  DimensionId dim = 0;
  const RegionRule* rule = nullptr;
  const DimensionChoice* choice = nullptr;
};

// Checks the rules one by one, then the operators.
class LayoutCheck {
 public:
  LayoutCheck(const LayoutConfig& layout, const Graph& graph, const DeviceMesh& mesh,
              std::vector<std::size_t> operators)
      : layout_(layout), graph_(graph), mesh_(mesh), operators_(std::move(operators)) {}

  std::vector<Diagnostic> run() {
    for (const RegionRule& rule : layout_.rules) check_rule(rule);
    if (faults_.empty())
      for (const std::size_t o : operators_) check_operator(graph_.operators[o]);
    return std::move(faults_);
  }

  // Attention whose keys and values travel over context-parallel ranks has its part of the sequence from
  // there.
  void check_context_parallel(const Operator& op, const Layout& chosen, const Layout& needed) {
    for (const DimensionSplit& split : needed.splits) {
      const std::string& dim = graph_.dimensions[split.dim].name;
      if (dim != "sequence" && dim != "key_sequence") continue;
      const DimensionSplit* own = chosen.split_of(split.dim);
      if (own != nullptr && own->axes == split.axes) continue;
      const SourcePosition at = position_of(op, op);
      if (!faults_.empty() && faults_.back().position == at) return;  // of another layer
      return fault(at,
                   fmt::format("{} must keep its {} split over {}, along which keys and values travel",
                               place_of(op), dim, mesh_.words(split.axes)),
                   "parallelism.cp_comm_type: a2a leaves it free.");
    }
  }

  // Of the operators' layouts: what must agree between operators.
  std::vector<Diagnostic> compare(const std::vector<Layout>& layouts) {
    compare_parameters(layouts);
    compare_tokens(layouts);
    for (const std::size_t o : operators_)
      if (graph_.operators[o].keeps_partial_sums) compare_summands(layouts, o);
    return std::move(faults_);
  }

 private:
  void fault(const SourcePosition& at, std::string message, std::string hint = "") {
    faults_.push_back({at, std::move(message), std::move(hint)});
  }

  // ---- a rule by itself ----

  void check_rule(const RegionRule& rule) {
    std::vector<const Operator*> held;
    for (const Operator& op : graph_.operators)
      if (holds(rule.scope, graph_, op)) held.push_back(&op);
    if (held.empty()) return faults_.push_back(no_such_scope(rule.scope, graph_));
    for (const DimensionChoice& choice : rule.choices) check_choice(rule, choice, held);
  }

  void check_choice(const RegionRule& rule, const DimensionChoice& choice,
                    const std::vector<const Operator*>& held) {
    std::vector<std::string> names;
    for (const Dimension& dimension : graph_.dimensions)
      if (std::find(names.begin(), names.end(), dimension.name) == names.end())
        names.push_back(dimension.name);
    const std::optional<DimensionId> dim = dimension_named(graph_, graph_name(graph_, choice.dim));
    if (!dim) {
      names.emplace_back("heads");
      const std::string near = closest(choice.dim, names);
      return fault(choice.dim_position, fmt::format("the model has no dimension '{}'", choice.dim),
                   near.empty() ? fmt::format("it has {}.", fmt::join(names, ", "))
                                : fmt::format("did you mean '{}'?", near));
    }
    // Several may have the name: every stack of layers has its own sequence, say.
    std::vector<DimensionId> known;
    const Operator* whole = nullptr;
    bool splits = false;
    for (const Operator* op : held)
      for (const DimensionId d : iteration_space(graph_, *op)) {
        if (!has(known, d)) known.push_back(d);
        if (graph_.dimensions[d].name != graph_.dimensions[*dim].name) continue;
        if (!has(op->whole_dims, d))
          splits = true;
        else if (whole == nullptr)
          whole = op;
      }
    if (!splits && whole == nullptr) return refuse_dimension(rule, choice, known);
    if (!splits && !choice.axes.empty())
      fault(choice.dim_position,
            fmt::format("{} needs its dimension '{}' whole", place_of(*whole), choice.dim));
  }

  void refuse_dimension(const RegionRule& rule, const DimensionChoice& choice,
                        const std::vector<DimensionId>& known) {
    std::vector<std::string> names;
    names.reserve(known.size());
    for (const DimensionId dim : known) names.push_back(graph_.dimensions[dim].name);
    fault(choice.dim_position,
          fmt::format("no operator in the scope '{}' has a dimension '{}'", rule.scope.text, choice.dim),
          fmt::format("theirs are {}.", fmt::join(names, ", ")));
  }

  // ---- an operator under all rules ----

  // The last rule that names a dimension decides it; of several of one name in an operator the first.
  std::vector<Decision> decisions(const Operator& op) const {
    std::vector<Decision> made;
    const std::vector<DimensionId> space = iteration_space(graph_, op);
    for (auto rule = layout_.rules.rbegin(); rule != layout_.rules.rend(); ++rule) {
      if (!holds(rule->scope, graph_, op)) continue;
      for (const DimensionChoice& choice : rule->choices) {
        const std::string name = graph_name(graph_, choice.dim);
        const auto is_named = [&](DimensionId dim) { return graph_.dimensions[dim].name == name; };
        const auto dim = std::find_if(space.begin(), space.end(), is_named);
        const auto is_same = [&](const Decision& other) { return other.dim == *dim; };
        if (dim == space.end() || std::any_of(made.begin(), made.end(), is_same)) continue;
        made.push_back({*dim, &*rule, &choice});
      }
    }
    std::erase_if(made, [&](const Decision& d) { return has(op.whole_dims, d.dim); });
    return made;
  }

  std::vector<AxisId> axes_of(const DimensionChoice& choice) const {
    std::vector<AxisId> axes;
    for (const std::string& name : choice.axes)
      for (const AxisId axis : mesh_.axes(name)) axes.push_back(axis);
    return axes;
  }

  // Whatever one rule says of a dimension is refused once, for the first operator.
  void check_operator(const Operator& op) {
    std::map<AxisId, const DimensionChoice*> taken;
    for (const Decision& decision : decisions(op)) {
      if (refused_.count(decision.choice) > 0) continue;
      const std::vector<AxisId> axes = axes_of(*decision.choice);
      for (const AxisId axis : axes) {
        const auto [before, is_free] = taken.emplace(axis, decision.choice);
        if (is_free) continue;
        return refuse_axis_twice(op, *decision.choice, *before->second, axis);
      }
      check_extent(op, decision, mesh_.size(axes));
    }
  }

  void refuse_axis_twice(const Operator& op, const DimensionChoice& choice, const DimensionChoice& other,
                         AxisId axis) {
    refused_.insert(&choice);
    const std::string name = mesh_.words({axis});
    if (&choice == &other)
      return fault(choice.axis_positions.back(),
                   fmt::format("'{}' is split over {} twice: the axes {} share ranks", choice.dim, name,
                               fmt::join(choice.axes, " and ")));
    fault(choice.axis_positions.front(),
          fmt::format("{} would be split twice over {}: its {} and its {}", place_of(op), name, other.dim,
                      choice.dim),
          fmt::format("a rule for scope {} may replicate one of them.", op.name));
  }

  static std::string over(const DimensionChoice& choice, std::int64_t parts) {
    const std::string axes = fmt::format("{}", fmt::join(choice.axes, " x "));
    return axes == axis_of_ranks(parts) ? axes : fmt::format("{}, {} ranks", axes, parts);
  }

  void check_extent(const Operator& op, const Decision& decision, std::int64_t parts) {
    const Dimension& dimension = graph_.dimensions[decision.dim];
    const std::int64_t extent = dimension.padded_size;
    if (extent % parts == 0) return;
    refused_.insert(decision.choice);
    std::int64_t fewer = parts, more = parts;
    while (extent % fewer != 0) --fewer;
    while (more < extent && extent % more != 0) ++more;
    const std::string ranks = more < extent || extent % more == 0
                                  ? fmt::format("{} and {} ranks do", fewer, more)
                                  : fmt::format("{} ranks do", fewer);
    const std::int64_t below = extent / parts * parts;
    fault(decision.choice->axis_positions.front(),
          fmt::format("{}: {} {} does not split over {}", place_of(op), decision.choice->dim, extent,
                      over(*decision.choice, parts)),
          below > 0
              ? fmt::format("{}; so do {} {} and {}.", ranks, decision.choice->dim, below, below + parts)
              : fmt::format("{}; so does {} {}.", ranks, decision.choice->dim, parts));
  }

  // ---- operators beside each other ----

  // The rule that had a say about either operator, the last.
  SourcePosition position_of(const Operator& a, const Operator& b) const {
    for (auto rule = layout_.rules.rbegin(); rule != layout_.rules.rend(); ++rule)
      for (const Operator* op : {&a, &b})
        if (holds(rule->scope, graph_, *op)) return rule->position;
    return {};
  }

  void compare_parameters(const std::vector<Layout>& layouts) {
    struct Reader {
      const Operator* op;
      Layout layout, gradient;
    };
    std::map<TensorId, Reader> first;
    for (const std::size_t o : operators_) {
      const Operator& op = graph_.operators[o];
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const Tensor& tensor = graph_.tensors[op.inputs[i]];
        if (tensor.kind != TensorKind::parameter) continue;
        const Layout layout = input_layout(graph_, op, layouts[o], i);
        const Layout gradient = gradient_layout(graph_, op, layouts[o], i);
        const auto [known, is_new] = first.emplace(op.inputs[i], Reader{&op, layout, gradient});
        const Reader& reader = known->second;
        if (is_new) continue;
        if (!(reader.layout == layout))
          compare_readers({*reader.op, reader.layout}, {op, layout}, tensor.name,
                          "a parameter that two operators read lies on its ranks once.");
        else if (!tensor.frozen && !(reader.gradient == gradient))
          compare_readers({*reader.op, reader.gradient}, {op, gradient}, "the gradient of " + tensor.name,
                          "what two operators add to it is summed over the same ranks.");
      }
    }
  }

  struct LayoutOf {
    const Operator& op;
    const Layout& layout;
  };
  void compare_readers(const LayoutOf& a, const LayoutOf& b, const std::string& what, const char* rule) {
    fault(position_of(a.op, b.op),
          fmt::format("{} is {} for {}, but {} for {}", what, describe(a.layout, graph_, mesh_),
                      place_of(a.op), describe(b.layout, graph_, mesh_), place_of(b.op)),
          rule);
  }

  void compare_tokens(const std::vector<Layout>& layouts) {
    std::size_t sender = 0;
    for (const std::size_t o : operators_) {
      const Operator& op = graph_.operators[o];
      if (!op.regroup || op.regroup->from.size() < 2) continue;
      if (op.function == Function::dispatch) sender = o;
      const Operator& from = graph_.operators[sender];
      if (rows_come_back(from, layouts[sender], layouts[o])) continue;
      return fault(position_of(from, op),
                   fmt::format("{} splits tokens otherwise than {}", place_of(op), place_of(from)),
                   "what experts made of a token goes back to the rank that sent it.");
    }
  }

  // Branches whose partial sums are added before they are summed over ranks must be partial alike.
  void compare_summands(const std::vector<Layout>& layouts, std::size_t adder) {
    const Operator& op = graph_.operators[adder];
    std::vector<std::size_t> producers;
    for (const TensorId input : op.inputs)
      for (std::size_t o = 0; o < adder; ++o)
        if (std::find(graph_.operators[o].outputs.begin(), graph_.operators[o].outputs.end(), input) !=
            graph_.operators[o].outputs.end())
          producers.push_back(o);
    for (const std::size_t o : producers) {
      const std::size_t first = producers.front();
      const Layout ours = output_layout(graph_, graph_.operators[o], layouts[o], 0);
      const Layout theirs = output_layout(graph_, graph_.operators[first], layouts[first], 0);
      if (ours == theirs) continue;
      // A rule of all layers is told of one of them.
      const SourcePosition position = position_of(graph_.operators[first], graph_.operators[o]);
      if (!told_of_summands_.insert(position).second) continue;
      fault(position,
            fmt::format("{} adds partial sums, but {} is {} and {} is {}", place_of(op),
                        graph_.operators[first].name, describe(theirs, graph_, mesh_),
                        graph_.operators[o].name, describe(ours, graph_, mesh_)),
            "both branches must be split alike.");
    }
  }

  const LayoutConfig& layout_;
  const Graph& graph_;
  const DeviceMesh& mesh_;
  const std::vector<std::size_t> operators_;  // that are checked
  std::set<const DimensionChoice*> refused_;
  std::set<SourcePosition> told_of_summands_;
  std::vector<Diagnostic> faults_;
};

// Throws what is wrong, in the order of its places.
void refuse(std::vector<Diagnostic> faults) {
  if (faults.empty()) return;
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.position < b.position; });
  throw ConfigError(std::move(faults));
}

}  // namespace

std::vector<LayoutRule> rules_of(const Job& job, const Graph& graph) {
  std::vector<LayoutRule> rules;
  const LayoutConfig layout = with_task_graphs(job.layout, graph);
  for (auto rule = layout.rules.rbegin(); rule != layout.rules.rend(); ++rule)
    for (const DimensionChoice& choice : rule->choices)
      rules.push_back({rule->scope.text, graph_name(graph, choice.dim), choice.axes, true});
  const std::vector<LayoutRule> strategy = strategy_rules(job);
  rules.insert(rules.end(), strategy.begin(), strategy.end());
  return rules;
}

DeviceMesh mesh_of(const Job& job) {
  const LayoutConfig& layout = job.layout;
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t ranks = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  const std::string stage = fmt::format("a pipeline stage has {} (tensor {} x context {} x data parallel {})",
                                        ranks, parallelism.tensor_model_parallel_size,
                                        parallelism.context_parallel_size, parallelism.data_parallel_size);
  std::vector<Diagnostic> faults;
  std::int64_t product = 1;
  for (const OwnAxis& axis : layout.mesh)
    product = axis.size > ranks / product ? ranks + 1 : product * axis.size;
  if (!layout.mesh.empty() && product != ranks)
    faults.push_back({layout.mesh_position,
                      fmt::format("the mesh has {}{} ranks, but {}", product > ranks ? "more than " : "",
                                  std::min(product, ranks), stage),
                      fmt::format("its sizes must multiply to {}.", ranks)});
  SourcePosition place = layout.mesh_position;
  for (const RegionRule& rule : layout.rules) {
    const TaskGraph& of = rule.task_graph;
    if (of.kind == TaskGraph::Kind::none) continue;
    place = of.position;
    if (ranks % of.count != 0)
      faults.push_back({of.position, fmt::format("{} ranks do not divide a stage: {}", of.count, stage),
                        nearest_divisors(ranks, of.count)});
  }
  refuse(std::move(faults));
  try {
    return device_mesh(mesh_shape(job));
  } catch (const std::invalid_argument& error) {
    if (place.file.empty()) throw;
    throw ConfigError({{place, error.what(), ""}});
  }
}

std::vector<Layout> layouts_of(const Job& job, const Graph& graph, const DeviceMesh& mesh,
                               const std::vector<std::size_t>* only) {
  const bool has_rules = !job.layout.rules.empty();
  const LayoutConfig layout = with_task_graphs(job.layout, graph);
  std::vector<std::size_t> operators(graph.operators.size());
  std::iota(operators.begin(), operators.end(), std::size_t{0});
  if (only != nullptr) operators = *only;
  LayoutCheck check(layout, graph, mesh, operators);
  if (has_rules) refuse(check.run());
  const std::vector<LayoutRule> rules = rules_of(job, graph);
  std::vector<Layout> layouts(graph.operators.size());
  const bool keys_travel =
      job.parallelism.context_parallel_size > 1 && job.parallelism.cp_comm_type != ContextExchange::a2a;
  for (const std::size_t o : operators) {
    const Operator& op = graph.operators[o];
    layouts[o] = operator_layout(graph, op, rules, mesh);
    if (has_rules && keys_travel && op.opcode == Opcode::attention)
      check.check_context_parallel(op, layouts[o], operator_layout(graph, op, strategy_rules(job), mesh));
  }
  if (has_rules) refuse(check.compare(layouts));
  return layouts;
}

}  // namespace simrun
