#include "planner/pipeline_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/microbatches_in_flight.h"
#include "planner/pipeline_bubbles.h"
#include "planner/pipeline_waits.h"
#include "schedules/placement.h"

namespace simrun {
namespace {

Placement placement_of(const Candidate& candidate) {
  return is_wave(candidate)          ? Placement::wave
         : goes_both_ways(candidate) ? Placement::bidirectional
                                     : Placement::loop;
}

std::size_t stages_of_rank(const Candidate& candidate) {
  return goes_both_ways(candidate) ? 2 : static_cast<std::size_t>(candidate.virtual_stages);
}

PartCost sum(PartCost of, const PartCost& with) {
  of.forward_s += with.forward_s;
  of.backward_s += with.backward_s;
  of.input_s += with.input_s;
  of.weight_s += with.weight_s;
  of.pass_peak_bytes = std::max(of.pass_peak_bytes, of.held_bytes + with.pass_peak_bytes);
  of.layer_peak_bytes = std::max(of.layer_peak_bytes, of.held_bytes + with.layer_peak_bytes);
  of.held_bytes += with.held_bytes;
  of.put_off_bytes += with.put_off_bytes;
  of.dense_elements += with.dense_elements;
  of.expert_elements += with.expert_elements;
  of.frozen_elements += with.frozen_elements;
  of.frozen_expert_elements += with.frozen_expert_elements;
  of.copy_bytes += with.copy_bytes;
  of.frozen_copy_bytes += with.frozen_copy_bytes;
  of.cast_s += with.cast_s;
  return of;
}

PartCost of_half_the_microbatches(PartCost of) {
  for (double* seconds : {&of.forward_s, &of.backward_s, &of.input_s, &of.weight_s}) *seconds /= 2;
  return of;
}

void leave_out_tied(const PassCosts& costs, PartCost& of) {
  of.dense_elements -= costs.tied_elements;
  of.frozen_elements -= costs.tied_frozen_elements;
}

std::vector<PartCost> stage_costs(const Candidate& candidate, const std::vector<StageContent>& contents,
                                  const std::vector<const PassCosts*>& of_ranks) {
  std::vector<PartCost> stages;
  std::size_t layer = 0;
  for (const StageContent& content : contents) {
    const PassCosts& costs = *of_ranks[pipeline_rank_of(candidate, stages.size())];
    PartCost stage;
    if (content.embedding) stage = sum(stage, costs.embedding);
    for (std::int64_t i = 0; i < content.layers; ++i) stage = sum(stage, costs.kinds[costs.kind_of[layer++]]);
    if (content.loss) stage = sum(stage, costs.loss);
    if (content.embedding && content.loss) leave_out_tied(costs, stage);
    if (puts_off_weight_gradients(candidate)) stage.backward_s = stage.input_s + stage.weight_s;
    stages.push_back(stage);
  }
  return stages;
}

// Seconds from microbatch to microbatch where those in flight wait for one another: each is held from its
// forward pass on a rank until its backward pass there, and so many at once (Little's law).
double period_s(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                const PipelineSends& sends) {
  const auto p = static_cast<std::size_t>(candidate.pipeline);
  const bool puts_off = puts_off_weight_gradients(candidate);
  std::vector<double> on_rank(p, 0);
  double way = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    if (s + 1 < stages.size()) way += 2 * sends.behind(s);
    way += stages[s].forward_s + (puts_off ? stages[s].input_s : stages[s].backward_s);
    if (goes_both_ways(candidate)) {
      on_rank[s] += way / 2;
      on_rank[p - 1 - s] += way / 2;
    } else {
      on_rank[pipeline_rank_of(candidate, s)] += way;
    }
  }
  const MicrobatchesInFlight in_flight(candidate, microbatches);
  double period = 0;
  for (std::size_t rank = 0; rank < p; ++rank) {
    const double held = in_flight.passes(rank) - in_flight.put_off(rank);
    period = std::max(period, on_rank[rank] / std::max(held, 1.0));
  }
  return period;
}

// Of all stages.
PartCost whole(const PipelineCosts& costs) {
  PartCost all;
  for (const PartCost& stage : costs.stages) {
    all.forward_s += stage.forward_s, all.backward_s += stage.backward_s;
    all.input_s += stage.input_s, all.weight_s += stage.weight_s;
  }
  return all;
}

// The way of the first microbatch to the slowest rank and of the last one back, beyond its own passes there.
// Weight gradients that are put off fill the rest, but those of microbatches that are missing.
double fill_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs) {
  const PartCost all = whole(costs);
  const double pass_s = costs.slowest_pass_s();
  const auto p = static_cast<double>(candidate.pipeline), v = static_cast<double>(candidate.virtual_stages);
  if (goes_both_ways(candidate)) return (p / 2 - 1) * dualpipe_idle_s(all, p);
  const double fill =
      candidate.virtual_stages == 1 ? all.forward_s + all.backward_s - pass_s : (p - 1) * pass_s / v;
  if (!puts_off_weight_gradients(candidate)) return fill;
  return fill * all.input_s / (all.backward_s + all.forward_s) +
         std::max(p - microbatches, 0.0) * all.weight_s / p;
}

