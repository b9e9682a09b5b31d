#include "planner/microbatches_in_flight.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "planner/pipeline_costs.h"

namespace simrun {

void GroupedPasses::set(double group, std::span<const double> stage_bytes, bool is_reversed) {
  group_ = group;
  bytes_.assign(stage_bytes.begin(), stage_bytes.end());
  if (is_reversed) std::ranges::reverse(bytes_);
  before_.assign(1, 0);
  for (const double bytes : bytes_) before_.push_back(before_.back() + group * bytes);
}

double GroupedPasses::of_first(double passes) const {
  const double round = group_ * static_cast<double>(bytes_.size());
  const double rounds = std::floor(passes / round), rest = passes - rounds * round;
  const auto stage = static_cast<std::size_t>(rest / group_);
  const double begun =
      stage < bytes_.size() ? (rest - static_cast<double>(stage) * group_) * bytes_[stage] : 0;
  return rounds * before_.back() + before_[stage] + begun;
}

MicrobatchesInFlight::MicrobatchesInFlight(const Candidate& of, double microbatches)
    : p_(static_cast<double>(of.pipeline)),
      v_(static_cast<double>(of.virtual_stages)),
      microbatches_(microbatches),
      holds_all_(of.schedule == "gpipe" || of.schedule == "looped_bfs"),
      // What weight gradients were put off of is held as long.
      is_even_(of.schedule == "zb_h1"),
      is_wave_(is_wave(of)),
      fills_up_(of.schedule == "interleaved_zb") {}

double MicrobatchesInFlight::passes(std::size_t rank) const {
  if (holds_all_) return microbatches_ * v_;
  if (is_even_ || is_wave_) return std::min(microbatches_, p_) * v_;
  const double behind = p_ - static_cast<double>(rank) - 1;
  const double most = fills_up_ ? v_ * p_ : v_ == 1 ? behind + 1 : 2 * behind + (v_ - 1) * p_ + 1;
  return std::min(most, microbatches_ * v_);
}

// Backward passes begin with the last stage, so that as many microbatches are now on the first stages and now
// on the last.
double MicrobatchesInFlight::bytes(std::size_t rank, const std::vector<double>& stage_bytes) {
  const double ahead = passes(rank);
  if (holds_all_ || is_even_ ||
      std::ranges::count(stage_bytes, stage_bytes.front()) == std::ssize(stage_bytes))
    return ahead / v_ * std::accumulate(stage_bytes.begin(), stage_bytes.end(), 0.0);
  forward_.set(p_, stage_bytes, false);
  backward_.set(p_, stage_bytes, true);
  const double last = std::min(p_ * v_, microbatches_ * v_ - ahead);  // from there on it repeats, or ends
  double most = 0;
  const auto look = [&](double ended) {
    const double at = std::clamp(ended, 0.0, last);
    most = std::max(most, forward_.of_first(ahead + at) - backward_.of_first(at));
  };
  const double past_a_group = std::fmod(ahead, p_);
  for (double group = 0; group <= v_; ++group) {  // between these it goes straight
    look(group * p_);
    look(group * p_ - past_a_group);
  }
  return most;
}

MicrobatchesInFlight::OfWave MicrobatchesInFlight::bytes_of_wave(
    std::size_t rank, const std::vector<double>& stage_bytes,
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

// The last backward passes' halves for weights run last: of the first stage what is yet to come back is
// held, and of both what waits for weight gradients. Of fewer than 2p - 1 microbatches the passes of the
// missing ones are left out, the last of which would have been those of the drain.
double MicrobatchesInFlight::bytes_in_drain(std::size_t rank, const std::vector<double>& stage_bytes,
                                            const std::vector<double>& put_off_bytes) const {
  const auto behind = static_cast<double>(rank);
  const double missing = std::max(2 * p_ - 1 - microbatches_, 0.0);
  const double left = std::max(p_ - missing, 0.0);
  const double first = std::min(behind + 1, left), second = std::max(behind - missing, 0.0);
  return (left - first) * stage_bytes[0] + first * put_off_bytes[0] + second * put_off_bytes[1];
}

}  // namespace simrun
