#include "planner/pipeline_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace simrun {
namespace {

PartCost sum(PartCost of, const PartCost& with) {
  of.forward_s += with.forward_s;
  of.backward_s += with.backward_s;
  of.pass_peak_bytes = std::max(of.pass_peak_bytes, of.held_bytes + with.pass_peak_bytes);
  of.held_bytes += with.held_bytes;
  of.put_off_bytes += with.put_off_bytes;
  of.dense_elements += with.dense_elements;
  of.expert_elements += with.expert_elements;
  return of;
}

std::vector<PartCost> stage_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  std::vector<PartCost> stages;
  std::size_t layer = 0;
  for (const StageContent& content : balanced_stages(job, candidate.pipeline * candidate.virtual_stages)) {
    PartCost stage;
    if (content.embedding) stage = sum(stage, costs.embedding);
    for (std::int64_t i = 0; i < content.layers; ++i) stage = sum(stage, costs.kinds[costs.kind_of[layer++]]);
    if (content.loss) stage = sum(stage, costs.loss);
    if (content.embedding && content.loss) stage.dense_elements -= costs.tied_elements;
    stages.push_back(stage);
  }
  return stages;
}

// Microbatches of a pipeline rank's virtual stages that it holds when it holds most.
class InFlight {
 public:
  InFlight(const Candidate& of, double microbatches)
      : p_(static_cast<double>(of.pipeline)),
        v_(static_cast<double>(of.virtual_stages)),
        microbatches_(microbatches),
        holds_all_(of.schedule == "gpipe" || of.schedule == "looped_bfs"),
        // What weight gradients were put off of is held as long.
        is_even_(of.schedule == "zb_v" || of.schedule == "zb_h1"),
        fills_up_(of.schedule == "interleaved_zb") {}

  // Forward passes take them in groups as large as the pipeline, one stage after the other.
  double of(std::size_t rank, std::size_t stage) const {
    if (holds_all_) return microbatches_;
    if (is_even_) return std::min(microbatches_, p_);
    const double behind = p_ - static_cast<double>(rank) - 1;
    const double most = fills_up_ ? v_ * p_ : v_ == 1 ? behind + 1 : 2 * behind + (v_ - 1) * p_ + 1;
    const double passes = std::min(most, microbatches_ * v_);
    if (v_ == 1) return passes;
    const double rounds = std::floor(passes / (p_ * v_));
    return rounds * p_ + std::clamp(passes - rounds * p_ * v_ - static_cast<double>(stage) * p_, 0.0, p_);
  }

 private:
  double p_, v_, microbatches_;
  bool holds_all_, is_even_, fills_up_;
};

// Seconds from microbatch to microbatch where those in flight wait for one another: each is held from its
// forward pass on a rank until its backward pass there, and so many at once (Little's law).
double period_s(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                double send_s) {
  const auto p = static_cast<std::size_t>(candidate.pipeline);
  const auto v = static_cast<std::size_t>(candidate.virtual_stages);
  const bool puts_off = puts_off_weight_gradients(candidate);
  std::vector<double> on_rank(p, 0);
  double way = -2 * send_s;
  for (std::size_t s = stages.size(); s-- > 0;) {
    // Weight gradients take about as long as the forward pass.
    way += stages[s].backward_s + (puts_off ? 0 : stages[s].forward_s) + 2 * send_s;
    on_rank[s % p] += way;
  }
  const InFlight in_flight(candidate, microbatches);
  double period = 0;
  for (std::size_t rank = 0; rank < p; ++rank) {
    double held = 0;
    for (std::size_t stage = 0; stage < v; ++stage) held += in_flight.of(rank, stage);
    if (puts_off) held = std::max(held - static_cast<double>(rank), 1.0);
    period = std::max(period, on_rank[rank] / held);
  }
  return period;
}

// What ZeRO leaves of the elements on a rank: its shards.
double sharded_elements(const Candidate& candidate, const PartCost& of) {
  const double dense = static_cast<double>(candidate.data * candidate.context);
  const double experts = std::max(1.0, dense * static_cast<double>(candidate.tensor) /
                                           static_cast<double>(candidate.expert * candidate.expert_tensor));
  return of.dense_elements / dense + of.expert_elements / experts;
}

