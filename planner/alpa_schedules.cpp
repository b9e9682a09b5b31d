#include "planner/alpa_schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "schedules/evaluate_schedule.h"

namespace simrun {
namespace {

constexpr std::size_t most_numbers = 3;  // of virtual stages that are tried, the smallest

// Seconds of a layer, and of what the ends have besides.
struct LayerSeconds {
  double layer = 0, before = 0, behind = 0;
};

// The stage that takes least per layer has nothing else.
LayerSeconds layer_seconds(const AlpaPlan& plan) {
  const auto layers = [](const AlpaStage& of) { return static_cast<double>(of.last_layer - of.first_layer); };
  LayerSeconds seconds{std::numeric_limits<double>::infinity(), 0, 0};
  for (const AlpaStage& stage : plan.stages)
    seconds.layer = std::min(seconds.layer, stage.seconds / layers(stage));
  const AlpaStage &first = plan.stages.front(), &last = plan.stages.back();
  seconds.before = std::max(0.0, first.seconds - layers(first) * seconds.layer);
  seconds.behind = std::max(0.0, last.seconds - layers(last) * seconds.layer);
  return seconds;
}

Placement placement_of(const std::string& schedule) {
  const ScheduleEntry* entry = find_schedule(schedule);
  return entry == nullptr ? Placement::loop : entry->placement;
}

std::vector<double> dealt_seconds(const LayerSeconds& seconds, const std::vector<std::int64_t>& layers) {
  std::vector<double> stages;
  stages.reserve(layers.size());
  for (const std::int64_t count : layers) stages.push_back(static_cast<double>(count) * seconds.layer);
  stages.front() += seconds.before;
  stages.back() += seconds.behind;
  return stages;
}

// The ends need none, as they have the embedding and the loss.
std::int64_t least_layers(const std::vector<std::int64_t>& layers, std::size_t stage) {
  return stage == 0 || stage + 1 == layers.size() ? 0 : 1;
}

// Layers by stage: each next one is its rank's who would be done first with it, and there the stage's that
// would be.
std::vector<std::int64_t> dealt_layers(const AlpaPlan& plan, const RankSchedule& schedule) {
  const LayerSeconds seconds = layer_seconds(plan);
  const auto ranks = static_cast<int>(plan.pipeline);
  const Placement placement = placement_of(schedule.name);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(plan.pipeline * schedule.virtual_stages), 1);
  for (const std::size_t end : {std::size_t{0}, layers.size() - 1}) layers[end] = least_layers(layers, end);
  std::vector<double> stages = dealt_seconds(seconds, layers), busy(static_cast<std::size_t>(ranks), 0);
  const auto rank_of_stage = [&](std::size_t stage) {
    return static_cast<std::size_t>(rank_of(placement, ranks, static_cast<int>(stage)));
  };
  for (std::size_t stage = 0; stage < stages.size(); ++stage) busy[rank_of_stage(stage)] += stages[stage];
  for (std::int64_t left = plan.stages.back().last_layer - std::ssize(layers) + 2; left > 0; --left) {
    const auto rank = static_cast<std::size_t>(std::ranges::min_element(busy) - busy.begin());
    std::size_t to = layers.size();
    for (std::size_t stage = 0; stage < layers.size(); ++stage)
      if (rank_of_stage(stage) == rank && (to == layers.size() || stages[stage] < stages[to])) to = stage;
    ++layers[to];
    stages[to] += seconds.layer;
    busy[rank] += seconds.layer;
  }
  return layers;
}

PipelineShape shape_of(const AlpaPlan& plan, const RankSchedule& schedule) {
  return {static_cast<int>(plan.pipeline), static_cast<int>(schedule.virtual_stages),
          static_cast<int>(plan.microbatches)};
}

std::vector<std::int64_t> numbers_of_stages(const AlpaPlan& plan, const ScheduleEntry& entry,
                                            const ScheduleLimits& limits) {
  const std::int64_t layers = plan.stages.back().last_layer;
  const bool in_rounds = entry.takes_groups;  // of as many microbatches as ranks
  std::vector<std::int64_t> numbers;
  if (in_rounds && plan.microbatches % plan.pipeline != 0) return numbers;
  for (std::int64_t stages = entry.default_virtual_stages; stages * plan.pipeline <= layers; ++stages) {
    if (!limits.virtual_stages.empty() && std::ranges::count(limits.virtual_stages, stages) == 0) continue;
    const PipelineShape shape{static_cast<int>(plan.pipeline), static_cast<int>(stages),
                              static_cast<int>(plan.microbatches)};
    if (entry.refusal(shape).empty()) numbers.push_back(stages);
    if (entry.default_virtual_stages == 1) break;
  }
  // More than two where they divide: as many handovers more, and nothing lost to whole layers.
  if (limits.virtual_stages.empty())
    std::erase_if(numbers, [&](std::int64_t of) { return of > 2 && layers % (of * plan.pipeline) != 0; });
  numbers.resize(std::min(numbers.size(), most_numbers));
  return numbers;
}

}  // namespace

