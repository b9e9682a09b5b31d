#include "backend/checkpoint.h"

#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {
namespace {

ExecuteOptions steps_of(int steps, ExecutionDevice device = ExecutionDevice::cpu_f64) {
  ExecuteOptions options;
  options.device = device;
  options.steps = steps;
  options.keeps_moments = true;
  return options;
}

std::string saved(const Plan& plan, const Execution& run, std::int64_t steps,
                  CheckpointElement element = CheckpointElement::f64) {
  return serialize({steps, 0, saved_optimizer(plan).name, run.parameters, run.moments}, element);
}

std::string reason(const std::string& bytes) {
  try {
    const Checkpoint checkpoint(bytes);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

const TinyJob three_axes{
    tiny_gpt, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", "{zero_stage: 1}", "", "",
    8};

TEST_CASE("two steps, a checkpoint, and two steps in another layout are four steps on one rank") {
  struct Case {
    TinyJob before, behind;
  };
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const Case& c :
         {Case{{model, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", "{zero_stage: 1}",
                "", "", 8},
               {model, "{}", "{zero_stage: 3}", "", "", 4}},
          Case{{model, "{}", "{zero_stage: 2, overlap_param_gather: false}", "", "", 4},
               {model, "{tensor_model_parallel_size: 2, sequence_parallel: true}", "{}", "", "", 4}},
          Case{{model, "{pipeline_model_parallel_size: 4, pipeline_schedule: zb_h1}", "{}", "", "", 4},
               {model, "{tensor_model_parallel_size: 2}",
                "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}", "", "", 4}}}) {
      CAPTURE(model, c.before.parallelism, c.behind.parallelism);
      const Plan before = compile(tiny_job(c.before)), behind = compile(tiny_job(c.behind));
      REQUIRE(execution_refusals(before, ExecutionDevice::cpu_f64).empty());
      REQUIRE(execution_refusals(behind, ExecutionDevice::cpu_f64).empty());
      const Checkpoint checkpoint(saved(before, execute(before, steps_of(2)), 2));
      CHECK(ResumedParameters(checkpoint, behind).mismatch() == "");
      ExecuteOptions on = steps_of(2);
      on.start = &checkpoint;
      const Execution resumed = execute(behind, on);
      REQUIRE(resumed.failure == "");
      const Execution whole = checked_run(compile(tiny_job({.model = model})), ExecutionDevice::cpu_f64, 4);
      CHECK(resumed.loss[0] == Approx(whole.loss[2]).epsilon(1e-12));
      CHECK(resumed.loss[1] == Approx(whole.loss[3]).epsilon(1e-12));
      const ValueDifference difference = compare(resumed.parameters, whole.parameters, 1e-10);
      CHECK(difference.first == "");
      CHECK(difference.missing == 0);
    }
}

TEST_CASE(
    "a run in 16-bit types goes on with the bits that it had: main weights are saved, not the rounded ones") {
  Job job = tiny_job(three_axes);
  job.training.precision = Dtype::bf16;
  const Plan plan = compile(job);
  const ExecutionDevice device = ExecutionDevice::cpu_half;
  const Checkpoint checkpoint(saved(plan, execute(plan, steps_of(2, device)), 2, CheckpointElement::f32));
  ExecuteOptions on = steps_of(2, device);
  on.start = &checkpoint;
  const Execution resumed = execute(plan, on), whole = execute(plan, steps_of(4, device));
  CHECK(resumed.loss[1] == whole.loss[3]);
  CHECK(compare(resumed.parameters, whole.parameters, 0).error == 0);
}

TEST_CASE(
    "a checkpoint has one value of each kind per parameter, whatever the layout, and repeats to the byte") {
  const Plan plan = compile(tiny_job(three_axes)), alone = compile(tiny_job({}));
  const std::string bytes = saved(plan, execute(plan, steps_of(1)), 1);
  CHECK(bytes == saved(plan, execute(plan, steps_of(1)), 1));
  const std::size_t header = bytes.find("\n\n") + 2;
  // Weights and two moments of 8 bytes, and the checksum; padding of the vocabulary is not saved.
  CHECK(bytes.size() - header == static_cast<std::size_t>(plan.job.parameters) * 3 * 8 + 64);
  CHECK(bytes.substr(0, header) == saved(alone, execute(alone, steps_of(1)), 1).substr(0, header));
}

TEST_CASE("a checkpoint that is cut short, altered or newer is refused, at whatever byte") {
  const Plan plan = compile(tiny_job({}));
  const std::string bytes = saved(plan, execute(plan, steps_of(1)), 1);
  CHECK(reason(bytes) == "");
  for (std::size_t keep = 0; keep < bytes.size(); keep += 1 + bytes.size() / 16)
    CHECK(reason(bytes.substr(0, keep)) != "");
  CHECK(reason(bytes.substr(0, bytes.size() - 1)).find("is cut short or altered") == 0);
  for (std::size_t at = 30; at < bytes.size(); at += 1 + bytes.size() / 16) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 4);
    CHECK(reason(altered).find("is cut short or altered") == 0);
  }
  std::string newer = bytes;
  newer[newer.find('\n') - 1] = '2';
  CHECK(reason(newer) == "is of version 2, this simrun reads version 1");
  CHECK(reason("simrun: 1\n") == "is no checkpoint of simrun");
}

TEST_CASE("a checkpoint of another model or optimizer is refused with what differs") {
  const Plan plan = compile(tiny_job({}));
  const Checkpoint checkpoint(saved(plan, execute(plan, steps_of(1)), 1));
  const auto mismatch = [&](const TinyJob& job) {
    return ResumedParameters(checkpoint, compile(tiny_job(job))).mismatch();
  };
  CHECK(mismatch(three_axes) == "");
  CHECK(mismatch({.model = tiny_llama}).find("is of another model: ") == 0);
  CHECK(mismatch({.model =
                      "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, "
                      "ffn_hidden_size: 48, vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0, "
                      "attention_dropout: 0}\n"}) ==
        "is of another model: 'layer 0 fc1_weight' is 24 x 40 in it and 24 x 48 in the job: model");
  CHECK(mismatch({.optimizer = "{name: sgd}"}) ==
        "is of another optimizer: adam with 2 moments, the job's is sgd with 1: optimizer.name");
  CHECK(mismatch({.optimizer = "{name: adafactor}"}) ==
        "cannot be resumed: what adafactor keeps cannot be saved yet: optimizer.name");
}

TEST_CASE("an optimizer whose state has another shape than its parameters is not saved, and says so") {
  CHECK(saved_optimizer(compile(tiny_job({}))).refusal == "");
  CHECK(
      saved_optimizer(compile(tiny_job({.optimizer = "{name: adafactor}"}))).refusal.find("optimizer.name") !=
      std::string::npos);
}

}  // namespace
}  // namespace simrun
