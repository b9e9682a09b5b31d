#include "planner/balanced_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "configs/pipeline_layout.h"
#include "planner/layer_shares.h"
#include "planner/pipeline_costs.h"

namespace simrun {

namespace {

constexpr double hopeless_balanced = 1.2;  // x the room: no step of it is timed
constexpr int most_tries = 4;              // of layers, by what the last ones lacked of memory

// As configs/replica_rules.cpp refuses them.
bool may_have_unlike_batches(const Job& job) {
  return job.model.experts.count == 0 && !job.training.documents && !job.training.fp8 &&
         !job.optimizer.parameter_server;
}

double stretched(double seconds, double slowest, double on_kind) {
  return slowest > 0 ? seconds * on_kind / slowest : seconds;
}

// At least as long as `part` takes on the kind.
void stretch(const PartCost& part, const PartCost& slowest, const PartCost& on_kind, PartCost& to) {
  for (double PartCost::*time : {&PartCost::forward_s, &PartCost::backward_s, &PartCost::input_s,
                                 &PartCost::weight_s, &PartCost::cast_s})
    to.*time = std::max(to.*time, stretched(part.*time, slowest.*time, on_kind.*time));
}

PartCost without_times(PartCost of) {
  of.forward_s = of.backward_s = of.input_s = of.weight_s = of.cast_s = 0;
  return of;
}

// Bytes beyond the room, below 0 where some are left.
double lacks(const Estimate& of) { return of.peak_bytes - of.room_bytes; }

PassCosts without_times(PassCosts of) {
  for (PartCost& kind : of.kinds) kind = without_times(kind);
  of.embedding = without_times(of.embedding);
  of.loss = without_times(of.loss);
  return of;
}

}  // namespace

BalancedEstimator::BalancedEstimator(const LoadedJob& of, LoadCandidate load, const LoadOnKind& load_on_kind,
                                     SharedStepPrices& steps, KnownPasses known)
    : job_(of.job),
      limits_(of.plan),
      kinds_(job_.cluster),
      may_share_batches_(may_have_unlike_batches(job_)),
      slowest_(job_, std::move(load), steps, std::move(known.slowest)) {
  known.of_kinds.resize(kinds_.count());
  for (std::size_t kind = 0; kind < kinds_.count(); ++kind) {
    largest_memory_ = std::max(largest_memory_, static_cast<double>(kinds_.gpu(kind).memory_bytes));
    on_kinds_.emplace_back(
        job_, [load_on_kind, kind](const Candidate& with) { return load_on_kind(with, kind); }, steps,
        std::move(known.of_kinds[kind]));
  }
}

KnownPasses BalancedEstimator::passes() && {
  KnownPasses known{std::move(slowest_).passes(), {}};
  for (Estimator& of : on_kinds_) known.of_kinds.push_back(std::move(of).passes());
  return known;
}

// ---- What passes cost where ----

// Of the smallest microbatches: kinds differ about as much in others, which need not all be priced.
const std::vector<BalancedEstimator::Stretch>* BalancedEstimator::stretches_of(const Candidate& of) {
  const auto [slot, is_new] = stretches_.try_emplace({of.tensor, of.context, of.expert, of.expert_tensor});
  std::vector<Stretch>& stretches = slot->second;
  if (is_new)
    for (Estimator& on_kind : on_kinds_) {
      const PassCosts* slow = slowest_.passes_of(of, 1, RecomputeGranularity::none);
      const PassCosts* own = on_kind.passes_of(of, 1, RecomputeGranularity::none);
      if (slow == nullptr || own == nullptr) {
        stretches.clear();
        break;
      }
      stretches.push_back({*slow, *own});
    }
  return stretches.empty() ? nullptr : &stretches;
}

// As long as the slowest of the kinds needs, in the memory that all of them have.
const PassCosts* BalancedEstimator::passes_on(const Candidate& of, std::int64_t micro_batch,
                                              const Kinds& kinds) {
  const PassCosts* costs = slowest_.passes_of(of, micro_batch, of.recompute);
  if (costs == nullptr) return nullptr;
  const std::vector<Stretch>* stretches = stretches_of(of);
  if (stretches == nullptr) return nullptr;
  const auto [slot, is_new] = stretched_.try_emplace({costs, kinds});
  if (!is_new) return &slot->second;
  PassCosts& on = slot->second = without_times(*costs);
  double memory = largest_memory_;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    if (!kinds[kind]) continue;
    const auto& [slowest, on_kind] = (*stretches)[kind];
    for (std::size_t layer = 0; layer < on.kinds.size(); ++layer)
      stretch(costs->kinds[layer], slowest.kinds[layer], on_kind.kinds[layer], on.kinds[layer]);
    stretch(costs->embedding, slowest.embedding, on_kind.embedding, on.embedding);
    stretch(costs->loss, slowest.loss, on_kind.loss, on.loss);
    memory = std::min(memory, static_cast<double>(kinds_.gpu(kind).memory_bytes));
  }
  on.room_bytes -= largest_memory_ - memory;
  if (limits_.max_memory > 0)
    on.room_bytes = std::min(on.room_bytes, static_cast<double>(limits_.max_memory));
  return &on;
}

