#include "tests/backend/scalar_model.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "backend/philox.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_jobs.h"

// One training step of the product on one rank and the same step by an implementation that shares nothing
// with it but the initial values and the text.
namespace simrun {
namespace {

using Text = std::vector<std::vector<std::int64_t>>;

// Word `ahead` behind each position of 8 sequences of 8, as INPUT defines it (backend/operations.h).
Text text(std::uint64_t seed, std::int64_t ahead) {
  const RandomStream stream(seed, "text", 0);
  Text samples(8);
  for (std::int64_t sample = 0; sample < 8; ++sample)
    for (std::int64_t t = 0; t < 8; ++t)
      samples[static_cast<std::size_t>(sample)].push_back(stream.word(sample * 9 + t + ahead) % 50);
  return samples;
}

void check_against_scalars(const char* model, const std::string& more = "") {
  const Job job = tiny_job({.model = model, .more = more});
  const Plan plan = compile(job);
  const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 1);
  const std::uint64_t seed = ExecuteOptions{}.training.seed;

  ScalarParameters parameters;
  for (const ModelParameter& parameter : plan.parameters) {
    const InitialValues initial(parameter, seed);
    std::vector<double>& values = parameters[{parameter.layer, parameter.name}];
    for (std::size_t i = 0; i < run.gradients.tensors().at(parameter.id).values.size(); ++i)
      values.push_back(initial(static_cast<std::int64_t>(i)));
  }
  const ScalarStep reference =
      scalar_step(job.model, parameters, text(seed, 0), text(seed, 1), job.moe.capacity_factor);

  CHECK(run.loss[0] == Approx(reference.loss).epsilon(1e-12));
  for (const ModelParameter& parameter : plan.parameters) {
    CAPTURE(parameter.layer, parameter.name);
    if (parameter.name == "selection_bias") continue;  // has no gradient
    const std::vector<double>& ours = run.gradients.tensors().at(parameter.id).values;
    const std::vector<double>& theirs = reference.gradients.at({parameter.layer, parameter.name});
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      apart += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
      size += theirs[i] * theirs[i];
    }
    CHECK(size > 0);
    CHECK(std::sqrt(apart) <= 1e-10 * std::sqrt(size));
  }
}

}  // namespace

TEST_CASE("a step of a small GPT-2 is what its formulas say, scalar by scalar") {
  check_against_scalars(tiny_gpt);
}

TEST_CASE("a step of a small Llama is what its formulas say, scalar by scalar") {
  check_against_scalars(tiny_llama);
}

TEST_CASE("a step of models with experts is what their formulas say, scalar by scalar") {
  check_against_scalars(tiny_mixtral);
  check_against_scalars(tiny_qwen);
  check_against_scalars(tiny_deepseek);
  check_against_scalars(tiny_switch, "moe: {capacity_factor: 0.75}\n");
}

}  // namespace simrun