// Ranks of a wave with less work than the slowest have their bubbles beside that one's passes, which wait for
// the first ways down and up alone.
double wave_passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs,
                     const std::vector<double>& sends_s) {
  const PipelineSends sends(candidate, sends_s);
  const PartCost all = whole(costs);
  const auto p = static_cast<double>(candidate.pipeline);
  const double mean_s = (all.forward_s + all.backward_s) / p;
  const double fill = wave_bubble_s(candidate, all);
  const double few = candidate.schedule == "zb_v" ? few_microbatches_s(p, microbatches, all) : 0;
  const double behind_first = std::max(microbatches - p, 0.0);
  const PipelineWaits waits = pipeline_waits(candidate, microbatches, costs.stages, sends);
  const double period = std::max({mean_s + waits.per_microbatch_s, lighter_ranks_s(costs.ranks, sends_s),
                                  period_s(candidate, microbatches, costs.stages, sends),
                                  candidate.schedule == "v_min" ? slots_s(p, all) : 0});
  return few + std::max(microbatches * costs.slowest_pass_s() + 4 * sends.sum(),
                        microbatches * mean_s + fill + waits.once_s + behind_first * (period - mean_s));
}

double elements(const PartCost& of) { return of.dense_elements + of.expert_elements; }

// What ZeRO leaves of so many elements on a rank: its shards, which both ranks of a stage divide between
// them.
double sharded(const Candidate& candidate, double dense_elements, double expert_elements) {
  const double dense =
      static_cast<double>(candidate.data * candidate.context) * (goes_both_ways(candidate) ? 2 : 1);
  const double experts = std::max(1.0, dense * static_cast<double>(candidate.tensor) /
                                           static_cast<double>(candidate.expert * candidate.expert_tensor));
  return dense_elements / dense + expert_elements / experts;
}

double sharded_elements(const Candidate& candidate, const PartCost& of) {
  return sharded(candidate, of.dense_elements, of.expert_elements);
}

// Of frozen weights, which no gradient is put off for.
double kept_frozen_elements(const Candidate& candidate, const PartCost& of) {
  if (candidate.zero_stage >= 3) return sharded(candidate, of.frozen_elements, of.frozen_expert_elements);
  return of.frozen_elements + of.frozen_expert_elements;
}

// Of a rank between its passes.
double kept_bytes(const PassCosts& costs, const Candidate& candidate, const PartCost& rank) {
  const double shards = sharded_elements(candidate, rank);
  const auto bytes = [&](double per_element, int sharded_from) {
    return per_element * (candidate.zero_stage < sharded_from ? elements(rank) : shards);
  };
  const bool gathers = candidate.zero_stage >= 3;
  return (gathers ? 0 : rank.copy_bytes + rank.frozen_copy_bytes) +
         costs.weight_bytes * kept_frozen_elements(candidate, rank) + bytes(costs.weight_bytes, 3) +
         bytes(costs.gradient_bytes, 2) + bytes(costs.state_bytes, 1);
}

