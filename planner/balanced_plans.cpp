#include "planner/balanced_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "configs/node_groups.h"
#include "configs/pipeline_layout.h"
#include "planner/load_shares.h"
#include "planner/part_loads.h"
#include "planner/stage_flops.h"
#include "sim/exchange_groups.h"
#include "sim/plan_job.h"

namespace simrun {

namespace {

constexpr std::size_t most_corrections = 12;  // of shares, by what they taught of memory and times
constexpr std::int64_t largest_factor = 16;   // x the written microbatch
constexpr std::int64_t enough_sequences = 8;  // per replica: shares are fine enough

// What was measured of a number of units by each taker.
struct MeasuredShares {
  std::vector<std::int64_t> units;
  std::vector<double> seconds;
};

std::map<std::int64_t, double> times_of(const std::vector<MeasuredShares>& measured, std::size_t taker) {
  std::map<std::int64_t, double> times;
  for (const MeasuredShares& of : measured) times[of.units[taker]] = of.seconds[taker];
  return times;
}

class Balancer {
 public:
  Balancer(const JobLoader& load, std::int64_t max_memory)
      : load_(load), job_(load({})), max_memory_(max_memory) {}

  std::vector<BalancedPlan> plans() {
    add("as written", {});
    if (GpuKinds(job_.cluster).count() == 1) return std::move(plans_);
    if (can_move_layers())
      if (const std::optional<DeviceBalance> even = corrected({}, &Balancer::layers_blindly))
        add("even by FLOPs", *even);
    for (const DeviceBalance& placed : placements_of(job_)) {
      if (!placed.stage_data.empty()) {
        balance_stages(placed);
        continue;
      }
      add("placed", placed);
      for (std::int64_t factor = 1; factor <= largest_factor && job_.microbatches() % factor == 0;
           factor *= 2) {
        if (factor > 1 && !shares_batches(factor)) break;
        balance(placed, factor);
      }
    }
    return std::move(plans_);
  }

 private:
  bool has_stages() const { return job_.parallelism.pipeline_model_parallel_size > 1; }
  std::int64_t replicas() const { return job_.parallelism.data_parallel_size; }

  // Whether microbatches so many times as large are worth trying: smaller ones share too coarsely.
  bool shares_batches(std::int64_t factor) const {
    return replicas() > 1 && job_.training.micro_batch_size * factor / 2 < enough_sequences;
  }

  // What says nothing is left out.
  DeviceBalance normal(DeviceBalance balance) const {
    if (std::ranges::all_of(balance.replicas, [&](std::int64_t size) { return size == balance.micro_batch; }))
      balance.replicas.clear();
    if (balance.replicas.empty() && balance.micro_batch == job_.training.micro_batch_size &&
        job_.training.replica_micro_batch_sizes.empty())
      balance.micro_batch = 0;
    if (!balance.layout.empty() && parse_pipeline_layout(balance.layout).stages == job_.parallelism.stages)
      balance.layout.clear();
    return balance;
  }

  void add(const char* how, const DeviceBalance& made) {
    const DeviceBalance balance = normal(made);
    const std::string what = describe(balance);
    const std::string name = what.empty() ? how : fmt::format("{}: {}", how, what);
    if (!balance.empty() &&
        std::ranges::any_of(plans_, [&](const BalancedPlan& plan) { return plan.balance == balance; }))
      return;
    if (balance.empty() && !plans_.empty()) return;
    plans_.push_back(
        {balance, simulate_plan(name, overrides_of(balance), load_,
                                {.engine = EngineChoice::automatic, .max_memory = max_memory_})});
  }

  // Nothing where the job or the compiler refuses it.
  std::optional<PartLoads> measured(const DeviceBalance& balance) const {
    try {
      return part_loads(plan_job(load_(overrides_of(balance))), max_memory_);
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    } catch (const std::range_error&) {
      return std::nullopt;
    }
  }

