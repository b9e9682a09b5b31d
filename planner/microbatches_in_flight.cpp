#include "planner/microbatches_in_flight.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "planner/pipeline_costs.h"

namespace simrun {
namespace {

// Whether pairs that overlap take turns at every collective of theirs: what the forward pass fills, the
// backward one has freed. Without any the forward pass runs first.
bool takes_turns(const Candidate& of) {
  return of.tensor > 1 || of.context > 1 || of.expert > 1 || of.zero_stage >= 2;
}

}  // namespace

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
      kind_(kind_of(of)),
      takes_turns_(takes_turns(of)) {}

MicrobatchesInFlight::Kind MicrobatchesInFlight::kind_of(const Candidate& of) {
  static const std::map<std::string, Kind, std::less<>> kinds = {{"interleaved_1f1b_overlap", Kind::ahead},
                                                                 {"gpipe", Kind::all},
                                                                 {"looped_bfs", Kind::all},
                                                                 {"zb_h1", Kind::even},
                                                                 {"zb_h2", Kind::twice},
                                                                 {"interleaved_zb", Kind::fills_up},
                                                                 {"dualpipe", Kind::both_ways},
                                                                 {"zb_v", Kind::zb_v},
                                                                 {"v_half", Kind::v_half},
                                                                 {"v_min", Kind::v_min},
                                                                 {"dualpipe_v", Kind::dualpipe_v}};
  const auto known = kinds.find(of.schedule);
  return known == kinds.end() ? Kind::whole : known->second;
}

double MicrobatchesInFlight::passes(std::size_t rank) const {
  const double behind = p_ - static_cast<double>(rank) - 1;
  const double ahead = v_ == 1 ? behind + 1 : 2 * behind + (v_ - 1) * p_ + 1;
  switch (kind_) {
    case Kind::all: return microbatches_ * v_;
    case Kind::even:
    case Kind::zb_v: return std::min(microbatches_, p_) * v_;
    case Kind::twice: return std::min(microbatches_, 2 * p_);
    case Kind::fills_up: return std::min(microbatches_, p_) * v_;
    case Kind::both_ways: return takes_turns_ ? p_ : p_ + 1;
    case Kind::dualpipe_v: return takes_turns_ ? 2 * p_ : 2 * p_ + 1;
    case Kind::v_half:
    case Kind::v_min: {
      const HeldOfWave most = most_of_wave(rank);
      return most.first + most.second;
    }
    case Kind::ahead: return std::min(takes_turns_ ? ahead : ahead + 1, microbatches_ * v_);
    case Kind::whole: break;
  }
  return std::min(ahead, microbatches_ * v_);
}

double MicrobatchesInFlight::put_off(std::size_t rank) const {
  const auto before = static_cast<double>(rank);
  switch (kind_) {
    case Kind::even:
    case Kind::fills_up: return std::min(microbatches_ - 1, before);
    case Kind::twice: return std::clamp(microbatches_ - 2 * (p_ - before) + 1, 0.0, 2 * before + 1);
    default: return 0;
  }
}

// Backward passes begin with the last stage, so that as many microbatches are now on the first stages and now
// on the last.
double MicrobatchesInFlight::bytes(std::size_t rank, const std::vector<double>& stage_bytes) {
  const double ahead = passes(rank);
  if (kind_ == Kind::all || v_ == 1 ||
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

// V-Half and V-Min (Qi et al. 2024, arXiv 2405.15362, section 3) as their lists are here.
MicrobatchesInFlight::HeldOfWave MicrobatchesInFlight::most_of_wave(std::size_t rank) const {
  const auto at = static_cast<double>(rank);
  HeldOfWave most;
  if (kind_ == Kind::v_half) {
    most.second = 1 + std::ceil(at / 2);
    most.first = 2 * std::floor((p_ + 2) / 2) - most.second;
    most.halved = std::fmod(p_, 2) == 1 ? 1 : std::clamp((at + 5 - p_) / 2, 1.0, 2.0);
  } else {
    const bool puts_off = std::fmod(p_, 3) == 2;
    most.second = 1 + std::floor((puts_off ? at : at + 1) / 3);
    most.first = 2 * std::floor((p_ + 4) / 3) - most.second - (puts_off ? 2 : 0);
    most.put_off = puts_off && rank % 3 != 0 ? 1 : 0;
    most.halved = puts_off && microbatches_ > 1 ? 0 : 1;
  }
  most.first = std::min(most.first, microbatches_);
  most.second = std::min(most.second, microbatches_);
  most.halved = std::min(most.halved, microbatches_);
  most.put_off = std::min(most.put_off, microbatches_ - std::max(most.first, most.second));
  return most;
}

// By the lists of schedules/dualpipe.cpp. A rank holds most in its steady state; but what weight gradients
// read may be more than what forward passes leave, and of that most waits at the end, of both ways in turns.
MicrobatchesInFlight::OfWave MicrobatchesInFlight::bytes_of_dualpipe(
    std::size_t rank, const std::vector<double>& stage_bytes,
    const std::vector<double>& put_off_bytes) const {
  const auto at = static_cast<double>(rank);
  const double ranks = kind_ == Kind::both_ways ? p_ : 2 * p_;
  const double hops = std::min(at, ranks - 1 - at), to_middle = ranks / 2 - 1 - hops;
  const std::size_t near = at < ranks / 2 ? 0 : 1, far = 1 - near;
  double steady = (ranks - hops) * stage_bytes[near] + (hops + 1) * stage_bytes[far];
  // The ranks in the middle have a pair that does not overlap.
  if (takes_turns_ && to_middle > 0) steady -= std::min(stage_bytes[0], stage_bytes[1]);
  const double filled =
      to_middle > 0 ? (ranks - hops - 1) * stage_bytes[near] + hops * stage_bytes[far] + put_off_bytes[far]
                    : 0;
  const double drained = to_middle * stage_bytes[near] + std::ceil((hops + 1) / 2) * put_off_bytes[far] +
                         std::floor((hops + 1) / 2) * put_off_bytes[near];
  return {steady, std::max({steady, filled, drained})};
}

MicrobatchesInFlight::OfWave MicrobatchesInFlight::bytes_of_wave(
    std::size_t rank, const std::vector<double>& stage_bytes,
    const std::vector<double>& put_off_bytes) const {
  if (kind_ == Kind::zb_v) return bytes_of_zb_v(rank, stage_bytes, put_off_bytes);
  if (kind_ == Kind::dualpipe_v || kind_ == Kind::both_ways)
    return bytes_of_dualpipe(rank, stage_bytes, put_off_bytes);
  const HeldOfWave most = most_of_wave(rank);
  const double put_off_each = put_off_bytes[0] + put_off_bytes[1];
  const double in_passes =
      most.first * stage_bytes[0] + most.second * stage_bytes[1] + most.put_off * put_off_each;
  const double held_each = stage_bytes[0] + stage_bytes[1];
  double by_halves = most.halved * (put_off_each - held_each);
  // In V-Half the way back is the first to be put off.
  const double back = std::min(2.0, microbatches_);
  if (kind_ == Kind::v_half)
    by_halves = std::max(by_halves, back * put_off_bytes[1] - stage_bytes[1] - (back - 1) * stage_bytes[0]);
  return {in_passes, in_passes + by_halves};
}

MicrobatchesInFlight::OfWave MicrobatchesInFlight::bytes_of_zb_v(
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
