#include "schedules/accepted_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace simrun {
namespace {

struct Size {
  int PipelineShape::*member;
  const char* one;
  const char* several;
};
constexpr Size microbatch_count = {&PipelineShape::microbatches, "microbatch", "microbatches"};
constexpr Size virtual_stage_count = {&PipelineShape::virtual_stages, "virtual stage", "virtual stages"};
constexpr Size rank_count = {&PipelineShape::ranks, "rank", "ranks"};
constexpr Size group = {&PipelineShape::group_size, "microbatch per group", "microbatches per group"};

std::string counted(int count, const Size& size) {
  return fmt::format("{} {}", count, count == 1 ? size.one : size.several);
}

// Every rule has a period of at most this: a group, the ranks, or twice the ranks.
int reach(const PipelineShape& shape) {
  const std::int64_t period = std::max<std::int64_t>({shape.ranks, shape.group_size, 1});
  return static_cast<int>(std::min<std::int64_t>(4 * period, 1 << 20));
}

// The nearest value on one side that obeys the rule; `step` is -1 or 1.
std::optional<int> nearest(const PipelineShape& shape, const Size& size, int step, ShapeRule rule) {
  PipelineShape changed = shape;
  int& value = changed.*size.member;
  const int limit = reach(shape);
  for (int tries = 0; tries < limit && value + step >= 1 && value < (1 << 30); ++tries) {
    value += step;
    if (rule(changed).empty()) return value;
  }
  return std::nullopt;
}

// "8 and 12 microbatches", "2 ranks" or "".
std::string nearest_two(const PipelineShape& shape, const Size& size, ShapeRule rule) {
  const std::optional<int> below = nearest(shape, size, -1, rule);
  const std::optional<int> above = nearest(shape, size, 1, rule);
  if (below && above) return fmt::format("{} and {} {}", *below, *above, size.several);
  if (!below && !above) return "";
  return counted(below ? *below : *above, size);
}

// "4 ranks, 2 virtual stages and 8 microbatches": those of the sizes that differ from the shape's.
std::string changed_sizes(const PipelineShape& shape, const PipelineShape& changed) {
  std::vector<std::string> parts;
  for (const Size& size : {rank_count, virtual_stage_count, microbatch_count})
    if (changed.*size.member != shape.*size.member) parts.push_back(counted(changed.*size.member, size));
  if (changed.group_size != shape.group_size) parts.emplace_back("the default group size");
  std::string text = parts.back();
  for (std::size_t i = parts.size() - 1; i-- > 0;)
    text = fmt::format("{}{}{}", parts[i], i + 2 == parts.size() ? " and " : ", ", text);
  return text;
}

// As it is, or with the next number of microbatches that obeys the rule.
std::optional<PipelineShape> with_fitting_microbatches(PipelineShape shape, ShapeRule rule) {
  if (rule(shape).empty()) return shape;
  std::optional<int> fitting = nearest(shape, microbatch_count, 1, rule);
  if (!fitting) fitting = nearest(shape, microbatch_count, -1, rule);
  if (!fitting) return std::nullopt;
  shape.microbatches = *fitting;
  return shape;
}

// Several sizes changed at once: schedules differ in 1 or 2 or an even number of virtual stages and in an
// even number of ranks, and the microbatches follow. "" if nothing near works.
std::string nearest_together(const PipelineShape& shape, ShapeRule rule) {
  const int v = shape.virtual_stages;
  for (const int p : {shape.ranks, shape.ranks + 1, shape.ranks - 1})
    for (const int stages : std::array{v, 2, 1, v + 1, v - 1}) {
      PipelineShape changed = shape;
      changed.ranks = p;
      changed.virtual_stages = stages;
      if (p < 1 || stages < 1) continue;
      std::optional<PipelineShape> fitting = with_fitting_microbatches(changed, rule);
      changed.group_size = 0;
      if (!fitting) fitting = with_fitting_microbatches(changed, rule);
      if (fitting) return changed_sizes(shape, *fitting);
    }
  return "";
}

std::string sizes_that_work(const PipelineShape& shape, ShapeRule rule) {
  const bool small_group = shape.group_size > 0 && shape.group_size < shape.ranks;
  std::vector<Size> sizes = {microbatch_count, virtual_stage_count, rank_count};
  if (small_group) sizes.insert(sizes.begin(), group);
  for (const Size& size : sizes)
    if (std::string nearby = nearest_two(shape, size, rule); !nearby.empty()) return nearby;
  return nearest_together(shape, rule);
}

}  // namespace

std::string refusal_with_sizes(const PipelineShape& shape, ShapeRule rule) {
  const std::string broken = rule(shape);
  if (broken.empty()) return "";
  const bool positive = shape.ranks >= 1 && shape.virtual_stages >= 1 && shape.microbatches >= 1;
  const std::string sizes = positive ? sizes_that_work(shape, rule) : "";
  return sizes.empty() ? broken : fmt::format("{}; {} would do", broken, sizes);
}

std::string whole_sequences_rule(const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.virtual_stages < 1 || shape.microbatches < 1 || shape.group_size < 0)
    return fmt::format(
        "a pipeline needs at least 1 rank, 1 virtual stage and 1 microbatch, not {}, {} and {} (group size "
        "{})",
        shape.ranks, shape.virtual_stages, shape.microbatches, shape.group_size);
  if (shape.slices != 1)
    return fmt::format("only seq1f1b runs slices of a sequence, and here are {} per microbatch",
                       shape.slices);
  return "";
}

std::string one_stage_rule(const PipelineShape& shape) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  if (shape.virtual_stages > 1)
    return fmt::format("this schedule runs 1 virtual stage per rank, not {} (interleaved_1f1b runs several)",
                       shape.virtual_stages);
  return "";
}

std::string two_stages_rule(const PipelineShape& shape) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  if (shape.virtual_stages != 2)
    return fmt::format("a V has 2 virtual stages per rank, not {}", shape.virtual_stages);
  return "";
}

std::string bidirectional_rule(const PipelineShape& shape) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  if (shape.virtual_stages > 2)
    return fmt::format("two pipelines give a rank one stage of each, not {} virtual stages",
                       shape.virtual_stages);
  if (shape.ranks % 2 != 0)
    return fmt::format("two pipelines in opposite directions need an even number of ranks, not {}",
                       shape.ranks);
  return "";
}

std::string whole_sequences_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, whole_sequences_rule);
}

std::string one_stage_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, one_stage_rule);
}

std::string two_stages_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, two_stages_rule);
}

}  // namespace simrun