  DeviceBalance balance_of(const DeviceBalance& placed, std::int64_t factor) const {
    DeviceBalance balance = placed;
    if (replicas() == 1) return balance;
    balance.micro_batch = job_.training.micro_batch_size * factor;
    balance.replicas.assign(static_cast<std::size_t>(replicas()), balance.micro_batch);
    return balance;
  }

  std::vector<std::int64_t> layers_of(const DeviceBalance& balance) const {
    std::vector<std::int64_t> layers;
    for (const StageContent& stage :
         balance.layout.empty() ? job_.parallelism.stages : parse_pipeline_layout(balance.layout).stages)
      layers.push_back(stage.layers);
    return layers;
  }

  void balance(const DeviceBalance& placed, std::int64_t factor) {
    DeviceBalance equal = balance_of(placed, factor);
    const std::optional<PartLoads> loads = measured(equal);
    if (!loads) return;
    std::optional<DeviceBalance> whale = equal;
    if (replicas() > 1) whale = corrected(*whale, &Balancer::batches_by_flops);
    if (whale && can_move_layers()) whale = corrected(*whale, &Balancer::layers_by_flops);
    if (whale) add("Whale", *whale);
    std::optional<DeviceBalance> timed = equal;
    if (replicas() > 1) timed = refined(*timed, &Balancer::batches_by_time);
    if (timed && can_move_layers()) timed = refined(*timed, &Balancer::layers_by_time);
    if (timed) add("by their times", *timed);
  }

  // Of unlike size: their data-parallel ranks have equal shares.
  void balance_stages(const DeviceBalance& placed) {
    if (!can_move_layers() || !measured(placed)) return;
    if (const std::optional<DeviceBalance> timed = refined(placed, &Balancer::layers_by_time))
      add("stages by kind", *timed);
  }

  bool can_move_layers() const {
    return has_stages() &&
           job_.parallelism.stages.size() ==
               static_cast<std::size_t>(job_.parallelism.pipeline_model_parallel_size *
                                        job_.parallelism.virtual_pipeline_model_parallel_size);
  }

  // ---- Shares of batches and layers ----

  // The least of a replica's over its pipeline ranks: how many more sequences it has memory for.
  static std::int64_t room_of_replica(const PartLoads& loads, std::size_t replica, std::int64_t units) {
    std::int64_t room = 1'000'000'000;
    for (const std::vector<PartLoad>& of_rank : loads) {
      const PartLoad& part = of_rank[replica];
      const double each =
          std::max(1.0, static_cast<double>(part.activation_bytes) / static_cast<double>(units));
      room = std::min(
          room, units + static_cast<std::int64_t>(std::floor(static_cast<double>(part.spare_bytes) / each)));
    }
    return std::max<std::int64_t>(room, 1);
  }
  static double seconds_of_replica(const PartLoads& loads, std::size_t replica) {
    double seconds = 0;
    for (const std::vector<PartLoad>& of_rank : loads)
      seconds = std::max(seconds, of_rank[replica].compute_s);
    return seconds;
  }
  // Stages are dealt over the pipeline ranks in turn; each has its part of the rank's memory and time.
  std::int64_t room_of_stage(const PartLoads& loads, std::size_t stage, std::int64_t units) const {
    std::int64_t room = 1'000'000;
    for (const PartLoad& part : loads[stage % loads.size()]) {
      const double all = static_cast<double>(units * std::ssize(job_.parallelism.stages)) /
                         static_cast<double>(loads.size());
      const double each = std::max(1.0, static_cast<double>(part.peak_bytes) / std::max(all, 1.0));
      room = std::min(
          room, units + static_cast<std::int64_t>(std::floor(static_cast<double>(part.spare_bytes) / each)));
    }
    return std::max<std::int64_t>(room, 1);
  }
  static double seconds_of_rank(const std::vector<PartLoad>& parts) {
    double seconds = 0;
    for (const PartLoad& part : parts) seconds = std::max(seconds, part.compute_s);
    return seconds;
  }