std::optional<BalancedEstimator::RankCosts> BalancedEstimator::costs_on(const Candidate& of,
                                                                        std::int64_t micro_batch,
                                                                        const std::vector<Kinds>& kinds) {
  RankCosts costs;
  for (const Kinds& of_rank : kinds) {
    costs.push_back(passes_on(of, micro_batch, of_rank));
    if (costs.back() == nullptr) return std::nullopt;
  }
  return costs;
}

BalancedEstimator::Placed BalancedEstimator::placed(const Candidate& of, DeviceBalance balance) const {
  const auto none = Kinds(kinds_.count(), false);
  Placed placed{std::move(balance), std::vector(static_cast<std::size_t>(of.pipeline), none),
                std::vector(static_cast<std::size_t>(of.data), none)};
  const std::int64_t width = of.tensor * of.context;
  for (std::int64_t device = 0; device < width * of.pipeline * of.data; ++device) {
    const std::vector<std::int64_t>& map = placed.balance.rank_map;
    const std::int64_t rank = map.empty() ? device : map[static_cast<std::size_t>(device)];
    const std::size_t kind = kinds_.of(device);
    placed.of_ranks[static_cast<std::size_t>(rank / (width * of.data))][kind] = true;
    placed.of_replicas[static_cast<std::size_t>(rank / width % of.data)][kind] = true;
  }
  return placed;
}

// The first one as ranks lie by themselves.
const std::vector<BalancedEstimator::Placed>& BalancedEstimator::placements(const Candidate& of) {
  const auto [slot, is_new] = placements_.try_emplace({of.tensor * of.context, of.pipeline, of.data});
  if (!is_new) return slot->second;
  slot->second.push_back(placed(of, {}));
  for (DeviceBalance& balance : placements_of(with_candidate(job_, of)))
    if (!balance.rank_map.empty()) slot->second.push_back(placed(of, std::move(balance)));
  return slot->second;
}

double BalancedEstimator::microbatches(const Candidate& of) const {
  return static_cast<double>(of.microbatches(job_.training.global_batch_size));
}

std::vector<double> BalancedEstimator::spare_bytes(const Candidate& of, const RankCosts& costs,
                                                   const PipelineCosts& pipeline) const {
  std::vector<double> spare = peaks_of_ranks(*costs.front(), of, microbatches(of), pipeline);
  for (std::size_t rank = 0; rank < spare.size(); ++rank) spare[rank] = costs[rank]->room_bytes - spare[rank];
  return spare;
}

// ---- Estimates ----

