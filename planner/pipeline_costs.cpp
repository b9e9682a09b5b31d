#include "planner/pipeline_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/pipeline_waits.h"
#include "schedules/placement.h"

namespace simrun {
namespace {

Placement placement_of(const Candidate& candidate) {
  return is_wave(candidate) ? Placement::wave : Placement::loop;
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

void leave_out_tied(const PassCosts& costs, PartCost& of) {
  of.dense_elements -= costs.tied_elements;
  of.frozen_elements -= costs.tied_frozen_elements;
}

std::vector<PartCost> stage_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  std::vector<PartCost> stages;
  std::size_t layer = 0;
  for (const StageContent& content : balanced_stages(job, candidate.pipeline * candidate.virtual_stages)) {
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

// Bytes of the first passes of a rank with virtual stages: they take microbatches in groups as large as the
// pipeline, one stage after the other.
class GroupedPasses {
 public:
  // stage_bytes: of one microbatch, in the order of the passes.
  GroupedPasses(double group, std::vector<double> stage_bytes)
      : group_(group), bytes_(std::move(stage_bytes)), before_(bytes_.size() + 1, 0) {
    for (std::size_t stage = 0; stage < bytes_.size(); ++stage)
      before_[stage + 1] = before_[stage] + group * bytes_[stage];
  }

  double of_first(double passes) const {
    const double round = group_ * static_cast<double>(bytes_.size());
    const double rounds = std::floor(passes / round), rest = passes - rounds * round;
    const auto stage = static_cast<std::size_t>(rest / group_);
    const double begun =
        stage < bytes_.size() ? (rest - static_cast<double>(stage) * group_) * bytes_[stage] : 0;
    return rounds * before_.back() + before_[stage] + begun;
  }

 private:
  double group_;
  std::vector<double> bytes_, before_;  // before_: of a group's passes on the stages in front
};

// What a pipeline rank's virtual stages hold of microbatches between their forward and backward passes.
class InFlight {
 public:
  InFlight(const Candidate& of, double microbatches)
      : p_(static_cast<double>(of.pipeline)),
        v_(static_cast<double>(of.virtual_stages)),
        microbatches_(microbatches),
        holds_all_(of.schedule == "gpipe" || of.schedule == "looped_bfs"),
        // What weight gradients were put off of is held as long.
        is_even_(of.schedule == "zb_h1"),
        is_wave_(is_wave(of)),
        fills_up_(of.schedule == "interleaved_zb") {}

  // Forward passes of all its stages that are most ahead of their backward passes.
  double passes(std::size_t rank) const {
    if (holds_all_) return microbatches_ * v_;
    if (is_even_ || is_wave_) return std::min(microbatches_, p_) * v_;
    const double behind = p_ - static_cast<double>(rank) - 1;
    const double most = fills_up_ ? v_ * p_ : v_ == 1 ? behind + 1 : 2 * behind + (v_ - 1) * p_ + 1;
    return std::min(most, microbatches_ * v_);
  }

  // At most, where a microbatch has so many bytes on each stage. Backward passes begin with the last stage,
  // so that as many microbatches are now on the first stages and now on the last.
  double bytes(std::size_t rank, const std::vector<double>& stage_bytes) const {
    const double ahead = passes(rank);
    if (holds_all_ || is_even_ ||
        std::ranges::count(stage_bytes, stage_bytes.front()) == std::ssize(stage_bytes))
      return ahead / v_ * std::accumulate(stage_bytes.begin(), stage_bytes.end(), 0.0);
    const GroupedPasses forward(p_, stage_bytes), backward(p_, {stage_bytes.rbegin(), stage_bytes.rend()});
    const double last = std::min(p_ * v_, microbatches_ * v_ - ahead);  // from there on it repeats, or ends
    double most = 0;
    const auto look = [&](double ended) {
      const double at = std::clamp(ended, 0.0, last);
      most = std::max(most, forward.of_first(ahead + at) - backward.of_first(at));
    };
    for (double group = 0; group <= v_; ++group) {  // between these it goes straight
      look(group * p_);
      look(group * p_ - std::fmod(ahead, p_));
    }
    return most;
  }

  // Likewise of ZB-V, whose two stages come back unequally late, in its passes and between their halves.
  struct OfWave {
    double in_passes = 0, between_halves = 0;
  };
  OfWave bytes_of_wave(std::size_t rank, const std::vector<double>& stage_bytes,
                       const std::vector<double>& put_off_bytes) const {
    const double ahead = passes(rank);
    const double first = std::min(microbatches_, 2 * p_ - static_cast<double>(rank));
    const double second = std::min(microbatches_, static_cast<double>(rank) + 1);
    const double with_first = first * stage_bytes[0] + std::min(second, ahead - first) * stage_bytes[1];
    const double with_second = std::min(first, ahead - second) * stage_bytes[0] + second * stage_bytes[1];
    return {std::max(with_first, with_second), std::max({with_first + put_off_bytes[0] - stage_bytes[0],
                                                         with_second + put_off_bytes[1] - stage_bytes[1],
                                                         bytes_in_drain(rank, stage_bytes, put_off_bytes)})};
  }

 private:
  // The last backward passes' halves for weights run last: of the first stage what is yet to come back is
  // held, and of both what waits for weight gradients. Of fewer than 2p - 1 microbatches the passes of the
  // missing ones are left out, the last of which would have been those of the drain.
  double bytes_in_drain(std::size_t rank, const std::vector<double>& stage_bytes,
                        const std::vector<double>& put_off_bytes) const {
    const auto behind = static_cast<double>(rank);
    const double missing = std::max(2 * p_ - 1 - microbatches_, 0.0);
    const double left = std::max(p_ - missing, 0.0);
    const double first = std::min(behind + 1, left), second = std::max(behind - missing, 0.0);
    return (left - first) * stage_bytes[0] + first * put_off_bytes[0] + second * put_off_bytes[1];
  }

  double p_, v_, microbatches_;
  bool holds_all_, is_even_, is_wave_, fills_up_;
};

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
    on_rank[pipeline_rank_of(candidate, s)] += way;
  }
  const InFlight in_flight(candidate, microbatches);
  double period = 0;
  for (std::size_t rank = 0; rank < p; ++rank) {
    double held = in_flight.passes(rank);
    if (puts_off && !is_wave(candidate)) held = std::max(held - static_cast<double>(rank), 1.0);
    period = std::max(period, on_rank[rank] / held);
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
  const double fill =
      candidate.virtual_stages == 1 ? all.forward_s + all.backward_s - pass_s : (p - 1) * pass_s / v;
  if (!puts_off_weight_gradients(candidate)) return fill;
  return fill * all.input_s / (all.backward_s + all.forward_s) +
         std::max(p - microbatches, 0.0) * all.weight_s / p;
}

// Of ZB-V, whose bubble is twice as long where it has no more microbatches than ranks. Ranks with less work
// than the slowest have it beside that one's passes, which wait for the first ways down and up alone.
double wave_passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs,
                     const std::vector<double>& sends_s) {
  const PipelineSends sends(candidate, sends_s);
  const PartCost all = whole(costs);
  const auto p = static_cast<double>(candidate.pipeline);
  const double mean_s = (all.forward_s + all.backward_s) / p;
  const double fill = (p - 1) / p * all.input_s / 2;
  const double few = fill * std::clamp(1 - 2 * (microbatches - p) / p, 0.0, 1.0) +
                     std::max(p - microbatches, 0.0) * all.weight_s / p;
  const double behind_first = std::max(microbatches - p, 0.0);
  const PipelineWaits waits = pipeline_waits(candidate, microbatches, costs.stages, sends);
  const double period = std::max({mean_s + waits.per_microbatch_s, lighter_ranks_s(costs.ranks, sends_s),
                                  period_s(candidate, microbatches, costs.stages, sends)});
  return few + std::max(microbatches * costs.slowest_pass_s() + 4 * sends.sum(),
                        microbatches * mean_s + fill + waits.once_s + behind_first * (period - mean_s));
}

// What ZeRO leaves of so many elements on a rank: its shards.
double sharded(const Candidate& candidate, double dense_elements, double expert_elements) {
  const double dense = static_cast<double>(candidate.data * candidate.context);
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

double kept_bytes(const PassCosts& costs, const Candidate& candidate, const PartCost& rank) {
  const auto bytes = [&](double per_element, bool is_sharded) {
    return per_element *
           (is_sharded ? sharded_elements(candidate, rank) : rank.dense_elements + rank.expert_elements);
  };
  // Weight gradients that are put off keep what they read and add to whole.
  const bool keeps_shards = !puts_off_weight_gradients(candidate);
  const bool gathers = candidate.zero_stage >= 3 && keeps_shards;
  return (gathers ? 0 : rank.copy_bytes) + (candidate.zero_stage >= 3 ? 0 : rank.frozen_copy_bytes) +
         costs.weight_bytes * kept_frozen_elements(candidate, rank) + bytes(costs.weight_bytes, gathers) +
         bytes(costs.gradient_bytes, candidate.zero_stage >= 2 && keeps_shards) +
         bytes(costs.state_bytes, candidate.zero_stage >= 1);
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
    double bytes = weight_bytes * (of.frozen_elements + of.frozen_expert_elements -
                                   kept_frozen_elements(candidate, of)) +
                   of.frozen_copy_bytes;
    if (!puts_off_weight_gradients(candidate))
      bytes += of.copy_bytes + (weight_bytes + costs.gradient_bytes) *
                                   (of.dense_elements + of.expert_elements - sharded_elements(candidate, of));
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

double PipelineCosts::slowest_pass_s() const {
  double slowest = 0;
  for (const PartCost& rank : ranks) slowest = std::max(slowest, rank.forward_s + rank.backward_s);
  return slowest;
}

PipelineCosts with_ranks(std::vector<PartCost> stages, const Candidate& candidate) {
  PipelineCosts costs{std::move(stages), std::vector<PartCost>(static_cast<std::size_t>(candidate.pipeline))};
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    PartCost& rank = costs.ranks[pipeline_rank_of(candidate, s)];
    rank = sum(rank, costs.stages[s]);
  }
  return costs;
}

PipelineCosts pipeline_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  std::vector<PartCost> stages = stage_costs(job, candidate, costs);
  if (stages.empty()) return {};
  PipelineCosts of = with_ranks(std::move(stages), candidate);
  // The first rank of a wave has both the embedding and the loss.
  if (is_wave(candidate) && candidate.pipeline > 1) leave_out_tied(costs, of.ranks.front());
  return of;
}

bool puts_off_weight_gradients(const Candidate& candidate) {
  return candidate.schedule.starts_with("zb") || candidate.schedule == "interleaved_zb";
}

bool is_wave(const Candidate& candidate) { return candidate.schedule == "zb_v"; }

std::size_t pipeline_rank_of(const Candidate& candidate, std::size_t stage) {
  return static_cast<std::size_t>(
      rank_of(placement_of(candidate), static_cast<int>(candidate.pipeline), static_cast<int>(stage)));
}

bool sums_tied(const Candidate& candidate) { return candidate.pipeline > 1 && !is_wave(candidate); }

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
  return microbatches * pass_s + fill_s(candidate, microbatches, costs) +
         std::max(microbatches - p, 0.0) * (period - pass_s) + waits.once_s;
}

double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const PipelineCosts& pipeline, double times) {
  const std::size_t ranks = pipeline.ranks.size();
  const auto chunks = static_cast<std::size_t>(candidate.virtual_stages);
  // Estimates call this more often than anything else: the schedule's name is looked at once.
  const Placement placement = placement_of(candidate);
  const bool in_wave = is_wave(candidate), in_order = candidate.schedule == "zb_h1";
  const bool puts_off = puts_off_weight_gradients(candidate);
  const InFlight in_flight(candidate, microbatches);
  const double gathered = gathered_bytes(costs, candidate);
  std::vector<double> held(chunks), put_off_of_chunk(chunks);
  double peak = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    // In a backward pass one microbatch holds what it held; those before it, what was put off.
    const double put_off = puts_off && !in_wave ? std::min(microbatches - 1, static_cast<double>(rank)) : 0;
    double bytes = 0, within_pass = 0, within_layer = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const PartCost& stage = pipeline.stages[static_cast<std::size_t>(
          stage_of(placement, static_cast<int>(ranks), static_cast<int>(rank), static_cast<int>(chunk)))];
      held[chunk] = stage.held_bytes;
      put_off_of_chunk[chunk] = stage.put_off_bytes;
      bytes += put_off * (stage.put_off_bytes - stage.held_bytes) / static_cast<double>(chunks);
      within_pass = std::max(within_pass, stage.pass_peak_bytes - stage.held_bytes);
      within_layer = std::max(within_layer, stage.layer_peak_bytes - stage.held_bytes);
    }
    const double others = kept_bytes(costs, candidate, pipeline.ranks[rank]) + times * bytes;
    const double of_layer = times * within_layer + gathered,
                 of_pass = std::max(of_layer, times * within_pass);
    if (in_wave) {
      const InFlight::OfWave most = in_flight.bytes_of_wave(rank, held, put_off_of_chunk);
      peak = std::max(
          {peak, others + of_pass + times * most.in_passes, others + of_layer + times * most.between_halves});
    } else if (others + of_pass + times * in_flight.passes(rank) * std::ranges::max(held) > peak) {
      peak = std::max(peak, others + of_pass + times * in_flight.bytes(rank, held));
    }
    // Behind that backward pass, before its weight gradients, its microbatch is put off, too.
    if (in_order && put_off < microbatches)
      peak = std::max(peak, others + times * (in_flight.bytes(rank, held) + put_off_of_chunk[0] - held[0]));
  }
  return peak;
}

}  // namespace simrun