std::vector<RankSchedule> other_schedules(const Job& job, const AlpaPlan& plan,
                                          const ScheduleLimits& limits) {
  std::vector<std::string> names = limits.names;
  if (names.empty())
    names = {"zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "interleaved_1f1b", "interleaved_zb"};
  std::vector<RankSchedule> schedules;
  if (plan.pipeline == 1) return schedules;
  for (const std::string& name : names) {
    if (name == AlpaPlan{}.schedule) continue;
    const ScheduleEntry* entry = find_schedule(name);
    const bool is_dealt = entry != nullptr && entry->default_virtual_stages > 1;
    if (is_dealt && plan.unlike) continue;
    // One rank would gather tied word embeddings for both of its ends.
    if (is_dealt && entry->placement == Placement::wave && plan.zero_stage >= 2 &&
        job.model.tie_word_embeddings)
      continue;
    if (entry == nullptr)  // a search or a file: as it is written
      schedules.push_back({name, 1});
    else
      for (const std::int64_t stages : numbers_of_stages(plan, *entry, limits))
        schedules.push_back({entry->name, stages});
  }
  return schedules;
}

AlpaPlan with_layers(AlpaPlan plan, const RankSchedule& schedule, const std::vector<std::int64_t>& layers) {
  plan.schedule = schedule.name;
  plan.virtual_stages = schedule.virtual_stages;
  const std::vector<AlpaStage> whole = std::move(plan.stages);
  plan.stages.clear();
  std::int64_t first = 0;
  for (const std::int64_t count : layers) {
    const auto of = std::ranges::find_if(whole, [&](const AlpaStage& s) { return first < s.last_layer; });
    plan.stages.push_back({first, first + count, of == whole.end() ? whole.back().mesh : of->mesh, 0, 0, 0});
    first += count;
  }
  return plan;
}

const Schedule& RankSchedules::order_of(const ScheduleEntry& entry, const PipelineShape& shape) {
  const std::tuple key{entry.name, shape.ranks, shape.virtual_stages, shape.microbatches};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = orders_.find(key); known != orders_.end()) return known->second;
  }
  Schedule order = entry.build(shape);
  const std::scoped_lock lock(mutex_);
  return orders_.emplace(key, std::move(order)).first->second;
}

// In picoseconds. Input gradients take as long as weight gradients, and what is repeated comes before them.
static PassTimes times_of(double seconds, double forwards, double handover_s) {
  const auto part = [&](double share) { return std::llround(1e12 * seconds * share / (forwards + 2)); };
  PassTimes times;
  times.forward = part(1);
  times.backward_input = part(forwards);
  times.backward_weight = part(1);
  times.backward = part(forwards + 1);
  times.overlapped = part(forwards + 2);
  times.communication = std::llround(1e12 * handover_s);
  return times;
}

