#include "sim/recompute_search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "configs/job_rules.h"
#include "schedules/timeline.h"
#include "sim/held_memory.h"
#include "sim/kernel_cost.h"
#include "sim/memory.h"
#include "sim/simulate.h"

namespace simrun {
namespace {

// Modules that a model may have; one that this model lacks saves nothing.
const std::vector<std::string> known_modules = {
    "layernorm", "core_attn", "mlp", "moe_act", "mla_up_proj", "shared_experts", "mamba", "delta_net", "moe"};
constexpr std::size_t all_subsets_up_to = 3;

// Pipeline ranks that hold the same stages (two copies of each in bidirectional pipelines) and so share what
// is recomputed.
struct RankGroup {
  std::vector<std::size_t> stages;  // in model order: earlier ones hold more microbatches
  std::vector<std::size_t> ranks;
  std::int64_t layers = 0;
};

// Modules in the order in which they are taken; whole layers follow.
using ModuleOrder = std::vector<std::string>;
// By group: how many (module, layer) of an order, then whole layers, are taken.
using Amounts = std::vector<std::int64_t>;

// Bytes of a GPU: live at once, and what it has for them.
struct RankMemory {
  std::int64_t peak = 0, limit = 0;
  std::int64_t missing() const { return peak - limit; }
};

struct Evaluated {
  RecomputeConfig config;
  std::vector<RankMemory> ranks;  // of the pipeline
  std::int64_t peak() const { return std::ranges::max_element(ranks, {}, &RankMemory::peak)->peak; }
  const RankMemory& tightest() const { return *std::ranges::max_element(ranks, {}, &RankMemory::missing); }
};

// Without what it does not do, so that equal choices are equal values.
RecomputeConfig normalised(RecomputeConfig config, const std::vector<std::int64_t>& layers_of_stage) {
  const auto is_zero = [](std::int64_t count) { return count == 0; };
  if (config.stage_layers == layers_of_stage) {
    config.modules.clear();
    config.module_layers.clear();
  }
  for (std::size_t m = config.modules.size(); m-- > 0;) {
    if (!std::all_of(config.module_layers[m].begin(), config.module_layers[m].end(), is_zero)) continue;
    config.modules.erase(config.modules.begin() + static_cast<std::ptrdiff_t>(m));
    config.module_layers.erase(config.module_layers.begin() + static_cast<std::ptrdiff_t>(m));
  }
  if (config.method == RecomputeMethod::block &&
      std::all_of(config.stage_layers.begin(), config.stage_layers.end(), is_zero)) {
    config.stage_layers.clear();
    config.method = RecomputeMethod::uniform;
    config.granularity =
        config.modules.empty() ? RecomputeGranularity::none : RecomputeGranularity::selective;
  }
  return config;
}

// Of one step's recomputation on all ranks.
double recompute_seconds(const Plan& plan) {
  std::vector<double> of_segment;
  for (const Segment& segment : plan.segments) {
    double seconds = 0;
    for (const Instruction& what : segment.instructions)
      if (what.phase == Phase::recompute && !is_communication(what.opcode))
        seconds += to_seconds(kernel_time(plan, what));
    of_segment.push_back(seconds);
  }
  double total = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) total += of_segment[entry.segment];
  return total;
}

class RecomputeSearch {
 public:
  RecomputeSearch(const Job& job, const CompileJob& compile) : job_(job), compile_(compile) {}

  Plan run() {
    const Plan without = compile_(with({}));
    find_groups(without);
    const Evaluated none = evaluate({});
    std::optional<Evaluated> best = fits(none) ? none : std::optional<Evaluated>();
    if (!best) best = shortest(none);
    if (!best) best = longer_checkpoints();
    return finished(best ? *best : *least_, none, without);
  }

 private:
  Job with(const RecomputeConfig& config) const {
    Job job = job_;
    job.recompute = config;
    return job;
  }

  // Of all orders the one whose step is shortest.
  std::optional<Evaluated> shortest(const Evaluated& none) {
    std::optional<Evaluated> best;
    Picoseconds best_step = 0;
    for (const ModuleOrder& order : orders(none)) {
      std::optional<Evaluated> found = fewest(order);
      if (!found) continue;
      found = trimmed(*found);
      const Picoseconds step = step_without_contention(compile_(with(found->config)));
      if (best && best_step <= step) continue;
      best_step = step;
      best = found;
    }
    return best;
  }

  // Every layer recomputed, from fewer kept activations: as long as a checkpoint of one layer each, so only
  // where that does not fit.
  std::optional<Evaluated> longer_checkpoints() {
    const std::int64_t most = *std::max_element(layers_of_stage_.begin(), layers_of_stage_.end());
    for (std::int64_t layers = 2; layers <= most; ++layers) {
      RecomputeConfig config;
      config.granularity = RecomputeGranularity::full;
      config.num_layers = layers;
      const Evaluated evaluated = evaluate(config);
      if (fits(evaluated)) return evaluated;
    }
    return std::nullopt;
  }