double kept_bytes(const PassCosts& costs, const Candidate& candidate, const PartCost& rank) {
  const auto bytes = [&](double per_element, bool is_sharded) {
    return per_element *
           (is_sharded ? sharded_elements(candidate, rank) : rank.dense_elements + rank.expert_elements);
  };
  // Weight gradients that are put off keep what they read and add to whole.
  const bool keeps_shards = !puts_off_weight_gradients(candidate);
  return bytes(costs.weight_bytes, candidate.zero_stage >= 3 && keeps_shards) +
         bytes(costs.gradient_bytes, candidate.zero_stage >= 2 && keeps_shards) +
         bytes(costs.state_bytes, candidate.zero_stage >= 1);
}

// Beyond its shards ZeRO-3 holds whole weights of two layers, the next being gathered beside the passes of
// one, and whole gradients of one until they are scattered.
double gathered_bytes(const PassCosts& costs, const Candidate& candidate) {
  if (candidate.zero_stage < 3 || puts_off_weight_gradients(candidate)) return 0;
  double largest = 0;
  for (const PartCost& layer : costs.kinds)
    largest =
        std::max(largest, layer.dense_elements + layer.expert_elements - sharded_elements(candidate, layer));
  const double layers =
      std::ceil(static_cast<double>(costs.kind_of.size()) / static_cast<double>(candidate.pipeline));
  return largest * (std::min(2.0, layers) * costs.weight_bytes + costs.gradient_bytes);
}

}  // namespace

double PipelineCosts::slowest_pass_s() const {
  double slowest = 0;
  for (const PartCost& rank : ranks) slowest = std::max(slowest, rank.forward_s + rank.backward_s);
  return slowest;
}

PipelineCosts with_ranks(std::vector<PartCost> stages, std::int64_t pipeline_ranks) {
  PipelineCosts costs{std::move(stages), std::vector<PartCost>(static_cast<std::size_t>(pipeline_ranks))};
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    PartCost& rank = costs.ranks[s % costs.ranks.size()];
    rank = sum(rank, costs.stages[s]);
  }
  return costs;
}

PipelineCosts pipeline_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  std::vector<PartCost> stages = stage_costs(job, candidate, costs);
  if (stages.empty()) return {};
  return with_ranks(std::move(stages), candidate.pipeline);
}

bool puts_off_weight_gradients(const Candidate& candidate) {
  return candidate.schedule.starts_with("zb") || candidate.schedule == "interleaved_zb";
}

double passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs, double send_s) {
  const std::vector<PartCost>& stages = costs.stages;
  const double pass_s = costs.slowest_pass_s();
  if (candidate.pipeline == 1) return microbatches * pass_s;
  const auto others = static_cast<double>(candidate.pipeline - 1);
  double fill = 0, forward = 0, backward = 0;
  for (const PartCost& stage : stages) forward += stage.forward_s, backward += stage.backward_s;
  if (candidate.virtual_stages == 1)
    fill = forward + backward - pass_s;
  else
    fill = others * (pass_s / static_cast<double>(candidate.virtual_stages));
  if (puts_off_weight_gradients(candidate)) fill *= std::max(backward - forward, 0.0) / (backward + forward);
  const double behind_first = std::max(microbatches - static_cast<double>(candidate.pipeline), 0.0);
  const double waits = std::max(period_s(candidate, microbatches, stages, send_s) - pass_s, 0.0);
  return microbatches * pass_s + fill + behind_first * waits +
         2 * static_cast<double>(stages.size() - 1) * send_s;
}

double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const PipelineCosts& pipeline, double times) {
  const std::size_t ranks = pipeline.ranks.size();
  const auto chunks = static_cast<std::size_t>(candidate.virtual_stages);
  const bool puts_off = puts_off_weight_gradients(candidate);
  const InFlight in_flight(candidate, microbatches);
  double peak = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    // In a backward pass one microbatch holds what it held; those before it, what was put off.
    const double put_off = puts_off ? std::min(microbatches - 1, static_cast<double>(rank)) : 0;
    double bytes = 0, within_pass = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const PartCost& stage = pipeline.stages[chunk * ranks + rank];
      bytes += in_flight.of(rank, chunk) * stage.held_bytes;
      bytes += put_off * (stage.put_off_bytes - stage.held_bytes) / static_cast<double>(chunks);
      within_pass = std::max(within_pass, stage.pass_peak_bytes - stage.held_bytes);
    }
    peak = std::max(peak, kept_bytes(costs, candidate, pipeline.ranks[rank]) + times * (bytes + within_pass));
  }
  return peak + gathered_bytes(costs, candidate);
}

}  // namespace simrun