// All GPUs at work all the time, each at its own pace; 0 where that is not known.
double BalancedEstimator::least_s(const Candidate& of) {
  if (slowest_.too_large(of, RecomputeGranularity::none)) return 0;
  Candidate plain = of;
  plain.recompute = RecomputeGranularity::none;
  double passes_per_s = 0;
  for (std::size_t kind = 0; kind < kinds_.count(); ++kind) {
    Kinds only(kinds_.count(), false);
    only[kind] = true;
    const PassCosts* costs = passes_on(plain, of.micro_batch, only);
    if (costs == nullptr) return 0;
    passes_per_s += static_cast<double>(kinds_.devices(kind)) / static_cast<double>(of.tensor * of.context) /
                    least_pass_s(*costs, of.recompute);
  }
  return static_cast<double>(of.data) * microbatches(of) / passes_per_s;
}

// Of memory what is said of the rank that lacks most, or else of the fullest.
std::optional<Estimate> BalancedEstimator::estimate_of(const Candidate& of, const RankCosts& costs,
                                                       const std::vector<StageContent>& stages) {
  const PipelineCosts pipeline = pipeline_costs(of, stages, costs);
  const std::vector<double> spare = spare_bytes(of, costs, pipeline);
  std::size_t worst = 0;
  const auto peak = [&](std::size_t rank) { return costs[rank]->room_bytes - spare[rank]; };
  const bool fits = std::ranges::min(spare) >= 0;
  for (std::size_t rank = 1; rank < spare.size(); ++rank)
    if (fits ? peak(rank) > peak(worst) : spare[rank] < spare[worst]) worst = rank;
  Estimate estimate{.step_s = 0,
                    .peak_bytes = peak(worst),
                    .room_bytes = costs[worst]->room_bytes,
                    .excess = memory_excess(of)};
  if (estimate.peak_bytes > hopeless_balanced * estimate.room_bytes) return estimate;
  const std::optional<double> seconds = slowest_.step_s(of, pipeline, costs.front()->tied_elements);
  if (!seconds) return std::nullopt;
  estimate.step_s = *seconds;
  return estimate;
}

// Layers that every rank has memory for, on the line through one layer on each stage and as many on all.
std::vector<std::int64_t> BalancedEstimator::rooms_for_layers(const Candidate& of,
                                                              const RankCosts& costs) const {
  const std::vector<StageContent> even = balanced_stages(job_, of.pipeline * of.virtual_stages);
  std::vector<StageContent> least = even;
  for (StageContent& stage : least) stage.layers = 1;
  const std::vector<double> with_even = spare_bytes(of, costs, pipeline_costs(of, even, costs)),
                            with_least = spare_bytes(of, costs, pipeline_costs(of, least, costs));
  std::vector<std::int64_t> layers(costs.size(), 0), needed(costs.size(), 0), rooms;
  for (std::size_t s = 0; s < even.size(); ++s) {
    layers[pipeline_rank_of(of, s)] += even[s].layers;
    needed[pipeline_rank_of(of, s)] += least_layers(even[s]);
  }
  for (std::size_t rank = 0; rank < costs.size(); ++rank) {
    const std::int64_t beyond = layers[rank] - of.virtual_stages;
    double room = static_cast<double>(job_.model.num_layers);
    if (const double of_layers = with_least[rank] - with_even[rank]; beyond > 0 && of_layers > 0)
      room = std::min(room, std::floor(static_cast<double>(of.virtual_stages) +
                                       with_least[rank] / of_layers * static_cast<double>(beyond)));
    rooms.push_back(std::max(static_cast<std::int64_t>(room), needed[rank]));
  }
  return rooms;
}

