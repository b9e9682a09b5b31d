#include "planner/alpa_stages.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <utility>

namespace simrun {
namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

}  // namespace

StageCosts::StageCosts(int layer_count, int device_count, std::vector<int> devices_of_mesh, int stage_count)
    : layers(layer_count),
      devices(device_count),
      mesh_devices(std::move(devices_of_mesh)),
      most_stages(stage_count),
      seconds(as_size(stage_count) * mesh_devices.size() * as_size(layer_count) * as_size(layer_count),
              unreachable),
      handover(mesh_devices.size() * as_size(layer_count), 0) {}

std::size_t StageCosts::index(int following, int mesh, int first, int last) const {
  const std::size_t kind = as_size(following) * mesh_devices.size() + as_size(mesh);
  return (kind * as_size(layers) + as_size(first)) * as_size(layers) + as_size(last - 1);
}

std::size_t StageCosts::handover_index(int mesh, int last) const {
  return as_size(mesh) * as_size(layers) + as_size(last - 1);
}

namespace {

// The least sum with no stage slower than a bound, backwards from the last layer.
class BoundedSums {
 public:
  BoundedSums(const StageCosts& costs, double slowest)
      : costs_(costs),
        slowest_(slowest),
        least_devices_(*std::min_element(costs.mesh_devices.begin(), costs.mesh_devices.end())),
        most_devices_(*std::max_element(costs.mesh_devices.begin(), costs.mesh_devices.end())),
        columns_(as_size(costs.devices + 1)) {
    const std::size_t states = as_size(costs.layers + 1) * columns_;
    std::vector<double> after(states, unreachable);
    after[state(costs.layers, 0)] = 0;
    for (int following = 0; following < costs.most_stages; ++following) {
      std::vector<double> sums(states, unreachable);
      std::vector<Move> moves(states);
      for (int first = costs.layers - 1; first >= 0; --first) extend(following, first, after, sums, moves);
      moves_.push_back(std::move(moves));
      const double whole = sums[state(0, costs.devices)];
      if (whole < sum_) {
        sum_ = whole;
        stages_ = following + 1;
      }
      after = std::move(sums);
    }
  }

  double sum() const { return sum_; }

  std::vector<PlacedStage> stages() const {
    std::vector<PlacedStage> placed;
    int first = 0, devices = costs_.devices;
    for (int following = stages_ - 1; following >= 0; --following) {
      const Move& move = moves_[as_size(following)][state(first, devices)];
      placed.push_back({first, move.last, move.mesh,
                        costs_.seconds[costs_.index(following, move.mesh, first, move.last)]});
      first = move.last;
      devices -= costs_.mesh_devices[as_size(move.mesh)];
    }
    return placed;
  }

 private:
  struct Move {
    int last = 0, mesh = 0;
  };
  std::size_t state(int first, int devices) const { return as_size(first) * columns_ + as_size(devices); }
  bool crosses_nodes(int begin, int taken) const {
    const int node = costs_.node_devices;
    if (node == 0 || begin % node == 0) return false;
    return begin / node != (begin + taken - 1) / node;
  }

  void extend(int following, int first, const std::vector<double>& after, std::vector<double>& sums,
              std::vector<Move>& moves) const {
    for (int mesh = 0; mesh < static_cast<int>(costs_.mesh_devices.size()); ++mesh) {
      const int taken = costs_.mesh_devices[as_size(mesh)];
      // Stages that follow have a layer and a mesh each.
      const int least = taken + following * least_devices_;
      const int most = std::min(costs_.devices, taken + following * most_devices_);
      for (int last = first + 1; last <= costs_.layers - following; ++last) {
        const double own = costs_.seconds[costs_.index(following, mesh, first, last)];
        if (own > slowest_) continue;
        const double with_handover = own + costs_.handover[costs_.handover_index(mesh, last)];
        for (int devices = least; devices <= most; ++devices) {
          if (crosses_nodes(costs_.devices - devices, taken)) continue;
          const double sum = with_handover + after[state(last, devices - taken)];
          double& best = sums[state(first, devices)];
          if (sum >= best) continue;
          best = sum;
          moves[state(first, devices)] = {last, mesh};
        }
      }
    }
  }

