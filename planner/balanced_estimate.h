#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "configs/load_job.h"
#include "configs/node_groups.h"
#include "planner/estimate.h"
#include "planner/shortlist.h"

namespace simrun {

// What passes were found to cost: on the slowest kind of GPU, and a few of them on every kind.
struct KnownPasses {
  PassTable slowest;
  std::vector<PassTable> of_kinds = {};
};

// The candidate's job as the loader accepts it, on a cluster of one kind of GPU only; by kind.
using LoadOnKind = std::function<std::optional<Job>(const Candidate&, std::size_t kind)>;

// Estimates candidates on a cluster of several kinds of GPU as they are once they are balanced: with equal
// shares, with layers in proportion to what the kinds of the stages' GPUs need for them, and with batches
// likewise, each where ranks lie as placements_of() has them, and within every kind's memory. So what is
// compared is what will be simulated: equal shares of what is best when balanced may fit nowhere. Not
// thread-safe.
class BalancedEstimator {
 public:
  // REQUIRES: has_layer_kinds(of.job). The job with its limits and the prices must outlive it.
  BalancedEstimator(const LoadedJob& of, LoadCandidate load, const LoadOnKind& load_on_kind,
                    SharedStepPrices& steps, KnownPasses known = {});

  // The best of these, with its balance; nothing where the loader or the compiler refuses the sizes; a bound
  // where that is above `most_s`.
  std::optional<EstimatedCandidate> estimate(const Candidate& candidate, double most_s);
  KnownPasses passes() &&;

 private:
  using Kinds = std::vector<bool>;  // whether each is among them
  // Which kinds of GPU a pipeline's ranks and its replicas have.
  struct Placed {
    DeviceBalance balance;
    std::vector<Kinds> of_ranks, of_replicas;
  };
  // How much longer passes take on a kind than on the slowest one.
  struct Stretch {
    PassCosts slowest, on_kind;
  };
  using RankCosts = std::vector<const PassCosts*>;  // by pipeline rank
  // Replicas that may take so many sequences of a microbatch each, `more` of them one more.
  struct ReplicaGroup {
    Kinds kinds;
    std::vector<std::size_t> replicas;
    double seconds = 0;  // of a sequence
    std::int64_t room = 0, share = 1, more = 0;
  };

  const std::vector<Stretch>* stretches_of(const Candidate& of);
  const PassCosts* passes_on(const Candidate& of, std::int64_t micro_batch, const Kinds& kinds);
  std::optional<RankCosts> costs_on(const Candidate& of, std::int64_t micro_batch,
                                    const std::vector<Kinds>& kinds);
  const std::vector<Placed>& placements(const Candidate& of);
  Placed placed(const Candidate& of, DeviceBalance balance) const;
  double microbatches(const Candidate& of) const;
  std::vector<double> spare_bytes(const Candidate& of, const RankCosts& costs,
                                  const PipelineCosts& pipeline) const;
  double least_s(const Candidate& of);
  std::optional<Estimate> estimate_of(const Candidate& of, const RankCosts& costs,
                                      const std::vector<StageContent>& stages);
  std::optional<EstimatedCandidate> with_layers(Candidate of, const Placed& on);
  std::vector<std::int64_t> rooms_for_layers(const Candidate& of, const RankCosts& costs) const;
  std::optional<EstimatedCandidate> with_batches(Candidate of, const Placed& on);
  static bool share_out(std::int64_t sequences, std::vector<ReplicaGroup>& groups);
  std::vector<ReplicaGroup> replica_groups(const Candidate& of, const Placed& on);
  void offer(std::optional<EstimatedCandidate> next, std::optional<EstimatedCandidate>& best) const;

  const Job& job_;
  const PlanConfig& limits_;
  const GpuKinds kinds_;
  double largest_memory_ = 0;
  bool may_share_batches_;
  Estimator slowest_;
  std::vector<Estimator> on_kinds_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::vector<Stretch>>
      stretches_;  // by split of a stage's ranks; empty: refused
  std::map<std::pair<const PassCosts*, Kinds>, PassCosts> stretched_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Placed>> placements_;
};

}  // namespace simrun
