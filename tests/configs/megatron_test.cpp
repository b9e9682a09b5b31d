// Jobs as Megatron-LM's arguments, and back.
#include <catch2/catch.hpp>
#include <filesystem>

#include "configs/export_megatron.h"
#include "configs/import_megatron.h"
#include "configs/text_file.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

ImportedJob imported(const std::string& text, std::vector<Override> overrides = {},
                     const std::string& file = "run.sh") {
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  return import_megatron(text, file, options);
}

std::string import_refusal(const std::string& text, const std::string& file = "run.sh") {
  try {
    imported(text, {}, file);
  } catch (const ConfigError& error) {
    return render(error.diagnostics());
  }
  return "accepted";
}

// Names of the job, its family and its text are not what is described; hardware is said beside.
Job nameless(Job job) {
  job.name = job.config_sha256 = job.model.model_type = "";
  return job;
}

// Of a job whose hardware is a preset.
Job returned(const Job& job) {
  return imported(megatron_script(job, "0"), {{"cluster.from", job.cluster.name}}).job;
}

std::vector<std::string> presets(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/" + folder))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  return names;
}

const std::string flags = R"(--num-layers 8 --hidden-size 1024 --num-attention-heads 16
--vocab-size 51200 --max-position-embeddings 1024 --seq-length 1024 --micro-batch-size 1
--global-batch-size 16 --bf16 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2
--nnodes 1 --nproc-per-node 8)";

TEST_CASE("every shipped job that Megatron-LM can express comes back from its arguments as it was") {
  int expressed = 0;
  for (const std::string& path : presets("jobs")) {
    CAPTURE(path);
    const Job job = load_job(path, with_presets()).job;
    if (!family_as<std::monostate>(job.model.family) || job.parallelism.has_unlike_stages()) {
      CHECK_THROWS_AS(megatron_arguments(job), ConfigError);
      continue;
    }
    Job expected = nameless(job);
    expected.cluster.imperfections = {};
    CHECK_NOTHROW(imported(megatron_script(job, "0")));
    if (!megatron_arguments(job).unexpressed.empty()) continue;
    ++expressed;
    CHECK(nameless(returned(job)) == expected);
  }
  CHECK(expressed >= 9);
}

// What is said not to be expressed is the only thing that may differ: a model is named in none of the notes
// exactly if it comes back.
TEST_CASE("every shipped decoder is expressed, or a note says which part of it is not") {
  int whole = 0;
  for (const std::string& path : presets("models")) {
    CAPTURE(path);
    Job job;
    try {
      job = load("simrun: 1\nmodel: {from: " + path + "}\ntraining: {" +
                 "seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n" +
                 "cluster: {from: dgx_h100, nodes: 1}\n");
    } catch (const ConfigError&) {
      continue;  // images have no sequence
    }
    if (!family_as<std::monostate>(job.model.family)) continue;
    const bool expressed = megatron_arguments(job).unexpressed.empty();
    CHECK((nameless(returned(job)) == nameless(job)) == expressed);
    whole += expressed ? 1 : 0;
  }
  CHECK(whole >= 30);
}

TEST_CASE("without ZeRO no gather of parameters is exported, which no import would take") {
  LoadOptions options = with_presets();
  options.overrides = {{"optimizer.zero_3_layers", "0-1"}};
  const Job job = load_job_text(small_job, "job.yaml", options).job;
  CHECK(job.optimizer.overlap_param_gather);
  CHECK_FALSE(returned(job).optimizer.overlap_param_gather);
}

