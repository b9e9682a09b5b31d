#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "backend/reference_job.h"
#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/backend/checked_run.h"
#include "tests/cover/cover_jobs.h"
#include "tests/jobs.h"

// Every strategy with every schedule, model and optimizer, two by two: loss of two steps, every gradient and
// the parameters behind two Adam steps are those of one rank, and every rank's peak bytes are those that the
// simulator predicts.
namespace simrun {
namespace {

struct AcceptedJob {
  Job job;
  Plan plan;
};

// Nothing where the loader or the compiler refuses the job.
std::optional<AcceptedJob> accepted(const std::string& yaml) {
  try {
    const Job job = job_from(yaml);
    return AcceptedJob{job, compile(job)};
  } catch (const ConfigError&) {
  } catch (const std::invalid_argument&) {
  }
  return {};
}

// The gradient of a key's bias is truly zero; Adam would divide its rounding errors by their own size, so its
// epsilon is far above them and far below true gradients.
Execution run_of(const Plan& plan, ExecutionDevice device) {
  REQUIRE(lint(plan) == std::vector<std::string>{});
  ExecuteOptions options;
  options.device = device;
  options.steps = 2;
  options.training.epsilon = 1e-6;
  Execution execution = execute(plan, options);
  CHECK(execution.failure == "");
  return execution;
}

// Made once for all that it is the same for: the model and its dropout, the micro batch and over which tokens
// experts count.
const Execution& reference_of(const Combination& combination, const Job& job) {
  static std::map<std::vector<std::int64_t>, Execution> known;
  const Job alone = reference_job(job);
  const ExpertScope scope = alone.moe.scope.value_or(ExpertScope{});
  const auto at = [&](Factor factor) {
    return static_cast<std::int64_t>(combination[static_cast<std::size_t>(factor)]);
  };
  const auto [found, is_new] =
      known.try_emplace({at(Factor::model), at(Factor::dropout), at(Factor::micro_batch),
                         scope.sequence_parts, scope.rows, scope.decoder_rows, scope.zigzag_ranks});
  if (is_new) found->second = run_of(compile(alone), ExecutionDevice::cpu_f64);
  return found->second;
}

void check(const Combination& combination, const AcceptedJob& of) {
  CHECK(parse_plan(serialize(of.plan), "cover.plan") == of.plan);
  const bool in_f32 = cover_job(combination).in_f32;
  const Execution run = run_of(of.plan, in_f32 ? ExecutionDevice::cpu_f32 : ExecutionDevice::cpu_f64);
  check_equal(run, reference_of(combination, of.job), in_f32 ? 1e-5 : 1e-10);
  check_memory(of.plan, run, in_f32);
}

}  // namespace

TEST_CASE("a pairwise cover of three factors has every legal pair, and no illegal combination") {
  const auto is_legal = [](const Combination& c) { return !(c[0] == 1 && c[1] == 1); };
  const Cover cover = pairwise_cover({2, 3, 4}, is_legal, 1);
  CHECK(cover.infeasible == 1);
  CHECK(cover.pairs == 2 * 3 + 2 * 4 + 3 * 4 - 1);
  std::map<std::vector<std::size_t>, int> met;
  for (const Combination& c : cover.combinations) {
    CHECK(is_legal(c));
    for (std::size_t f = 0; f < 3; ++f)
      for (std::size_t g = f + 1; g < 3; ++g) ++met[{f, c[f], g, c[g]}];
  }
  CHECK(met.size() == cover.pairs);
  CHECK(cover.combinations.size() < 2 * 3 * 4);
}

namespace {

// What the loader takes of combinations, and what the CPU refuses of that.
class Acceptance {
 public:
  std::optional<AcceptedJob> operator()(const Combination& combination) {
    const CoverJob job = cover_job(combination);
    if (job.yaml.empty()) return {};
    std::optional<AcceptedJob> of = accepted(job.yaml);
    if (!of) return {};
    const std::vector<std::string> why = execution_refusals(of->plan, ExecutionDevice::cpu_f64);
    for (const std::string& sentence : why)
      if (known_.insert(sentence).second) refused_.push_back(name_of(combination) + ": " + sentence);
    return why.empty() ? std::move(of) : std::nullopt;
  }
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  std::set<std::string> known_;
  std::vector<std::string> refused_;  // with the first combination
};

}  // namespace

TEST_CASE("every pair of strategies, schedules, models and options computes what one rank does") {
  std::map<Combination, AcceptedJob> jobs;
  Acceptance accepts;
  const auto is_legal = [&](const Combination& combination) {
    std::optional<AcceptedJob> of = accepts(combination);
    if (of) jobs.emplace(combination, std::move(*of));
    return jobs.count(combination) > 0;
  };
  const Cover cover = pairwise_cover(factor_sizes(), is_legal, 7);
  CHECK(accepts.refused() == std::vector<std::string>{});
  std::map<std::string, std::size_t> of_model;
  for (const Combination& combination : cover.combinations) {
    CAPTURE(name_of(combination));
    ++of_model[cover_models()[combination[static_cast<std::size_t>(Factor::model)]].name];
    check(combination, jobs.at(combination));
    jobs.erase(combination);
  }
  CHECK(cover.combinations.size() >= 150);
  for (const CoverModel& model : cover_models()) {
    CAPTURE(model.name);
    CHECK(of_model[model.name] >= model.least);
  }
}

TEST_CASE("in f32 a Wide-ResNet has the gradients of one rank in f32") {
  Combination combination(factor_count, 0);
  const auto set = [&](Factor factor, std::size_t level) {
    combination[static_cast<std::size_t>(factor)] = level;
  };
  const auto found = std::find_if(cover_models().begin(), cover_models().end(),
                                  [](const CoverModel& model) { return !model.in_f32; });
  set(Factor::model, static_cast<std::size_t>(found - cover_models().begin()));
  set(Factor::pipeline, 1);
  set(Factor::zero, 1);
  set(Factor::data, 2);
  CAPTURE(name_of(combination));
  const Job job = job_from(cover_job(combination).yaml);
  const Execution alone = run_of(compile(reference_job(job)), ExecutionDevice::cpu_f32);
  const Execution run = run_of(compile(job), ExecutionDevice::cpu_f32);
  CHECK(std::abs(run.loss[0] / alone.loss[0] - 1) <= 1e-6);
  CHECK(compare(run.gradients, alone.gradients, 1e-5).first == "");
}

TEST_CASE("combinations of any number of strategies compute what one rank does", "[long]") {
  std::mt19937 random(11);
  const std::vector<std::size_t> sizes = factor_sizes();
  Acceptance accepts;
  int checked = 0;
  for (int drawn = 0; drawn < 40'000 && checked < 30; ++drawn) {
    Combination combination;
    for (const std::size_t size : sizes) combination.push_back(random() % size);
    const std::optional<AcceptedJob> of = accepts(combination);
    if (!of) continue;
    CAPTURE(name_of(combination));
    check(combination, *of);
    ++checked;
  }
  CHECK(accepts.refused() == std::vector<std::string>{});
  CHECK(checked == 30);
}

}  // namespace simrun
