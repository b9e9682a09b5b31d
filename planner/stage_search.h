#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/alpa_rules.h"
#include "planner/alpa_search.h"
#include "planner/alpa_stages.h"
#include "planner/stage_fronts.h"

namespace simrun {

// What is given where the stages are searched.
struct SearchPoint {
  std::int64_t pipeline = 1, sequences = 1;  // of a microbatch
  int zero_stage = 0;
  bool hides_data_parallel = false;  // StageShape
  bool unlike = false;  // any number of stages, each on a sub-mesh of any size, whose axes are tp and dp
  // Whose microbatches in flight are planned for, with as many stages of a rank; of stages of equal size.
  std::string schedule = AlpaPlan{}.schedule;
  std::int64_t virtual_stages = 1;
  bool operator==(const SearchPoint&) const = default;
};
SearchPoint point_of(const AlpaPlan& plan);

// What no plan at a point is below, whatever it takes of memory.
struct StageBound {
  double step_s = 0;     // under 1F1B
  double slowest_s = 0;  // of the same stages, what the slowest is busy: under any schedule
};

struct StageResult {
  std::optional<AlpaPlan> plan;
  // x what a plan may take of memory: the fullest of the stages that would be fastest if memory did not
  // count.
  double fullness = 0;
};

// Whether stages of unlike size can be compiled for the job at all (configs/stage_size_rules.cpp).
bool may_be_unlike(const Job& job);

// The inter-operator level for stages that take so many sequences at a time: all logical meshes of their
// devices, all ways to cut the layers.
class StageSearch {
 public:
  // `options` must outlive it. Throws std::invalid_argument as alpa_plans() does.
  StageSearch(const Job& job, const AlpaOptions& options, const SearchPoint& point,
              CollectivePrices& collectives);

  // Of the best plan by its estimate, whatever it takes of memory. Nothing where there is no mesh or there
  // are fewer layers than stages.
  std::optional<StageBound> lower_bound() const;

  // The plan that is best by the dynamic program's objective (alpa_stages.h); where the estimate of that is
  // above `most_seconds`, another one above it or nothing.
  std::optional<AlpaPlan> best_plan(double most_seconds = std::numeric_limits<double>::infinity()) const;
  // Likewise, and why it is no faster.
  StageResult search(double most_seconds) const;

 private:
  struct Kind {
    int mesh = 0, following = 0;
  };
  struct Units {
    int first = 0, last = 0;  // [first, last)
  };
  struct Fronts;
  struct Table;
  enum class Memory : std::uint8_t { ignored, counts };
  struct Limits {
    Memory memory = Memory::counts;
    double seconds = std::numeric_limits<double>::infinity();  // of a plan
  };

  std::vector<LogicalMesh> meshes() const;
  void make_graphs(CollectivePrices& collectives);
  void make_units();
  std::int32_t first_segment(int unit) const;
  std::int32_t last_segment(int unit) const;
  std::int64_t in_flight(int following) const;
  void count_in_flight();
  Table table(Limits limits) const;
  std::vector<Units> stages_of(int following, int units) const;
  void add_cheapest(Table& all, Fronts& fronts, Kind kind, const Units& stage, Limits limits) const;
  void settle(Table& all, Kind kind) const;
  bool settle(Table& all, const StagePartition& partition) const;
  int most_stages() const;
  void keep_given_meshes(StageCosts& all) const;
  std::optional<StagePartition> best_of(const StageCosts& all, double most_seconds) const;
  std::optional<StagePartition> with_like_ends(StagePartition best, const StageCosts& all,
                                               double most_seconds) const;
  StageLayouts layouts_of_stage(const PlacedStage& placed, int following) const;
  bool settle_tied(const StagePartition& partition, std::vector<StageLayouts>& layouts) const;
  std::optional<AlpaPlan> plan_of(const StagePartition& partition) const;

  double estimate(const StagePartition& partition) const;
  static double fullest_bytes(const Table& all, const StagePartition& partition);

  Job job_;  // with the point's ZeRO stage
  const AlpaOptions& options_;
  SearchPoint point_;
  std::int64_t microbatches_ = 1;
  double budget_ = 0;                    // bytes
  std::vector<std::int64_t> in_flight_;  // by stages that follow; empty: 1F1B's
  std::vector<StageGraph> graphs_;
  std::vector<LogicalMesh> meshes_;  // theirs
  std::vector<int> unit_ends_;       // layers
};

}  // namespace simrun