std::optional<EstimatedCandidate> BalancedEstimator::with_layers(Candidate of, const Placed& on) {
  const std::optional<RankCosts> costs = costs_on(of, of.micro_batch, on.of_ranks);
  if (!costs) return std::nullopt;
  of.balance = on.balance;
  const std::vector<StageContent> even = balanced_stages(job_, of.pipeline * of.virtual_stages);
  std::vector<std::int64_t> rooms = rooms_for_layers(of, *costs);
  std::vector<StageContent> stages;
  for (int i = 0; i < most_tries; ++i) {
    stages = stages_by_time(job_, of, *costs, rooms);
    if (stages.empty()) return std::nullopt;
    const std::vector<double> spare = spare_bytes(of, *costs, pipeline_costs(of, stages, *costs));
    const bool is_hopeless =
        std::accumulate(rooms.begin(), rooms.end(), std::int64_t{0}) < job_.model.num_layers;
    if (std::ranges::min(spare) >= 0 || is_hopeless) break;
    std::vector<std::int64_t> layers(costs->size(), 0), needed(costs->size(), 0);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      layers[pipeline_rank_of(of, s)] += stages[s].layers;
      needed[pipeline_rank_of(of, s)] += least_layers(stages[s]);
    }
    for (std::size_t rank = 0; rank < spare.size(); ++rank) {
      if (spare[rank] >= 0 || layers[rank] == needed[rank]) continue;
      const double each = ((*costs)[rank]->room_bytes - spare[rank]) / static_cast<double>(layers[rank]);
      rooms[rank] =
          std::max(layers[rank] - static_cast<std::int64_t>(std::ceil(-spare[rank] / each)), needed[rank]);
    }
  }
  const std::optional<Estimate> estimate = estimate_of(of, *costs, stages);
  if (!estimate) return std::nullopt;
  if (stages != even) of.balance.layout = pipeline_layout_text(stages);
  return EstimatedCandidate{std::move(of), *estimate};
}

// Replicas by their kinds of GPU: times and memory of a sequence more.
std::vector<BalancedEstimator::ReplicaGroup> BalancedEstimator::replica_groups(const Candidate& of,
                                                                               const Placed& on) {
  std::map<Kinds, std::vector<std::size_t>> by_kinds;
  for (std::size_t d = 0; d < on.of_replicas.size(); ++d) by_kinds[on.of_replicas[d]].push_back(d);
  std::vector<ReplicaGroup> groups;
  const std::vector<StageContent> even = balanced_stages(job_, of.pipeline * of.virtual_stages);
  for (auto& [kinds, replicas] : by_kinds) {
    ReplicaGroup group{kinds, std::move(replicas)};
    std::vector<double> least_spare;
    for (const std::int64_t micro : {std::int64_t{1}, of.micro_batch}) {
      const PassCosts* costs = passes_on(of, micro, kinds);
      if (costs == nullptr) return {};
      const RankCosts of_ranks(static_cast<std::size_t>(of.pipeline), costs);
      const PipelineCosts pipeline = pipeline_costs(of, even, of_ranks);
      group.seconds = pipeline.slowest_pass_s() / static_cast<double>(micro);
      least_spare.push_back(std::ranges::min(spare_bytes(of, of_ranks, pipeline)));
    }
    const double each = (least_spare[0] - least_spare[1]) / static_cast<double>(of.micro_batch - 1);
    const double room =
        each > 0 ? std::floor(1 + least_spare[0] / each) : static_cast<double>(of.micro_batch * of.data);
    group.room =
        static_cast<std::int64_t>(std::clamp(room, 0.0, static_cast<double>(of.micro_batch * of.data)));
    groups.push_back(std::move(group));
  }
  return groups;
}

// Who would be done first with one sequence more takes it, replicas of one kind alike as long as there are
// enough; false: they have no room for all.
bool BalancedEstimator::share_out(std::int64_t sequences, std::vector<ReplicaGroup>& groups) {
  const auto count = [](const ReplicaGroup& of) { return std::ssize(of.replicas); };
  std::int64_t left = sequences;
  for (const ReplicaGroup& of : groups) {
    if (of.room < 1) return false;
    left -= count(of);
  }
  while (left > 0) {
    ReplicaGroup* soonest = nullptr;
    for (ReplicaGroup& of : groups) {
      if (of.more > 0 || of.share >= of.room) continue;
      const auto done = [](const ReplicaGroup& at) { return static_cast<double>(at.share + 1) * at.seconds; };
      if (soonest == nullptr || done(of) < done(*soonest)) soonest = &of;
    }
    if (soonest == nullptr) return false;
    if (left >= count(*soonest))
      ++soonest->share;
    else
      soonest->more = left;
    left -= std::min(left, count(*soonest));
  }
  return true;
}