  void find_groups(const Plan& plan) {
    const std::size_t ranks = plan.programs.size();
    std::vector<std::size_t> group_of(ranks);
    std::iota(group_of.begin(), group_of.end(), std::size_t{0});
    std::map<std::int32_t, std::size_t> group_of_stage;
    for (const Chunk& chunk : plan.chunks) {
      const auto rank = static_cast<std::size_t>(chunk.pipeline_rank);
      const auto [known, is_new] = group_of_stage.emplace(chunk.stage, group_of[rank]);
      if (is_new || known->second == group_of[rank]) continue;
      const std::size_t merged = group_of[rank];
      std::replace(group_of.begin(), group_of.end(), merged, known->second);
      for (auto& [stage, group] : group_of_stage)
        if (group == merged) group = known->second;
    }
    layers_of_stage_.assign(group_of_stage.size(), 0);
    for (const Chunk& chunk : plan.chunks)
      layers_of_stage_[static_cast<std::size_t>(chunk.stage)] = chunk.layers;
    std::map<std::size_t, RankGroup> groups;
    for (const auto& [stage, group] : group_of_stage) {
      groups[group].stages.push_back(static_cast<std::size_t>(stage));
      groups[group].layers += layers_of_stage_[static_cast<std::size_t>(stage)];
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) groups[group_of[rank]].ranks.push_back(rank);
    for (auto& [number, group] : groups) groups_.push_back(std::move(group));
  }

  // ---- plans ----

  Evaluated evaluate(const RecomputeConfig& config) {
    const RecomputeConfig wanted = normalised(config, layers_of_stage_);
    const auto [known, is_new] = known_.try_emplace(recompute_section(wanted));
    if (is_new) {
      const Plan plan = compile_(with(wanted));
      known->second.config = wanted;
      for (const Program& program : plan.programs) known->second.ranks.push_back(memory_of(plan, program));
      if (!least_ || known->second.peak() < least_->peak()) least_ = known->second;
    }
    return known->second;
  }

  // What a framework holds beside a plan is worked out where the plan alone might fit, or is to be `shown`.
  RankMemory memory_of(const Plan& plan, const Program& program, bool shown = false) const {
    RankMemory of{walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes,
                  job_.recompute.memory_limit};
    if (plan.framework.memory.allocator == AllocatorKind::none) return of;
    if (of.limit == 0) of.limit = job_.cluster.gpu.memory_bytes;
    if (shown || of.peak <= of.limit) of.limit = std::min(of.limit, room_for_plan(plan, program));
    return of;
  }

  static bool fits(const Evaluated& evaluated, const RankGroup& group) {
    return std::ranges::all_of(group.ranks,
                               [&](std::size_t rank) { return evaluated.ranks[rank].missing() <= 0; });
  }
  static bool fits(const Evaluated& evaluated) { return evaluated.tightest().missing() <= 0; }

  // ---- what to recompute ----

  RecomputeConfig config_of(const ModuleOrder& order, const Amounts& amounts) const {
    RecomputeConfig config;
    config.granularity = RecomputeGranularity::full;
    config.method = RecomputeMethod::block;
    config.modules = order;
    config.stage_layers.assign(layers_of_stage_.size(), 0);
    config.module_layers.assign(order.size(), config.stage_layers);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::int64_t left = amounts[g];
      for (std::size_t m = 0; m <= order.size(); ++m) {
        std::int64_t here = std::min(left, groups_[g].layers);
        left -= here;
        std::vector<std::int64_t>& counts = m < order.size() ? config.module_layers[m] : config.stage_layers;
        for (const std::size_t stage : groups_[g].stages) {
          counts[stage] = std::min(here, layers_of_stage_[stage]);
          here -= counts[stage];
        }
      }
    }
    return config;
  }

  // Modules that save something, by recompute time per byte saved.
  ModuleOrder by_price(const Evaluated& none) {
    std::vector<std::pair<double, std::string>> priced;
    for (const std::string& module : known_modules) {
      if (!fp8_allows_recompute(job_.training, module)) continue;
      RecomputeConfig everywhere;
      everywhere.granularity = RecomputeGranularity::selective;
      everywhere.modules = {module};
      everywhere.module_layers = {layers_of_stage_};
      const Evaluated with_module = evaluate(everywhere);
      double saved = 0;
      for (std::size_t rank = 0; rank < none.ranks.size(); ++rank)
        saved += static_cast<double>(none.ranks[rank].peak - with_module.ranks[rank].peak);
      if (saved > 0) priced.emplace_back(recompute_seconds(compile_(with(everywhere))) / saved, module);
    }
    std::stable_sort(priced.begin(), priced.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    ModuleOrder order;
    for (const auto& [price, module] : priced) order.push_back(module);
    return order;
  }

  std::vector<ModuleOrder> orders(const Evaluated& none) {
    const ModuleOrder all = by_price(none);
    std::vector<ModuleOrder> orders;
    if (all.size() <= all_subsets_up_to) {
      for (unsigned subset = 0; subset < 1U << all.size(); ++subset) {
        orders.emplace_back();
        for (std::size_t m = 0; m < all.size(); ++m)
          if ((subset >> m & 1U) != 0) orders.back().push_back(all[m]);
      }
      return orders;
    }
    for (std::size_t count = 0; count <= all.size(); ++count)
      orders.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t m = 1; m < all.size(); ++m) orders.push_back({all[m]});
    return orders;
  }

