// The plan section: what a search for the best plan keeps to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr RealRange money = {0, 1e6};
constexpr RealRange power = {0, 1e6};
constexpr RealRange memory_limit = {1, limits::memory.most};

// 8 or [4, 8].
std::vector<std::int64_t> read_choices(const ConfigNode& node, const std::string& path,
                                       const IntegerRange& range, Reading& reading) {
  std::vector<std::int64_t> values;
  reading.positions[path] = node.position;
  const auto take = [&](const ConfigNode& one) {
    const bool plain = one.kind == ConfigNode::Kind::scalar && !one.quoted;
    const Parsed<std::int64_t> parsed = parse_integer(plain ? one.text : "", range);
    if (parsed.value)
      values.push_back(*parsed.value);
    else
      reading.problems.push_back(
          {one.position,
           fmt::format("'{}' must be a whole number from {} to {} or a list of them, not {}", path,
                       range.least, range.most, describe(one)),
           fmt::format("for example [{}, {}].", range.least + 1, range.least + 2)});
  };
  if (node.kind == ConfigNode::Kind::sequence && node.children.empty())
    reading.problems.push_back(
        {node.position, fmt::format("'{}' has no value that may be tried", path), "leave it out: all may."});
  if (node.kind == ConfigNode::Kind::sequence)
    for (const ConfigNode& child : node.children) take(child);
  else
    take(node);
  reading.record(path, fmt::format("[{}]", fmt::join(values, ", ")), origin_of(node.position));
  return values;
}

// One word or a list of them.
std::vector<std::string> read_words(SectionReader& fix, const std::string& key, const WordRule& rule) {
  const ConfigNode* written = fix.section(key);
  if (written == nullptr) return {};
  if (written->kind != ConfigNode::Kind::scalar) return fix.words(key, rule, {});
  const std::string word = fix.word(key, rule);
  return word.empty() ? std::vector<std::string>{} : std::vector{word};
}

void read_fixed(const ConfigNode* node, Reading& reading, PlanConfig& plan) {
  if (node == nullptr) return;
  SectionReader fix(reading, node, "plan.fix");
  if (fix.is_no_map()) return;
  for (const std::string& key : fixable_numbers()) {
    const ConfigNode* written = fix.section(key);
    if (written == nullptr) continue;
    const IntegerRange range =
        key == "zero_stage" ? IntegerRange{0, 3} : IntegerRange{1, limits::parallel.most};
    std::vector<std::int64_t> values = read_choices(*written, fix.path_of(key), range, reading);
    if (!values.empty()) plan.fixed_numbers.emplace(key, std::move(values));
  }
  plan.schedules =
      read_words(fix, "pipeline_schedule",
                 {{"1f1b", "interleaved_1f1b", "gpipe", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min",
                   "interleaved_zb", "interleaved_1f1b_overlap", "looped_bfs", "dualpipe", "dualpipe_v"}});
  plan.recomputes = read_words(fix, "recompute", {{"none", "selective", "full"}});
  fix.finish();
}

}  // namespace

const std::vector<std::string>& fixable_numbers() {
  static const std::vector<std::string> keys = {"tensor_model_parallel_size",
                                                "pipeline_model_parallel_size",
                                                "virtual_pipeline_model_parallel_size",
                                                "context_parallel_size",
                                                "expert_model_parallel_size",
                                                "expert_tensor_parallel_size",
                                                "data_parallel_size",
                                                "micro_batch_size",
                                                "zero_stage"};
  return keys;
}

void read_plan(const ConfigNode* node, Reading& reading, PlanConfig& plan) {
  if (node == nullptr) return;
  SectionReader section(reading, node, "plan");
  if (section.is_no_map()) return;
  read_fixed(section.section("fix"), reading, plan);
  section.ignore({"max_memory"});
  if (section.has("max_memory"))
    plan.max_memory = std::llround(section.quantity("max_memory", Unit::bytes, memory_limit));
  const std::string minimise = section.word("minimise", {{"step_time", "memory", "cost"}}, "step_time");
  plan.minimise = minimise == "memory" ? PlanObjective::memory
                  : minimise == "cost" ? PlanObjective::cost
                                       : PlanObjective::step_time;
  plan.best = section.integer("best", {1, 1000}, plan.best);
  plan.evaluations = section.integer("evaluations", {1, 10'000'000}, plan.evaluations);
  plan.price_per_gpu_hour = section.real("price_per_gpu_hour", money, 0.0);
  plan.watts_per_gpu = section.real("watts_per_gpu", power, 0.0);
  section.finish();
}

}  // namespace simrun
