// DeepSpeed's configurations as parts of jobs.
#include <catch2/catch.hpp>

#include "configs/import_deepspeed.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

const std::vector<Override> rest = {{"model", "{from: llama3-8b}"},
                                    {"training.seq_length", "2048"},
                                    {"cluster", "{from: dgx_h100, nodes: 1}"}};

std::string deepspeed(const std::string& text, std::vector<Override> overrides = {}) {
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  try {
    return import_deepspeed(text, "ds.json", options);
  } catch (const ConfigError& error) {
    return render(error.diagnostics());
  }
}

TEST_CASE("DeepSpeed: batch, precision, ZeRO, offload and the update come over") {
  const std::string text = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "bf16": {"enabled": true}, "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.98], "eps": 1e-8, "weight_decay": 0.05}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": 2e8, "sub_group_size": 1e9,
    "offload_optimizer": {"device": "cpu", "pin_memory": true, "ratio": 1.0}, "offload_param": {"device": "cpu"}},
  "steps_per_print": 100, "wall_clock_breakdown": false
})";
  const std::string whole = deepspeed(text, rest);
  CAPTURE(whole);
  const Job job = load(whole);
  CHECK(job.training.micro_batch_size == 4);
  CHECK(job.training.global_batch_size == 64);
  CHECK(job.parallelism.data_parallel_size == 8);  // 64 / (4 x 2)
  CHECK(job.optimizer.name == UpdateRule::adamw);
  CHECK(job.optimizer.zero_stage == 3);
  CHECK(job.optimizer.bucket_size == 200'000'000);
  CHECK(job.optimizer.gather_bucket_size == 50'000'000);  // stage3_prefetch_bucket_size's default
  CHECK(job.optimizer.main_grads_dtype == Dtype::bf16);
  CHECK(job.optimizer.numbers == UpdateNumbers{3e-4, 0.9, 0.98, 1e-8, 0.05});
  CHECK(job.optimizer.clip_grad == 0.5);
  CHECK(job.offload == Offload{OffloadTarget::cpu, 1, OffloadTarget::cpu, OffloadTarget::none});
  // Alone it is a part, which says what is to be added.
  const std::string part = deepspeed(text);
  CHECK(part.starts_with("# From a DeepSpeed configuration, which is a part of a job. To add: model,"));
  CHECK(part.find("\nmodel:") == std::string::npos);
  CHECK(part.find("  zero_stage: 3\n") != std::string::npos);
}

TEST_CASE("DeepSpeed: checkpoints on the host are offloaded activations, and what has no key is told") {
  const auto checkpointing = [](const std::string& keys) {
    return deepspeed(
        "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4,\n \"bf16\": "
        "{\"enabled\": true}, \"activation_checkpointing\": {" +
            keys + "}}",
        rest);
  };
  const std::string both = checkpointing("\"partition_activations\": true, \"cpu_checkpointing\": true");
  CAPTURE(both);
  CHECK(load(both).offload.activations == OffloadTarget::cpu);
  CHECK(both.find("# cpu_checkpointing: what is recomputed") != std::string::npos);
  CHECK(both.find("# partition_activations: checkpoints cut over tensor ranks are not modelled") !=
        std::string::npos);
  const std::string neither = checkpointing("\"cpu_checkpointing\": false, \"number_checkpoints\": 4");
  CHECK(load(neither).offload == Offload{});
  CHECK(neither.find("checkpointing") == std::string::npos);
  CHECK(checkpointing("\"cpu_checkpoint\": true").find("did you mean 'cpu_checkpointing'?") !=
        std::string::npos);
}

TEST_CASE("DeepSpeed: what is not written has DeepSpeed's defaults, and auto is left to the trainer") {
  const std::string part =
      deepspeed(R"({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 1}})");
  CHECK(part.find("# train_micro_batch_size_per_gpu is \"auto\"") != std::string::npos);
  CHECK(part.find("micro_batch_size:") == std::string::npos);
  CHECK(part.find("  bucket_size: 500000000\n") != std::string::npos);
  CHECK(part.find("  clip_grad: 0\n") != std::string::npos);
  CHECK(part.find("  overlap_grad_reduce: false\n") != std::string::npos);
  CHECK(part.find("  precision: fp32\n") != std::string::npos);
}

TEST_CASE("DeepSpeed: all that is wrong is named where it stands, also what the job's rules refuse") {
  CHECK(deepspeed("{\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4,\n"
                  " \"gradient_accumulation_steps\": 2, \"optimizer\": {\"type\": \"Lamb\"},\n"
                  " \"zero_optimisation\": {}, \"zero_optimization\": {\"zero_hpz_partition_size\": 8}}") ==
        "ds.json:1:22: error: train_batch_size 30 is no multiple of micro batch 4 x accumulation 2\n"
        "  hint: 8 is, on one GPU.\n"
        "ds.json:2:58: error: optimizer 'Lamb' is not supported\n"
        "  hint: one of Adam, AdamW, SGD, Muon.\n"
        "ds.json:3:2: error: 'zero_optimisation' is not supported, or no key of DeepSpeed\n"
        "  hint: did you mean 'zero_optimization'?\n"
        "ds.json:3:49: error: 'zero_hpz_partition_size' is not supported, or no key of DeepSpeed\n"
        "4 errors; nothing was run.\n");
  CHECK(deepspeed("{\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4}", rest)
            .starts_with("ds.json:1:22: error: 30 sequences do not split into micro_batch_size 4"));
  CHECK(deepspeed("{\"train_batch_size\": 0, \"gradient_accumulation_steps\": 0}") ==
        "ds.json:1:22: error: 'train_batch_size' must be 1 or more, not 0\n"
        "ds.json:1:56: error: 'gradient_accumulation_steps' must be 1 or more, not 0\n"
        "2 errors; nothing was run.\n");
  CHECK(deepspeed("{\"train_batch_size\": -8}").ends_with("1 error; nothing was run.\n"));
  CHECK(deepspeed("[1]").starts_with("ds.json:1:1: error: a DeepSpeed configuration is a map"));
}