  // Each group's smallest amount that fits, or nothing if some group fits at no end of a module.
  std::optional<Evaluated> fewest(const ModuleOrder& order) {
    Amounts low(groups_.size(), 0), high(groups_.size(), -1);  // does not fit; fits
    for (std::size_t modules = 0; modules <= order.size() + 1; ++modules) {
      Amounts ends;
      for (const RankGroup& group : groups_)
        ends.push_back(static_cast<std::int64_t>(modules) * group.layers);
      const Evaluated at_end = evaluate(config_of(order, ends));
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (high[g] >= 0) continue;
        (fits(at_end, groups_[g]) ? high : low)[g] = ends[g];
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (high[g] < 0) return std::nullopt;
    const Amounts found =
        halved(low, high, [&](const Amounts& amounts) { return config_of(order, amounts); });
    Evaluated evaluated = evaluate(config_of(order, found));
    return fits(evaluated) ? std::optional(std::move(evaluated)) : std::nullopt;
  }

  // By group the smallest amount above `low` (at it, where high equals low) with which it fits, all groups at
  // once.
  template <class ConfigOf>
  Amounts halved(Amounts low, Amounts high, const ConfigOf& config_of_amounts) {
    for (;;) {
      Amounts middle = high;
      for (std::size_t g = 0; g < groups_.size(); ++g)
        if (high[g] - low[g] > 1) middle[g] = low[g] + (high[g] - low[g]) / 2;
      if (middle == high) return high;
      const Evaluated evaluated = evaluate(config_of_amounts(middle));
      for (std::size_t g = 0; g < groups_.size(); ++g)
        if (middle[g] != high[g]) (fits(evaluated, groups_[g]) ? high : low)[g] = middle[g];
    }
  }

  // Of module m only as many layers of each group, its first stages first.
  RecomputeConfig with_fewer(RecomputeConfig config, std::size_t m, const Amounts& amounts) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::int64_t left = amounts[g];
      for (const std::size_t stage : groups_[g].stages) {
        std::int64_t& count = config.module_layers[m][stage];
        count = std::min(left, count);
        left -= count;
      }
    }
    return config;
  }

  // Fewer layers of each module, the dearest first, where the rest is enough.
  Evaluated trimmed(Evaluated best) {
    const std::vector<std::string> modules = best.config.modules;
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
      const RecomputeConfig before = best.config;
      const auto m =
          static_cast<std::size_t>(std::ranges::find(before.modules, *module) - before.modules.begin());
      if (m == before.modules.size()) continue;  // dropped with another
      Amounts low(groups_.size(), -1), high;
      for (const RankGroup& group : groups_) {
        high.push_back(0);
        for (const std::size_t stage : group.stages) high.back() += before.module_layers[m][stage];
      }
      const Amounts enough =
          halved(low, high, [&](const Amounts& amounts) { return with_fewer(before, m, amounts); });
      const Evaluated evaluated = evaluate(with_fewer(before, m, enough));
      if (fits(evaluated)) best = evaluated;
    }
    return best;
  }

  Plan finished(const Evaluated& chosen, const Evaluated& none, const Plan& without) const {
    Plan plan = compile_(with(chosen.config));
    FoundRecompute found;
    found.section = recompute_section(chosen.config);
    Evaluated shown;
    for (const Program& program : plan.programs) shown.ranks.push_back(memory_of(plan, program, true));
    found.memory_limit = shown.tightest().limit;
    found.peak_bytes = shown.tightest().peak;
    found.peak_bytes_without = none.peak();
    found.added_s = to_seconds(step_without_contention(plan) - step_without_contention(without));
    plan.job.found_recompute = found;
    return plan;
  }

  const Job& job_;
  const CompileJob& compile_;
  std::vector<RankGroup> groups_;
  std::vector<std::int64_t> layers_of_stage_;
  std::map<std::string, Evaluated> known_;  // by section
  std::optional<Evaluated> least_;          // the smallest peak of all
};

}  // namespace

Plan plan_with_cheapest_recompute(const Job& job, const CompileJob& compile) {
  return RecomputeSearch(job, compile).run();
}

}  // namespace simrun