TEST_CASE("every value of every key that is expressed comes back") {
  const auto [key, value] = GENERATE(table<const char*, const char*>(
      {{"training.precision", "fp8"},
       {"training", "{precision: fp8, fp8_recipe: tensorwise}"},
       {"training.precision", "fp32"},
       {"training.attention", "unfused"},
       {"training.attention_dropout", "0.25"},
       {"training.hidden_dropout", "0"},
       {"parallelism.sequence_parallel", "true"},
       {"parallelism.virtual_pipeline_model_parallel_size", "2"},
       {"parallelism", "{virtual_pipeline_model_parallel_size: 2, microbatch_group_size_per_vp_stage: 4}"},
       {"parallelism.pipeline_model_parallel_layout", "\"Ett|t*6L\""},
       {"parallelism", "{tensor_model_parallel_size: 2, context_parallel_size: 2}"},
       {"parallelism", "{tensor_model_parallel_size: 2, context_parallel_size: 2, cp_comm_type: a2a}"},
       {"parallelism",
        "{tensor_model_parallel_size: 1, context_parallel_size: 4, cp_comm_type: a2a+p2p, "
        "hierarchical_context_parallel_sizes: [2, 2]}"},
       {"parallelism.rank_order", "tp-cp-ep-pp-dp"},
       {"optimizer.name", "sgd"},
       {"optimizer.name", "muon"},
       {"optimizer", "{name: muon, zero_stage: 1}"},
       {"optimizer.lr", "0.0003"},
       {"optimizer.clip_grad", "0"},
       {"optimizer.bucket_size", "1000000"},
       {"optimizer.main_grads_dtype", "bf16"},
       {"optimizer", "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}"},
       {"optimizer", "{zero_stage: 1, main_params_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: bf16}"},
       {"optimizer.zero_stage", "2"},
       {"optimizer.zero_stage", "3"},
       {"offload", "{optimizer: cpu, optimizer_fraction: 0.5}"},
       {"recompute.granularity", "selective"},
       {"recompute", "{granularity: selective, modules: [mlp, layernorm]}"},
       {"recompute", "{granularity: full, method: block, num_layers: 2}"},
       {"recompute.granularity", "full"}}));
  CAPTURE(key, value);
  LoadOptions options = with_presets();
  options.overrides = {{key, value}};
  if (std::string(key) == "offload") options.overrides.push_back({"optimizer.zero_stage", "1"});
  const Job job = load_job_text(small_job, "job.yaml", options).job;
  const std::vector<std::string> unexpressed = megatron_arguments(job).unexpressed;
  CAPTURE(unexpressed);
  CHECK(unexpressed.empty());
  CHECK(nameless(returned(job)) == nameless(job));
}

TEST_CASE("offloaded layers come over, but not of a pipeline or beside recompute, as Megatron-LM has it") {
  std::string one_stage = flags + " --cpu-offloading-num-layers 3";
  CHECK_THAT(import_refusal(one_stage),
             Catch::Contains("does not offload activations of a pipeline's stages"));
  one_stage.replace(one_stage.find("parallel-size 2"), std::string("parallel-size 2").size(),
                    "parallel-size 1");
  CHECK(import_refusal(one_stage) == "accepted");
  CHECK_THAT(import_refusal(one_stage + " --recompute-activations"),
             Catch::Contains("does not offload activations where it recomputes"));
}

TEST_CASE("nvfp4 comes back, and what --fp4-format cannot be beside is refused") {
  LoadOptions options = with_presets();
  options.overrides = {{"cluster", "{from: dgx_b200, nodes: 1}"}, {"training.precision", "nvfp4"}};
  const Job job = load_job_text(small_job, "job.yaml", options).job;
  CHECK(megatron_arguments(job).unexpressed.empty());
  CHECK(megatron_script(job, "0").find("--fp4-format e2m1") != std::string::npos);
  CHECK(nameless(returned(job)) == nameless(job));
  CHECK_THAT(import_refusal(flags + " --fp4-format e2m1 --fp8-format hybrid"),
             Catch::Contains("--fp4-format and --fp8-format exclude each other"));
  CHECK_THAT(import_refusal(flags + " --fp4-format e3m0"), Catch::Contains("--fp4-format cannot be 'e3m0'"));
  CHECK_THAT(import_refusal(flags + " --fp4-format e2m1 --fp4-recipe mxfp4"),
             Catch::Contains("--fp4-recipe cannot be 'mxfp4'"));
  CHECK_THAT(import_refusal(flags + " --fp4-format e2m1 --fp4-param-gather"),
             Catch::Contains("gathered in bf16"));
}

TEST_CASE("how experts are run comes back") {
  const auto [key, value] = GENERATE(
      table<const char*, const char*>({{"moe.capacity_factor", "1.25"},
                                       {"moe.token_dispatcher", "allgather"},
                                       {"moe.token_dispatcher", "deepep"},
                                       {"parallelism.expert_tensor_parallel_size", "2"},
                                       {"parallelism",
                                        "{virtual_pipeline_model_parallel_size: 2, pipeline_schedule: "
                                        "interleaved_1f1b_overlap}"},
                                       {"parallelism",
                                        "{pipeline_model_parallel_size: 1, pipeline_schedule: "
                                        "interleaved_1f1b_overlap}"}}));
  CAPTURE(key, value);
  LoadOptions options = with_presets();
  options.overrides = {{key, value}};
  if (std::string(value) == "2") options.overrides.push_back({"parallelism.expert_model_parallel_size", "2"});
  const Job job = load_job(SIMRUN_SOURCE_DIR "/configs/jobs/tiny-moe-8ranks.yaml", options).job;
  CHECK(megatron_arguments(job).unexpressed.empty());
  CHECK(nameless(returned(job)) == nameless(job));
}