TEST_CASE("DeepSpeed: beside a key that is there twice all that is wrong is told, and nothing that follows") {
  CHECK(deepspeed(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2,
 "gradient_accumulation_steps": 1, "gradient_clipping": 1, "gradient_clipping": 2,
 "bf16": {"enabled": "yes"}, "zero_optimisation": 1,
 "zero_optimization": {"stage": 7}})",
                  rest) ==
        "ds.json:1:22: error: train_batch_size 12 is not micro batch 2 x accumulation 1 x the cluster's 8 "
        "data-parallel ranks\n"
        "  hint: 16 is.\n"  // 2 x 1 x 8
        "ds.json:2:60: error: duplicate key 'gradient_clipping'\n"
        "  hint: it is already on line 2; keep one.\n"
        "ds.json:3:22: error: 'enabled' must be true or false, not the quoted text 'yes'\n"
        "ds.json:3:30: error: 'zero_optimisation' is not supported, or no key of DeepSpeed\n"
        "  hint: did you mean 'zero_optimization'?\n"
        "ds.json:4:33: error: 'stage' must be one of 0, 1, 2, 3, not '7'\n"
        "5 errors; nothing was run.\n");
  CHECK(deepspeed(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": "two"})", rest) ==
        "ds.json:1:60: error: 'train_micro_batch_size_per_gpu' must be a whole number, not the quoted text "
        "'two'\n1 error; nothing was run.\n");
}

TEST_CASE("DeepSpeed: a batch that nothing says is missed under DeepSpeed's names") {
  CHECK(
      deepspeed(R"({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 1})", rest) ==
      "ds.json:1:36: error: no number at 'train_micro_batch_size_per_gpu' says 'training.micro_batch_size'\n"
      "  hint: write it, or --set training.micro_batch_size=N.\n"
      "ds.json: error: no number at 'train_batch_size' says 'training.global_batch_size'\n"
      "  hint: write it, or --set training.global_batch_size=N.\n"
      "2 errors; nothing was run.\n");
}

TEST_CASE("DeepSpeed: the batch follows from accumulation and the cluster's ranks") {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8,
                               "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})";
  CHECK(load(deepspeed(text, rest)).training.global_batch_size == 2 * 8 * 8);
  std::vector<Override> of_two = rest;
  of_two.push_back({"parallelism.pipeline_model_parallel_size", "2"});
  CHECK(load(deepspeed(text, of_two)).training.global_batch_size == 2 * 8 * 4);
  const std::string wrong = deepspeed(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
                                          "gradient_accumulation_steps": 8})",
                                      rest);
  CHECK(
      wrong.starts_with("ds.json:1:22: error: train_batch_size 64 is not micro batch 2 x accumulation 8 x "
                        "the cluster's 8 data-parallel ranks\n  hint: 128 is.\n"));
}

TEST_CASE("DeepSpeed: what --set says counts, and what is no configuration is refused") {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
                               "tensor_parallel": {"autotp_size": 4}})";
  CHECK(load(deepspeed(text, rest)).training.global_batch_size == 8);  // 2 data-parallel ranks
  std::vector<Override> alone = rest;
  alone.push_back({"parallelism.tensor_model_parallel_size", "1"});
  CHECK(load(deepspeed(text, alone)).training.global_batch_size == 32);
  std::vector<Override> larger = rest;
  larger.push_back({"training.global_batch_size", "64"});
  CHECK(load(deepspeed(text, larger)).training.global_batch_size == 64);
  CHECK(deepspeed("{\"a\": 1,}}").starts_with("ds.json:1:10: error: not valid YAML: "));
  CHECK(deepspeed("").starts_with("ds.json:"));
  CHECK(
      deepspeed(
          R"({"train_micro_batch_size_per_gpu": 999999999999, "gradient_accumulation_steps": 999999999999})",
          rest)
          .find("'-") == std::string::npos);
  CHECK(deepspeed(R"({"optimizer": {"type": "Adam", "params": {"lr": "3e-5"}}})").find("lr: 3e-5") !=
        std::string::npos);
}

TEST_CASE("DeepSpeed: gradients have the precision that --set gives for one that is auto") {
  const std::string text = R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1,
                               "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
                               "zero_optimization": {"stage": 3}})";
  std::vector<Override> in_bf16 = rest;
  in_bf16.push_back({"training.precision", "bf16"});
  CHECK(load(deepspeed(text, in_bf16)).optimizer.main_grads_dtype == Dtype::bf16);
  const std::string part = deepspeed(text);
  CHECK(part.find("training.precision (and optimizer.main_grads_dtype, the same).") != std::string::npos);
  CHECK(part.find("precision:") == std::string::npos);
}

TEST_CASE("DeepSpeed: a part that no job can have is refused as well") {
  CHECK(deepspeed("{\"zero_optimization\": {\"stage\": 5, \"offload_optimizer\": {\"device\": \"tape\"}},\n"
                  " \"gradient_clipping\": -1}") ==
        "ds.json:1:33: error: 'stage' must be one of 0, 1, 2, 3, not '5'\n"
        "ds.json:1:68: error: 'device' must be one of none, cpu, nvme, not the quoted text 'tape'\n"
        "ds.json:2:23: error: 'gradient_clipping': must be from 0 to 1000000000, not '-1'\n"
        "3 errors; nothing was run.\n");
}

}  // namespace
}  // namespace simrun::test
