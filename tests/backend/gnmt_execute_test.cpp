#include <catch2/catch.hpp>
#include <cmath>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"

// GNMT on ranks in every layout that it has computes what one rank does.
namespace simrun {
namespace {

const char* const tiny_gnmt =
    "model: {model_type: gnmt, encoder_layers: 3, decoder_layers: 3, hidden_size: 6, vocab_size: 50, "
    "dropout: 0}\n";
const char* const dropping_gnmt =
    "model: {model_type: gnmt, encoder_layers: 2, decoder_layers: 2, hidden_size: 6, vocab_size: 50, "
    "dropout: 0.2, share_embedding: true}\n";
const std::string lengths = ", decoder_seq_length: 5";

}  // namespace

TEST_CASE("an untrained translator is as surprised as a die: the loss is near log 50") {
  const Execution& run = one_rank({.model = tiny_gnmt, .training = lengths});
  CHECK(run.loss[0] == Approx(std::log(50)).epsilon(0.01));
  // 2 tables, 7 LSTMs of input weight, recurrent weight and bias, query, key, output weight and bias.
  CHECK(run.gradients.tensors().size() == 2 + 7 * 3 + 4);
}

TEST_CASE("ranks of every kind translate as one rank does") {
  struct Case {
    const char *parallelism, *optimizer, *more;
    int gpus, micro_batch_size;
  };
  for (const char* model : {tiny_gnmt, dropping_gnmt})
    for (const Case& c :
         {Case{"{}", "{}", "", 2, 2}, Case{"{}", "{zero_stage: 1}", "", 4, 1},
          Case{"{}", "{zero_stage: 2}", "", 2, 1}, Case{"{}", "{zero_stage: 3}", "", 2, 2},
          Case{"{tensor_model_parallel_size: 2}", "{}", "", 2, 1},
          Case{"{pipeline_model_parallel_size: 2}", "{}", "", 2, 1},
          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{zero_stage: 2}", "", 4, 1},
          Case{"{pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2}", "{zero_stage: 1}",
               "recompute: {granularity: full}\n", 8, 1}})
      check_job({model, c.parallelism, c.optimizer, lengths, c.more, c.gpus, c.micro_batch_size});
}

TEST_CASE("a translator allocates in f32 to the byte what the simulator predicts") {
  const TinyJob job{.model = dropping_gnmt,
                    .parallelism = "{pipeline_model_parallel_size: 2}",
                    .training = lengths,
                    .gpus = 4};
  const Plan plan = compile(tiny_job(job));
  const Execution run = checked_run(plan, ExecutionDevice::cpu_f32);
  check_memory(plan, run, true);
  CHECK(compare(run.gradients, one_rank(job).gradients, 1e-4).first == "");
}

}  // namespace simrun