std::optional<EstimatedCandidate> BalancedEstimator::with_batches(Candidate of, const Placed& on) {
  if (!may_share_batches_ || of.data == 1 || of.micro_batch == 1) return std::nullopt;
  std::vector<ReplicaGroup> groups = replica_groups(of, on);
  if (groups.size() < 2 || !share_out(of.micro_batch * of.data, groups)) return std::nullopt;
  const std::vector<StageContent> even = balanced_stages(job_, of.pipeline * of.virtual_stages);
  of.balance = on.balance;
  of.balance.micro_batch = of.micro_batch;
  of.balance.replicas.resize(static_cast<std::size_t>(of.data));
  std::optional<EstimatedCandidate> slowest;
  for (const ReplicaGroup& group : groups) {
    for (std::size_t i = 0; i < group.replicas.size(); ++i)
      of.balance.replicas[group.replicas[i]] = group.share + (std::cmp_less(i, group.more) ? 1 : 0);
    const PassCosts* costs = passes_on(of, group.share + (group.more > 0 ? 1 : 0), group.kinds);
    if (costs == nullptr) return std::nullopt;
    const std::optional<Estimate> own =
        estimate_of(of, RankCosts(static_cast<std::size_t>(of.pipeline), costs), even);
    if (!own) return std::nullopt;
    if (!slowest) slowest = EstimatedCandidate{{}, *own};
    const double seconds = std::max(slowest->estimate.step_s, own->step_s);
    if (lacks(*own) > lacks(slowest->estimate)) slowest->estimate = *own;
    slowest->estimate.step_s = seconds;
  }
  slowest->candidate = std::move(of);
  return slowest;
}

// What fits by its estimate comes first, then what makes less of the objective.
void BalancedEstimator::offer(std::optional<EstimatedCandidate> next,
                              std::optional<EstimatedCandidate>& best) const {
  const auto key = [&](const EstimatedCandidate& of) {
    const double lacking = std::max(lacks(of.estimate), 0.0);
    return std::pair(lacking, goal_of(limits_.minimise, of.estimate.step_s, of.estimate.peak_bytes));
  };
  if (next && (!best || key(*next) < key(*best))) best = std::move(next);
}

std::optional<EstimatedCandidate> BalancedEstimator::estimate(const Candidate& of, double most_s) {
  if (std::isfinite(most_s))
    if (const double least = least_s(of); least > most_s)
      return EstimatedCandidate{of, {.step_s = least, .is_bound = true}};
  if (std::optional<Estimate> large = slowest_.too_large(of, of.recompute)) {
    // Held against the largest GPU; nothing is said of one that has less.
    large->room_bytes -= largest_memory_ - static_cast<double>(least_memory(job_.cluster));
    return EstimatedCandidate{of, *large};
  }
  const std::vector<StageContent> even = balanced_stages(job_, of.pipeline * of.virtual_stages);
  if (even.empty()) return std::nullopt;
  std::optional<EstimatedCandidate> best;
  const std::vector<Placed>& all = placements(of);
  if (const std::optional<RankCosts> costs = costs_on(of, of.micro_batch, all.front().of_ranks))
    if (const std::optional<Estimate> equal = estimate_of(of, *costs, even))
      offer(EstimatedCandidate{of, *equal}, best);
  for (const Placed& on : all) {
    if (of.pipeline > 1) offer(with_layers(of, on), best);
    offer(with_batches(of, on), best);
  }
  return best;
}

}  // namespace simrun