TEST_CASE("what no argument says is named with its key") {
  const auto [key, value, named] = GENERATE(table<const char*, const char*, const char*>(
      {{"parallelism.pipeline_schedule", "zb_h1", "parallelism.pipeline_schedule: zb_h1"},
       {"parallelism.pipeline_schedule", "gpipe", "parallelism.pipeline_schedule: gpipe"},
       {"optimizer.name", "adafactor", "optimizer.name: adafactor"},
       {"optimizer", "{zero_stage: 3, no_sync: true}", "optimizer.no_sync"},
       {"optimizer.main_params_dtype", "none", "optimizer.main_params_dtype"},
       {"optimizer.grad_reduce_dtype", "bf16", "optimizer.grad_reduce_dtype"},
       {"optimizer.exp_avg_dtype", "bf16", "optimizer: state in these types"},
       {"offload.activations", "cpu", "offload.activations"},
       {"offload", "{activations: cpu, activation_layers: 2}", "offload.activations"},
       {"training.precision", "tf32", "training.precision: tf32"},
       {"training.lora", "{rank: 8, targets: [qkv]}", "training.lora"},
       {"training.documents", "{mean: 100}", "training.documents"},
       {"recompute", "{granularity: full, method: block, num_layers: [4, 0]}", "recompute: numbers"},
       {"layout", "[{split: {vocab: [dp, tp]}}]", "layout"},
       {"model.frozen", "[embedding]", "model.frozen"}}));
  CAPTURE(key, value);
  LoadOptions options = with_presets();
  options.overrides = {{key, value}};
  const Job job = load_job_text(small_job, "job.yaml", options).job;
  const std::vector<std::string> unexpressed = megatron_arguments(job).unexpressed;
  REQUIRE(unexpressed.size() == 1);
  CHECK(unexpressed.front().starts_with(named));
  CHECK(megatron_script(job, "0").find("# Not expressed:\n#   " + unexpressed.front()) != std::string::npos);
  CHECK(nameless(returned(job)) != nameless(job));
}

TEST_CASE("plain flags have Megatron-LM's defaults, not simrun's") {
  const Job job = imported(flags + " --num-experts 8").job;
  CHECK(job.model.model_type == "gpt");
  CHECK(job.optimizer.numbers.adam_beta2 == 0.999);
  CHECK(job.optimizer.numbers.weight_decay == 0.01);
  CHECK(job.moe.token_dispatcher == TokenDispatcher::allgather);
  CHECK(job.optimizer.main_grads_dtype == Dtype::fp32);  // "for bfloat16 data type"
  CHECK(imported(flags + " --no-rope-fusion").yaml.find("#   --no-rope-fusion: ") != std::string::npos);
  // 8 GPUs / (tensor 4 x pipeline 2) = data 1: one microbatch of 1.
  CHECK(imported(edited(flags, "--global-batch-size 16", "")).job.training.global_batch_size == 1);
  CHECK(imported(flags + " --lr .00015 --clip-grad 1.").job.optimizer.numbers.lr == 0.00015);
  // Two thirds of 4 x 1024, down to a multiple of 64.
  CHECK(imported(flags + " --swiglu").job.model.ffn_hidden_size == 2688);
  // fp16 gradients stay fp16 unless asked for otherwise.
  const std::string fp16 = edited(flags, "--bf16", "--fp16");
  CHECK(imported(fp16).job.optimizer.main_grads_dtype == Dtype::fp16);
  CHECK(imported(fp16 + " --accumulate-allreduce-grads-in-fp32").job.optimizer.main_grads_dtype ==
        Dtype::fp32);
  // Without its switch the number of groups is not looked at.
  CHECK(imported(flags + " --num-query-groups 4").job.model.num_key_value_heads == 16);
  CHECK(imported(flags + " --group-query-attention --num-query-groups 4").job.model.num_key_value_heads == 4);
}

TEST_CASE("the printed job loads to the imported one, and its keys are those that were given") {
  const ImportedJob job =
      imported(flags + " --recompute-granularity selective --recompute-modules mlp layernorm");
  CHECK(job.yaml.find("  modules: [mlp, layernorm]\n") != std::string::npos);
  CHECK(nameless(load(job.yaml)) == nameless(job.job));
}