// Beyond its shards ZeRO-3 holds, while a layer is at work, its copies in fp8 and whole weights of two
// layers, the next being gathered beside the passes of one, and whole gradients of one until they are
// scattered. Logits and their losses are largest when no weights are needed.
double gathered_bytes(const PassCosts& costs, const Candidate& candidate) {
  if (candidate.zero_stage < 3) return 0;
  const double layers =
      std::ceil(static_cast<double>(costs.kind_of.size()) / static_cast<double>(candidate.pipeline));
  const double weight_bytes = std::min(2.0, layers) * costs.weight_bytes;
  double largest = 0;
  for (const PartCost& of : costs.kinds) {
    const double bytes =
        weight_bytes *
            (of.frozen_elements + of.frozen_expert_elements - kept_frozen_elements(candidate, of)) +
        of.frozen_copy_bytes + of.copy_bytes +
        (weight_bytes + costs.gradient_bytes) * (elements(of) - sharded_elements(candidate, of));
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Bytes of pipeline ranks at most. Estimates ask for these more often than for anything else: the schedule's
// name is looked at once.
class RankPeaks {
 public:
  // `times`: of the activations that `pipeline` has. All but the vectors must outlive it.
  RankPeaks(const PassCosts& costs, const Candidate& candidate, double microbatches,
            const PipelineCosts& pipeline, double times)
      : costs_(costs),
        candidate_(candidate),
        pipeline_(pipeline),
        microbatches_(microbatches),
        times_(times),
        gathered_(gathered_bytes(costs, candidate)),
        placement_(placement_of(candidate)),
        has_two_ways_(is_wave(candidate) || goes_both_ways(candidate)),
        in_order_(candidate.schedule == "zb_h1" || candidate.schedule == "zb_h2"),
        in_flight_(candidate, microbatches),
        held_(stages_of_rank(candidate)),
        put_off_of_chunk_(held_.size()) {}

  // The peak, or the rank's where that is higher.
  double raised(double peak, std::size_t rank) {
    // In a backward pass one microbatch holds what it held; those before it, what was put off.
    const double put_off = in_flight_.put_off(rank);
    const std::size_t ranks = pipeline_.ranks.size(), chunks = held_.size();
    double bytes = 0, within_pass = 0, within_layer = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const PartCost& stage = pipeline_.stages[static_cast<std::size_t>(
          stage_of(placement_, static_cast<int>(ranks), static_cast<int>(rank), static_cast<int>(chunk)))];
      held_[chunk] = stage.held_bytes;
      put_off_of_chunk_[chunk] = stage.put_off_bytes;
      bytes += put_off * (stage.put_off_bytes - stage.held_bytes) / static_cast<double>(chunks);
      within_pass = std::max(within_pass, stage.pass_peak_bytes - stage.held_bytes);
      within_layer = std::max(within_layer, stage.layer_peak_bytes - stage.held_bytes);
    }
    const double others = kept_bytes(costs_, candidate_, pipeline_.ranks[rank]) + times_ * bytes;
    const double of_layer = times_ * within_layer + gathered_,
                 of_pass = std::max(of_layer, times_ * within_pass);
    if (has_two_ways_) {
      const MicrobatchesInFlight::OfWave most = in_flight_.bytes_of_wave(rank, held_, put_off_of_chunk_);
      peak = std::max({peak, others + of_pass + times_ * most.in_passes,
                       others + of_layer + times_ * most.between_halves});
    } else if (others + of_pass + times_ * in_flight_.passes(rank) * std::ranges::max(held_) > peak) {
      peak = std::max(peak, others + of_pass + times_ * in_flight_.bytes(rank, held_));
    }
    // Behind that backward pass, before its weight gradients, its microbatch is put off, too.
    if (in_order_ && put_off < microbatches_)
      peak =
          std::max(peak, others + times_ * (in_flight_.bytes(rank, held_) + put_off_of_chunk_[0] - held_[0]));
    return peak;
  }

 private:
  const PassCosts& costs_;
  const Candidate& candidate_;
  const PipelineCosts& pipeline_;
  double microbatches_, times_, gathered_;
  Placement placement_;
  bool has_two_ways_, in_order_;
  MicrobatchesInFlight in_flight_;
  std::vector<double> held_, put_off_of_chunk_;
};

}  // namespace

double PipelineCosts::slowest_pass_s() const {
  double slowest = 0;
  for (const PartCost& rank : ranks) slowest = std::max(slowest, rank.forward_s + rank.backward_s);
  return slowest;
}