// Seconds of a step's passes.
double RankSchedules::passes_s(const ScheduleEntry& entry, const std::vector<double>& stage_seconds,
                               const PassShares& shares, PipelineShape shape) {
  for (const double seconds : stage_seconds)
    shape.stage_times.push_back(times_of(seconds, shares.forwards, shares.handover_s));
  return 1e-12 * static_cast<double>(evaluate(order_of(entry, shape), shape).makespan);
}

// What the estimate has besides stages is handed on, forth and back.
RankSchedules::PassShares RankSchedules::shares_of(const AlpaPlan& plan, double forwards) {
  double sum = 0, slowest = 0;
  for (const AlpaStage& stage : plan.stages) {
    sum += stage.seconds;
    slowest = std::max(slowest, stage.seconds);
  }
  const double handovers_s = plan.estimate_s - sum - static_cast<double>(plan.microbatches - 1) * slowest;
  return {forwards, std::max(0.0, handovers_s) / (2 * static_cast<double>(plan.pipeline))};
}

// Layers are moved one by one as long as the schedule's passes take less by it, where stages are unlike.
std::vector<std::int64_t> RankSchedules::moved_layers(const AlpaPlan& plan, const RankSchedule& schedule,
                                                      double forwards) {
  constexpr std::size_t most_passes = 4'000'000;  // that are looked at: part of a second
  constexpr double worth_moving = 0.998;
  std::vector<std::int64_t> layers = dealt_layers(plan, schedule);
  const LayerSeconds seconds = layer_seconds(plan);
  const ScheduleEntry* entry = find_schedule(schedule.name);
  PipelineShape shape = shape_of(plan, schedule);
  const PassShares shares = shares_of(plan, forwards);
  const std::size_t passes = 3 * layers.size() * static_cast<std::size_t>(shape.microbatches);
  std::size_t left = most_passes / std::max<std::size_t>(passes, 1);
  const auto taken_by = [&](const std::vector<std::int64_t>& of) {
    left -= std::min<std::size_t>(left, 1);
    return passes_s(*entry, dealt_seconds(seconds, of), shares, shape);
  };
  double best_s = taken_by(layers);
  for (bool is_better = true; is_better && left > 0;) {
    is_better = false;
    std::vector<std::int64_t> best = layers;
    for (std::size_t from = 0; from < layers.size(); ++from)
      for (std::size_t to = 0; to < layers.size() && left > 0; ++to) {
        if (from == to || layers[from] <= least_layers(layers, from)) continue;
        std::vector<std::int64_t> moved = layers;
        --moved[from];
        ++moved[to];
        const double moved_s = taken_by(moved);
        if (moved_s >= worth_moving * best_s) continue;
        best_s = moved_s;
        best = std::move(moved);
        is_better = true;
      }
    layers = std::move(best);
  }
  return layers;
}

AlpaPlan RankSchedules::with_schedule(AlpaPlan plan, const RankSchedule& schedule, double forwards) {
  if (schedule.virtual_stages > 1) return with_layers(plan, schedule, moved_layers(plan, schedule, forwards));
  plan.schedule = schedule.name;
  return plan;
}

double RankSchedules::ratio(const AlpaPlan& under_1f1b, const RankSchedule& schedule, double forwards) {
  const ScheduleEntry* entry = find_schedule(schedule.name);
  if (entry == nullptr) return 1;
  std::vector<double> own;
  for (const AlpaStage& stage : under_1f1b.stages) own.push_back(stage.seconds);
  const PassShares shares = shares_of(under_1f1b, forwards);
  const double before = passes_s(*find_schedule(AlpaPlan{}.schedule), own, shares, shape_of(under_1f1b, {}));
  if (schedule.virtual_stages > 1)
    own = dealt_seconds(layer_seconds(under_1f1b), dealt_layers(under_1f1b, schedule));
  return passes_s(*entry, own, shares, shape_of(under_1f1b, schedule)) / before;
}

}  // namespace simrun