  // The slowest by its datasheet of the GPUs [first, first + count) of a pipeline rank, FLOP/s.
  double flops_of(const Plan& plan, std::int32_t rank, std::int64_t first, std::int64_t count) const {
    double least = 0;
    for (std::int64_t local = first; local < first + count; ++local) {
      const Gpu& gpu = gpu_at(plan.cluster, device_at(plan, rank, local));
      const auto peak = gpu.peak_flops.find(plan.job.precision);
      if (peak != gpu.peak_flops.end() && (least == 0 || peak->second < least)) least = peak->second;
    }
    return std::max(least, 1.0);
  }

  DeviceBalance with_batches(DeviceBalance balance, std::vector<std::int64_t> shares) const {
    balance.replicas = std::move(shares);
    return balance;
  }
  DeviceBalance with_layers(DeviceBalance balance, const std::vector<std::int64_t>& shares) const {
    std::vector<StageContent> stages = job_.parallelism.stages;
    for (std::size_t s = 0; s < stages.size(); ++s) stages[s].layers = shares[s];
    balance.layout = pipeline_layout_text(stages);
    return balance;
  }

  // What is known when shares are made: of the last balance, and of those before it.
  struct Knowledge {
    DeviceBalance balance;
    PartLoads loads;
    std::vector<MeasuredShares> batches, layers;
  };
  using MakeShares = std::optional<DeviceBalance> (Balancer::*)(const Knowledge&) const;

  std::optional<DeviceBalance> batches_by_flops(const Knowledge& of) const {
    const Plan plan = plan_job(load_(overrides_of(of.balance)));
    const std::int64_t width = plan.job.tensor_parallel * plan.job.context_parallel;
    std::vector<LoadTaker> takers;
    for (std::size_t d = 0; d < of.balance.replicas.size(); ++d) {
      LoadTaker taker{0, room_of_replica(of.loads, d, of.balance.replicas[d])};
      for (std::size_t rank = 0; rank < of.loads.size(); ++rank)
        taker.speed +=
            flops_of(plan, static_cast<std::int32_t>(rank), static_cast<std::int64_t>(d) * width, width);
      takers.push_back(taker);
    }
    std::vector<std::int64_t> shares = whale_shares(takers, sum_of(of.balance.replicas));
    if (shares.empty()) return std::nullopt;
    return with_batches(of.balance, std::move(shares));
  }

  std::optional<DeviceBalance> layers_by_flops(const Knowledge& of) const { return cut_by_flops(of, true); }
  std::optional<DeviceBalance> layers_blindly(const Knowledge& of) const { return cut_by_flops(of, false); }

  // Among GPUs as their datasheets say, or as if all were alike.
  std::optional<DeviceBalance> cut_by_flops(const Knowledge& of, bool knows_kinds) const {
    const Plan plan = plan_job(load_(overrides_of(of.balance)));
    const std::vector<std::int64_t> layers = layers_of(of.balance);
    const std::vector<StageFlops> flops = stage_flops(plan, layers);
    const double mean = mean_layer_flops(flops);
    std::vector<LoadTaker> takers;
    std::vector<double> loads;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const auto rank = static_cast<std::int32_t>(s % of.loads.size());
      takers.push_back({knows_kinds ? flops_of(plan, rank, 0, device_count(plan, rank)) : 1,
                        room_of_stage(of.loads, s, layers[s]), mean > 0 ? flops[s].outside / mean : 0});
      loads.insert(loads.end(), flops[s].layers.begin(), flops[s].layers.end());
    }
    const std::vector<std::int64_t> shares = whale_shares(takers, sum_of(layers));
    if (shares.empty()) return std::nullopt;
    return with_layers(of.balance, cut_by_load(loads, shares));
  }