PipelineCosts with_ranks(std::vector<PartCost> stages, const Candidate& candidate) {
  PipelineCosts costs{std::move(stages), std::vector<PartCost>(static_cast<std::size_t>(candidate.pipeline))};
  const auto add = [&](std::size_t rank, const PartCost& stage) {
    costs.ranks[rank] = sum(costs.ranks[rank], stage);
  };
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    if (!goes_both_ways(candidate)) {
      add(pipeline_rank_of(candidate, s), costs.stages[s]);
      continue;
    }
    const PartCost half = of_half_the_microbatches(costs.stages[s]);
    add(s, half);
    add(costs.ranks.size() - 1 - s, half);
  }
  return costs;
}

PipelineCosts pipeline_costs(const Candidate& candidate, const std::vector<StageContent>& contents,
                             const std::vector<const PassCosts*>& of_ranks) {
  PipelineCosts of = with_ranks(stage_costs(candidate, contents, of_ranks), candidate);
  // The first rank of a wave has both the embedding and the loss, as have both ends of DualPipe.
  if (candidate.pipeline > 1 && (is_wave(candidate) || goes_both_ways(candidate)))
    leave_out_tied(*of_ranks.front(), of.ranks.front());
  if (candidate.pipeline > 1 && goes_both_ways(candidate)) leave_out_tied(*of_ranks.back(), of.ranks.back());
  return of;
}

PipelineCosts pipeline_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  const std::vector<StageContent> contents =
      balanced_stages(job, candidate.pipeline * candidate.virtual_stages);
  if (contents.empty()) return {};
  return pipeline_costs(candidate, contents,
                        std::vector(static_cast<std::size_t>(candidate.pipeline), &costs));
}

bool puts_off_weight_gradients(const Candidate& candidate) {
  return candidate.schedule.starts_with("zb") || candidate.schedule.starts_with("v_") ||
         candidate.schedule == "interleaved_zb";
}

bool is_wave(const Candidate& candidate) {
  const std::string& of = candidate.schedule;
  return of == "zb_v" || of == "v_half" || of == "v_min" || of == "dualpipe_v";
}

std::size_t pipeline_rank_of(const Candidate& candidate, std::size_t stage) {
  return static_cast<std::size_t>(
      rank_of(placement_of(candidate), static_cast<int>(candidate.pipeline), static_cast<int>(stage)));
}

bool goes_both_ways(const Candidate& candidate) { return candidate.schedule == "dualpipe"; }

bool sums_tied(const Candidate& candidate) {
  return candidate.pipeline > 1 && !is_wave(candidate) && !goes_both_ways(candidate);
}

double passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs,
                const std::vector<double>& sends_s) {
  const double pass_s = costs.slowest_pass_s();
  if (candidate.pipeline == 1) return microbatches * pass_s;
  if (is_wave(candidate)) return wave_passes_s(candidate, microbatches, costs, sends_s);
  const PipelineSends sends(candidate, sends_s);
  const PartCost all = whole(costs);
  const auto p = static_cast<double>(candidate.pipeline);
  const PipelineWaits waits = pipeline_waits(candidate, microbatches, costs.stages, sends);
  // A rank with less work than the slowest has time for what it waits for.
  const double period = std::max({pass_s, (all.forward_s + all.backward_s) / p + waits.per_microbatch_s,
                                  period_s(candidate, microbatches, costs.stages, sends)});
  const double waiting = std::max(microbatches - p, 0.0) * (period - pass_s) + waits.once_s;
  if (candidate.schedule == "zb_h2" && microbatches >= 2 * p - 1)
    return without_idling_s(microbatches, costs.stages) + waiting;
  return microbatches * pass_s + fill_s(candidate, microbatches, costs) + waiting;
}

double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const PipelineCosts& pipeline, double times) {
  RankPeaks peaks(costs, candidate, microbatches, pipeline, times);
  double peak = 0;
  for (std::size_t rank = 0; rank < pipeline.ranks.size(); ++rank) peak = peaks.raised(peak, rank);
  return peak;
}

std::vector<double> peaks_of_ranks(const PassCosts& costs, const Candidate& candidate, double microbatches,
                                   const PipelineCosts& pipeline) {
  RankPeaks peaks(costs, candidate, microbatches, pipeline, 1);
  std::vector<double> of;
  for (std::size_t rank = 0; rank < pipeline.ranks.size(); ++rank) of.push_back(peaks.raised(0, rank));
  return of;
}

}  // namespace simrun