TEST_CASE("Megatron-LM's keys of latent attention give DeepSeek-V3, and survive --print-config") {
  const Job job = load_job(SIMRUN_SOURCE_DIR "/configs/jobs/deepseek-v3-1024xh100.yaml", with_presets()).job;
  const ImportedJob gpt = imported(megatron_script(job, "0"), {{"cluster.from", "dgx_h100"}});
  CHECK(gpt.job.model.model_type == "gpt");
  CHECK(gpt.job.model.mla == job.model.mla);  // 1536, 512, 128, 64, 128
  CHECK(gpt.job.model.num_nextn_predict_layers == 1);
  const LoadedJob loaded = load_job_text(gpt.yaml, "run.yaml", with_presets());
  const LoadedJob again = load_job_text(loaded.effective_yaml, "run.yaml", with_presets());
  CHECK(again.job == loaded.job);
}

TEST_CASE("latent attention and norms of queries and keys are refused where they would mean something else") {
  const std::string latent = "  model_type: gpt\n  multi_latent_attention: true\n";
  const std::string refused = refusal(edited("  model_type: gpt\n", latent));
  CHECK(refused.find("job.yaml:4:27: error: latent attention without norms of its latents") !=
        std::string::npos);
  CHECK(refused.find("rope turns") != std::string::npos);
  CHECK(refused.find("latent attention with biases") != std::string::npos);
  CHECK(refused.find("3 errors") != std::string::npos);
  CHECK(refusal(edited("  model_type: gpt\n", "  model_type: gpt\n  qk_layernorm: true\n"))
            .find("norms of queries and keys are RMS norms here\n") != std::string::npos);
  CHECK(refusal(edited("  model_type: gpt\n", "  model_type: gpt\n  kv_lora_rank: 8\n"))
            .find("unknown key 'kv_lora_rank'") != std::string::npos);
}

TEST_CASE("layers of uneven first and last ranks become a layout") {
  const std::string text =
      edited(flags, "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 4");
  const std::string four =
      edited(edited(text, "--tensor-model-parallel-size 4", "--tensor-model-parallel-size 2"),
             "--num-layers 8", "--num-layers 10");
  const auto layers = [&](const std::string& more) {
    std::vector<std::int64_t> counts;
    for (const StageContent& stage : imported(four + more).job.parallelism.stages)
      counts.push_back(stage.layers);
    return counts;
  };
  // 10 - 1 - 3 = 6 on two ranks.
  CHECK(layers(" --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3") ==
        std::vector<std::int64_t>{1, 3, 3, 3});
  // 10 + 2 = 12 in four parts of 3, of which the embedding and the loss are one each.
  CHECK(layers(" --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split") ==
        std::vector<std::int64_t>{2, 3, 3, 2});
  CHECK(import_refusal(four + " --decoder-first-pipeline-num-layers 2").find("do not split into 4") !=
        std::string::npos);
}

TEST_CASE("flags that are unknown, not supported or wrong are all named, each where it stands") {
  const std::string text = "--num-layer 8\n--window-size (128,0) --bf16 on\n--hidden-size $H\n" + flags;
  CHECK(import_refusal(text) ==
        "run.sh:1:1: error: Megatron-LM has no flag '--num-layer'\n"
        "  hint: did you mean --num-layers?\n"
        "run.sh:2:1: error: --window-size is not supported: sliding windows are not keys of model_type gpt\n"
        "  hint: model_type: mistral in a job.\n"
        "2 errors; nothing was run.\n");
  CHECK(import_refusal(edited(flags, "--bf16", "--bf16 on")) ==
        "run.sh:3:31: error: --bf16 is a switch and takes no value\n"
        "  hint: leave the value out.\n"
        "1 error; nothing was run.\n");
  CHECK(import_refusal(edited(flags, "--global-batch-size 16", "--global-batch-size 15 --micro-batch-size 2"))
            .starts_with("run.sh:3:21: error: 15 sequences do not split into micro_batch_size 2"));
  CHECK(import_refusal(edited(flags, "--hidden-size 1024", "--hidden-size $H")) ==
        "run.sh:1:30: error: --hidden-size: the file does not say what '$H' is\n"
        "  hint: write its value in the file.\n"
        "1 error; nothing was run.\n");
  CHECK(import_refusal("echo nothing\n").starts_with("run.sh: error: no flag of Megatron-LM"));
}