  std::optional<DeviceBalance> batches_by_time(const Knowledge& of) const {
    std::vector<TimedTaker> takers;
    for (std::size_t d = 0; d < of.balance.replicas.size(); ++d) {
      takers.push_back({times_of(of.batches, d), room_of_replica(of.loads, d, of.balance.replicas[d])});
    }
    std::vector<std::int64_t> shares = fastest_shares(takers, sum_of(of.balance.replicas));
    if (shares.empty()) return std::nullopt;
    return with_batches(of.balance, std::move(shares));
  }

  std::optional<DeviceBalance> layers_by_time(const Knowledge& of) const {
    const std::vector<std::int64_t> layers = layers_of(of.balance);
    std::vector<TimedTaker> takers;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      takers.push_back({times_of(of.layers, s), room_of_stage(of.loads, s, layers[s])});
    }
    const std::vector<std::int64_t> shares = fastest_shares(takers, sum_of(layers));
    if (shares.empty()) return std::nullopt;
    return with_layers(of.balance, shares);
  }

  static std::int64_t sum_of(const std::vector<std::int64_t>& shares) {
    return std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  }

  bool learn(const DeviceBalance& balance, Knowledge& known) const {
    std::optional<PartLoads> loads = measured(balance);
    if (!loads) return false;
    known.balance = balance;
    known.loads = std::move(*loads);
    MeasuredShares batches{balance.replicas, {}}, layers{layers_of(balance), {}};
    for (std::size_t d = 0; d < balance.replicas.size(); ++d)
      batches.seconds.push_back(seconds_of_replica(known.loads, d));
    for (std::size_t s = 0; s < layers.units.size(); ++s)
      layers.seconds.push_back(seconds_of_rank(known.loads[s % known.loads.size()]) *
                               static_cast<double>(known.loads.size()) /
                               static_cast<double>(layers.units.size()));
    known.batches.push_back(std::move(batches));
    known.layers.push_back(std::move(layers));
    return true;
  }

  static bool fits(const PartLoads& loads) {
    for (const std::vector<PartLoad>& of_rank : loads)
      for (const PartLoad& part : of_rank)
        if (part.spare_bytes < 0) return false;
    return true;
  }

  // Makes shares, looks whether they fit, and makes them anew with what that taught of memory.
  std::optional<DeviceBalance> corrected(const DeviceBalance& from, MakeShares make) const {
    Knowledge known;
    if (!learn(from, known)) return std::nullopt;
    for (std::size_t i = 0; i < most_corrections; ++i) {
      const std::optional<DeviceBalance> next = (this->*make)(known);
      if (!next) return std::nullopt;
      if (*next == known.balance || !learn(*next, known)) return next;
      if (fits(known.loads)) return next;
    }
    return known.balance;
  }

  // The same as often as it teaches something of times and memory; of what fits the one whose slowest part is
  // fastest.
  std::optional<DeviceBalance> refined(const DeviceBalance& from, MakeShares make) const {
    Knowledge known;
    if (!learn(from, known)) return std::nullopt;
    std::vector<DeviceBalance> seen{from};
    std::optional<DeviceBalance> best;
    double least = 0;
    while (true) {
      const double slowest = slowest_part(known.loads);
      if (fits(known.loads) && (!best || slowest < least)) {
        best = known.balance;
        least = slowest;
      }
      const std::optional<DeviceBalance> next = (this->*make)(known);
      if (!next || std::ranges::find(seen, *next) != seen.end() || seen.size() > most_corrections)
        return best;
      seen.push_back(*next);
      if (!learn(*next, known)) return best;
    }
  }

  static double slowest_part(const PartLoads& loads) {
    double slowest = 0;
    for (const std::vector<PartLoad>& of_rank : loads) slowest = std::max(slowest, seconds_of_rank(of_rank));
    return slowest;
  }

  const JobLoader& load_;
  const Job job_;
  const std::int64_t max_memory_;
  std::vector<BalancedPlan> plans_;
};

}  // namespace

std::vector<BalancedPlan> balanced_plans(const JobLoader& load, std::int64_t max_memory) {
  return Balancer(load, max_memory).plans();
}

}  // namespace simrun
