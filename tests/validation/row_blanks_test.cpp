#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/validation/loaded_row.h"
#include "validation/size_guess.h"

namespace simrun {

TEST_CASE("row: stages of a preset whose layers the row leaves out are laid out by the preset's") {
  // 126 + 2 = 16 x 8: embedding and loss stand for a layer each.
  const Cells llama{{Column::model, "Llama 3 405B"},
                    {Column::layers, ""},
                    {Column::hidden, ""},
                    {Column::heads, ""},
                    {Column::tp, "8"},
                    {Column::pp, "16"},
                    {Column::vpp, "1"},
                    {Column::n_gpus, "128"},
                    {Column::global_batch, "32"}};
  const LoadedRow row = load_row(llama);
  REQUIRE(row.job.parallelism.stages.size() == 16);
  CHECK(row.job.parallelism.stages[0].layers == 7);
  CHECK(row.job.parallelism.stages[1].layers == 8);
  CHECK(assumes(row.made, "layers=126"));
  // The paper's schedule is interleaved: a layer in each virtual stage.
  Cells paper = llama;
  paper.insert(paper.end(),
               {{Column::source, "The Llama 3 Herd of Models (arXiv 2407.21783)"}, {Column::vpp, ""}});
  CHECK(load_row(paper).job.parallelism.virtual_pipeline_model_parallel_size == 8);
}

TEST_CASE("row: a sequence that nobody states is no longer than the preset's positions") {
  const auto tokens = [](const char* model) {
    return load_row({{Column::model, model},
                     {Column::layers, ""},
                     {Column::hidden, ""},
                     {Column::heads, ""},
                     {Column::seq_len, ""},
                     {Column::tp, "1"},
                     {Column::pp, "1"}})
        .job.training.seq_length;
  };
  CHECK(tokens("BERT-large") == 512);
  CHECK(tokens("GPT-2 124M") == 1024);
  CHECK(tokens("Llama 2 7B") == 4096);  // as it was trained
  CHECK(tokens("Qwen2.5 7B") == 2048);  // Megatron-LM's examples; it has 32,768 positions
}

TEST_CASE("row: names that papers give to presets are known") {
  const auto layers = [](const char* model) {
    return load_row({{Column::model, model},
                     {Column::layers, ""},
                     {Column::hidden, ""},
                     {Column::heads, ""},
                     {Column::tp, "1"},
                     {Column::pp, "1"}})
        .job.model.num_layers;
  };
  CHECK(layers("DeepSeek 67B") == 95);
  CHECK(layers("LLaMA-1 7B") == 32);
  CHECK(layers("LLaMA-33B") == 60);
  CHECK(layers("GPT-2 1.5B") == 48);
}

TEST_CASE("row: hybrid shards are a node's") {
  const LoadedRow row = load_row({{Column::tp, "1"},
                                  {Column::pp, "1"},
                                  {Column::n_gpus, "32"},
                                  {Column::global_batch, "32"},
                                  {Column::zero_stage, "HSDP"}});
  CHECK(row.job.optimizer.zero_stage == 3);
  CHECK(row.job.optimizer.num_distributed_optimizer_instances == 4);  // 32 / 8
  CHECK(row.job.framework.name == "fsdp");
}

TEST_CASE(
    "row: a microbatch that nobody states has 2,048 tokens or one longer sequence, and a step four of them") {
  const auto training = [](const char* seq_len, const char* global_batch, const char* source = "a blog") {
    return load_row({{Column::tp, "1"},
                     {Column::pp, "1"},
                     {Column::seq_len, seq_len},
                     {Column::micro_batch, ""},
                     {Column::global_batch, global_batch},
                     {Column::source, source}})
        .job.training;
  };
  CHECK(training("256", "").micro_batch_size == 8);
  CHECK(training("256", "").global_batch_size == 8 * 8 * 4);
  CHECK(training("256", "32").micro_batch_size == 4);   // 32 sequences of 8 ranks
  CHECK(training("256", "528").micro_batch_size == 2);  // 66 of a rank are no multiple of four
  CHECK(training("2048", "").micro_batch_size == 1);
  CHECK(training("16384", "").micro_batch_size == 1);
  CHECK(training("1024", "", "tr11-176B-ml").micro_batch_size == 1);  // of a source with a rule one, as ever
}

namespace {

// What is tried of a row one behind the other, as "gpus: tensor x pipeline, micro batch".
std::vector<std::string> guesses_of(Cells cells, std::size_t most) {
  std::vector<std::string> tried;
  SizeGuess guess;
  while (tried.size() < most) {
    const LoadedRow row = load_row(cells, guess);
    const Parallelism& split = row.job.parallelism;
    tried.push_back(fmt::format("{}: {} x {}, {}", row.job.world_size(), split.tensor_model_parallel_size,
                                split.pipeline_model_parallel_size, row.job.training.micro_batch_size));
    const std::optional<SizeGuess> next = next_guess(row.made);
    if (!next) break;
    guess = *next;
  }
  return tried;
}

}  // namespace

TEST_CASE(
    "row: of what is left open first the microbatch shrinks, then GPUs, tensor and pipeline ranks grow") {
  const Cells open{{Column::source, "a blog"}, {Column::layers, "32"}, {Column::heads, "32"},
                   {Column::tp, ""},           {Column::pp, ""},       {Column::n_gpus, ""},
                   {Column::seq_len, "1024"},  {Column::dp, ""},       {Column::global_batch, ""},
                   {Column::micro_batch, ""},  {Column::vpp, ""}};
  CHECK(guesses_of(open, 10) == std::vector<std::string>{"1: 1 x 1, 2", "1: 1 x 1, 1", "2: 1 x 1, 1",
                                                         "4: 1 x 1, 1", "8: 1 x 1, 1", "8: 2 x 1, 1",
                                                         "8: 4 x 1, 1", "8: 8 x 1, 1", "16: 8 x 2, 1",
                                                         "32: 8 x 4, 1"});
  // GPUs that are stated stay: 16 of them hold two pipeline ranks of eight.
  Cells stated = open;
  stated.insert(stated.end(), {{Column::n_gpus, "16"}, {Column::micro_batch, "1"}});
  CHECK(guesses_of(stated, 10) == std::vector<std::string>{"16: 1 x 1, 1", "16: 2 x 1, 1", "16: 4 x 1, 1",
                                                           "16: 8 x 1, 1", "16: 8 x 2, 1"});
  // Of a source with a rule nothing is open but the GPUs, and under ZeRO-3 nothing needs a split.
  Cells sharded = stated;
  sharded.push_back({Column::zero_stage, "3"});
  CHECK(guesses_of(sharded, 10) == std::vector<std::string>{"16: 1 x 1, 1"});
  sharded.back().second = "FSDP";
  CHECK(guesses_of(sharded, 10) == std::vector<std::string>{"16: 1 x 1, 1"});
  // 64 GPUs of which 4 share data are 16 a replica: eight tensor-parallel ranks, the rest stages.
  Cells quotient = open;
  quotient.insert(quotient.end(), {{Column::n_gpus, "64"}, {Column::dp, "4"}, {Column::micro_batch, "1"}});
  CHECK(guesses_of(quotient, 10) == std::vector<std::string>{"64: 8 x 2, 1"});
  Cells ruled = stated;
  ruled.push_back({Column::source, "tr11-176B-ml"});
  CHECK(guesses_of(ruled, 10).size() == 1);
}

TEST_CASE("row: a rule's microbatch is no more than a rank's batch") {
  // README image tables.tex: 8 sequences; 32 of 8 ranks are 4 each.
  const LoadedRow row = load_row({{Column::source, "README image tables.tex"},
                                  {Column::precision, "fp16"},
                                  {Column::tp, "1"},
                                  {Column::pp, "1"},
                                  {Column::micro_batch, ""},
                                  {Column::global_batch, "32"}});
  CHECK(row.job.training.micro_batch_size == 4);
  CHECK(assumes(row.made, "micro_batch=4"));
}

TEST_CASE("row: NeMo's containers of 2024 have the attention of that year") {
  CHECK(load_row({{Column::source, "NVIDIA/NeMo docs (NeMo 24.07)"}, {Column::hardware, "H100"}})
            .job.framework.name == "nemo_2024");
  CHECK(load_row({{Column::source, "NVIDIA/NeMo docs"}, {Column::hardware, "H100"}}).job.framework.name ==
        "nemo");
}

TEST_CASE("row: nodes that do not divide the GPUs are smaller ones, which is assumed") {
  const LoadedRow row =
      load_row({{Column::n_gpus, "64"}, {Column::gpus_per_node, "6"}, {Column::global_batch, "64"}});
  CHECK(row.job.cluster.gpus_per_node == 2);
  CHECK(row.job.cluster.nodes == 32);
  CHECK(assumes(row.made, "gpus_per_node 2 instead of 6"));
}

}  // namespace simrun
