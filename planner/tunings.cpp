#include "planner/tunings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "configs/limits.h"
#include "configs/rank_order.h"

namespace simrun {
namespace {

constexpr std::int64_t smallest_bucket = 1'000'000;
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 4> bucket_factors = {
    {{1, 4}, {1, 2}, {2, 1}, {4, 1}}};
constexpr int longest_stay = 2;

// ep has no place of its own; Megatron-LM writes it behind cp.
std::string rank_order_text(const std::vector<RankAxis>& order) {
  std::string text;
  for (const RankAxis axis : order) {
    constexpr std::array words = {"tp", "cp-ep", "dp", "pp"};
    text += (text.empty() ? "" : "-") + std::string(words[static_cast<std::size_t>(axis)]);
  }
  return text == default_rank_order ? "" : text;
}

std::int64_t size_of(const Candidate& of, RankAxis axis) {
  switch (axis) {
    case RankAxis::tp: return of.tensor;
    case RankAxis::cp: return of.context;
    case RankAxis::dp: return of.data;
    case RankAxis::pp: return of.pipeline;
  }
  return 1;
}

// Exchanges in two stages need neighbouring ranks in a node (configs/load_rank_order.cpp).
bool may_have_rank_orders(const Job& job) {
  return job.moe.token_dispatcher != TokenDispatcher::deepep &&
         job.optimizer.all_reduce == AllReduceKind::flat;
}

std::vector<std::string> other_rank_orders(const Candidate& of) {
  const std::string& now = of.tuning.rank_order;
  const std::vector<RankAxis> order = *parse_rank_order(now.empty() ? default_rank_order : now);
  std::vector<std::size_t> divided;  // places of axes with more than one rank
  for (std::size_t i = 0; i < order.size(); ++i)
    if (size_of(of, order[i]) > 1) divided.push_back(i);
  std::vector<std::string> found;
  for (std::size_t i = 1; i < divided.size(); ++i) {
    std::vector<RankAxis> swapped = order;
    std::swap(swapped[divided[i - 1]], swapped[divided[i]]);
    found.push_back(rank_order_text(swapped));
  }
  return found;
}

std::vector<std::int64_t> other_buckets(const Candidate& of) {
  std::vector<std::int64_t> found;
  if (of.zero_stage > 2 || of.data * of.context == 1) return found;
  const std::int64_t written = of.tuning.bucket_size,
                     now = written > 0 ? written : default_bucket_size(of.data);
  for (const auto& [times, part] : bucket_factors) {
    const std::int64_t size = now * times / part;
    if (size >= smallest_bucket && size <= limits::bucket.most) found.push_back(size);
  }
  return found;
}

}  // namespace

std::vector<Candidate> tunings_of(const Job& job, const PlanConfig& limits, const Candidate& of) {
  std::vector<Candidate> found;
  if (of.is_as_written || !of.balance.rank_map.empty()) return found;
  const auto add = [&](auto&& set) {
    Candidate next = of;
    set(next.tuning);
    found.push_back(std::move(next));
  };
  if (limits.rank_order_is_open && may_have_rank_orders(job))
    for (const std::string& order : other_rank_orders(of))
      add([&](SplitTuning& tuning) { tuning.rank_order = order; });
  if (limits.bucket_is_open)
    for (const std::int64_t size : other_buckets(of))
      add([&](SplitTuning& tuning) { tuning.bucket_size = size == default_bucket_size(of.data) ? 0 : size; });
  if (limits.reshard_is_open && of.zero_stage == 3)
    for (int stay = 0; stay <= longest_stay; ++stay)
      if (stay != of.tuning.gathered_stay) add([&](SplitTuning& tuning) { tuning.gathered_stay = stay; });
  return found;
}

SplitTuning tuning_under(int zero_stage, SplitTuning of) {
  if (zero_stage == 3)
    of.bucket_size = 0;
  else
    of.gathered_stay = 0;
  return of;
}

void apply_tuning(Job& job, const Candidate& candidate) {
  OptimizerConfig& optimizer = job.optimizer;
  if (candidate.zero_stage < 3) optimizer.reshard_after_forward = optimizer.reshard_after_backward = true;
  if (candidate.zero_stage < 2) optimizer.no_sync = false;
  const SplitTuning& tuning = candidate.tuning;
  if (tuning.bucket_size > 0) optimizer.bucket_size = tuning.bucket_size;
  if (tuning.gathered_stay > 0) optimizer.reshard_after_forward = false;
  if (tuning.gathered_stay > 1) optimizer.reshard_after_backward = false;
  if (!tuning.rank_order.empty()) job.parallelism.rank_order = tuning.rank_order;
}

std::string describe(const SplitTuning& tuning) {
  std::string text;
  if (!tuning.rank_order.empty()) text += ", rank_order " + tuning.rank_order;
  if (tuning.bucket_size > 0) text += fmt::format(", bucket_size {}", tuning.bucket_size);
  if (tuning.gathered_stay > 0) text += ", no reshard after forward";
  if (tuning.gathered_stay > 1) text += " and backward";
  return text;
}

}  // namespace simrun