TEST_CASE("the YAML of Megatron-LM's functional tests is read") {
  const Job job = imported(
                      "ENV_VARS:\n  X: 1\nMODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n"
                      "  --num-attention-heads: 8\n  --micro-batch-size: 4\n  --global-batch-size: 32\n"
                      "  --seq-length: 1024\n  --max-position-embeddings: 1024\n  --vocab-size: 50257\n"
                      "  --data-path: ${DATA_PATH}/text_document\n  --bf16: true\n  --fp16: false\n"
                      "  --tensor-model-parallel-size: 2\n  --cp-comm-type: p2p p2p\n"
                      "  --recompute-granularity: selective\n  --recompute-modules: [core_attn]\n",
                      {{"cluster.nodes", "1"}}, "model_config.yaml")
                      .job;
  CHECK(job.model.num_layers == 12);
  CHECK(job.training.precision == Dtype::bf16);
  CHECK(job.parallelism.data_parallel_size == 4);  // 8 GPUs / tensor 2
  CHECK(job.recompute.modules == std::vector<std::string>{"core_attn"});
}

TEST_CASE("what Megatron-LM and torchrun take where nothing is said is taken") {
  const std::string sizes =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings "
      "128 "
      "--micro-batch-size 1 --global-batch-size 8 --bf16 --nproc-per-node 8 ";
  const Job job = imported("torchrun pretrain_gpt.py " + sizes).job;
  CHECK(job.cluster.nodes == 1);         // torchrun's --nnodes 1:1
  CHECK(job.model.vocab_size == 50257);  // GPT2BPETokenizer
  try {
    imported("torchrun pretrain_bert.py " + sizes);
    FAIL("its tokenizer is another one");
  } catch (const ConfigError& error) {
    CHECK(render(error.diagnostics()).find("'vocab_size'") != std::string::npos);
  }
  const std::string rope = sizes + "--position-embedding-type rope --no-position-embedding";
  CHECK(imported(rope).job.model.position_embedding == PositionEmbedding::rope);
  CHECK(import_refusal(sizes + "--position-embedding-type none --no-position-embedding")
            .find("--no-position-embedding is not supported: it is deprecated") != std::string::npos);
}

TEST_CASE("what is missing is named by its flag, once") {
  const std::string refusal = import_refusal(
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --global-batch-size 8 --bf16 "
      "--tokenizer-type Llama2Tokenizer");
  CAPTURE(refusal);
  CHECK(refusal.find("no --micro-batch-size says 'training.micro_batch_size'") != std::string::npos);
  CHECK(refusal.find("no --nnodes says on how many nodes this runs") != std::string::npos);
  CHECK(refusal.find("missing required key") == std::string::npos);
  CHECK(refusal.find("3 errors; nothing was run.") != std::string::npos);
}

TEST_CASE("a wrong pipeline layout is the only fault of a script that overlaps experts' exchanges") {
  const std::string refusal = import_refusal(
      flags +
      " --num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-layout 'Ett|tt|tt|ttQ' "
      "--overlap-moe-expert-parallel-comm --num-experts 8");
  CAPTURE(refusal);
  CHECK(refusal.find("'Q' means nothing in a pipeline layout") != std::string::npos);
  CHECK(refusal.find("without virtual stages") == std::string::npos);
}

}  // namespace
// ZB-V runs any number of microbatches from twice the pipeline on; interleaved 1F1B wants multiples of it.
TEST_CASE("a batch that interleaved 1F1B refuses is said of a job under another schedule of virtual stages") {
  const auto unexpressed = [](const char* batch) {
    LoadOptions options = with_presets();
    options.overrides = {
        {"model",
         "{model_type: gpt, num_layers: 8, hidden_size: 64, num_attention_heads: 4, vocab_size: 64}"},
        {"training",
         std::string("{seq_length: 16, micro_batch_size: 1, precision: bf16, global_batch_size: ") + batch +
             "}"},
        {"parallelism", "{pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2}"},
        {"parallelism.tensor_model_parallel_size", "1"},
        {"parallelism.pipeline_schedule", "zb_v"},
        {"cluster", "{from: dgx_h100, nodes: 1, gpus_per_node: 2}"}};
    return megatron_arguments(load_job_text(small_job, "job.yaml", options).job).unexpressed;
  };
  CHECK(unexpressed("4").size() == 1);
  REQUIRE(unexpressed("5").size() == 2);
  CHECK(unexpressed("5").back().starts_with("training.global_batch_size: 5 microbatches"));
}

}  // namespace simrun::test