  const StageCosts& costs_;
  double slowest_;
  int least_devices_, most_devices_;  // of a stage
  std::size_t columns_;
  std::vector<std::vector<Move>> moves_;  // by stages that follow
  double sum_ = unreachable;
  int stages_ = 0;
};

class PartitionSearch {
 public:
  PartitionSearch(const StageCosts& costs, int microbatches, double most_seconds)
      : costs_(costs),
        repeats_(static_cast<double>(microbatches - 1)),
        most_seconds_(most_seconds),
        bounds_(costs.seconds) {
    std::erase(bounds_, unreachable);
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  }

  std::optional<StagePartition> run() {
    if (bounds_.empty()) return std::nullopt;
    const double least_sum = evaluate(bounds_.size() - 1);
    if (least_sum == unreachable) return std::nullopt;
    search(0, bounds_.size() - 1, least_sum);
    if (best_.seconds > most_seconds_) return std::nullopt;
    best_.evaluated = evaluated_;
    return best_;
  }

 private:
  double evaluate(std::size_t bound) {
    ++evaluated_;
    const BoundedSums sums(costs_, bounds_[bound]);
    if (sums.sum() == unreachable) return unreachable;
    std::vector<PlacedStage> stages = sums.stages();
    double slowest = 0;
    for (const PlacedStage& stage : stages) slowest = std::max(slowest, stage.seconds);
    const double seconds = sums.sum() + repeats_ * slowest;
    if (best_.stages.empty() || seconds < best_.seconds) {
      best_.stages = std::move(stages);
      best_.seconds = seconds;
    }
    return sums.sum();
  }

  // Bounds [from, to), given the least sum at `to`, which none of them is below.
  void search(std::size_t from, std::size_t to, double sum_at_end) {
    const double least = from < to ? sum_at_end + repeats_ * bounds_[from] : unreachable;
    if (least >= best_.seconds || least > most_seconds_) return;
    const std::size_t middle = from + (to - from) / 2;
    const double sum = evaluate(middle);
    search(middle + 1, to, sum_at_end);
    if (sum < unreachable) search(from, middle, sum);
  }

  const StageCosts& costs_;
  double repeats_, most_seconds_;
  std::vector<double> bounds_;
  StagePartition best_;
  int evaluated_ = 0;
};

}  // namespace

std::optional<StagePartition> best_partition(const StageCosts& costs, int microbatches, double most_seconds) {
  return PartitionSearch(costs, microbatches, most_seconds).run();
}

std::vector<int> cluster_layers(const std::vector<double>& weights, int groups) {
  const int layers = static_cast<int>(weights.size());
  using Rank = std::pair<double, double>;  // heaviest group, sum of squares
  struct State {
    Rank rank{unreachable, unreachable};
    int begin = 0;  // of the last group
  };
  std::vector<std::vector<State>> best(as_size(groups + 1), std::vector<State>(as_size(layers + 1)));
  best[0][0].rank = {0, 0};
  for (int group = 1; group <= groups; ++group)
    for (int begin = 0; begin < layers; ++begin) {
      const Rank before = best[as_size(group - 1)][as_size(begin)].rank;
      double weight = 0;
      for (int end = begin + 1; end <= layers && before.first < unreachable; ++end) {
        weight += weights[as_size(end - 1)];
        const Rank rank{std::max(before.first, weight), before.second + weight * weight};
        State& state = best[as_size(group)][as_size(end)];
        if (rank < state.rank) state = {rank, begin};
      }
    }
  std::vector<int> ends;
  for (int group = groups, end = layers; group > 0; --group) {
    ends.push_back(end);
    end = best[as_size(group)][as_size(end)].begin;
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

std::vector<int> stage_units(int layers, int stages, int most) {
  const auto equal_parts = [](int count, int parts) {
    return cluster_layers(std::vector<double>(as_size(count), 1.0), std::min(count, parts));
  };
  if (layers <= most) return equal_parts(layers, layers);
  std::vector<int> ends;
  int begin = 0;
  for (const int stage_end : equal_parts(layers, stages)) {
    for (const int end : equal_parts(stage_end - begin, std::max(1, most / stages)))
      ends.push_back(begin + end);
    begin = stage_end;
  }
  return ends;
}

}  // namespace simrun
