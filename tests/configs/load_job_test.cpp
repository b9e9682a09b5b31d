#include "configs/load_job.h"

#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

TEST_CASE("the small job loads with every default filled in") {
  const Job job = load(small_job);
  CHECK(job.name == "job");
  CHECK(job.world_size() == 8);
  CHECK(job.parallelism.data_parallel_size == 1);  // 8 / (4 x 2)
  CHECK(job.microbatches() == 16);
  CHECK(job.parallelism.pipeline_schedule == "1f1b");
  CHECK(job.parallelism.stages == std::vector<StageContent>{{true, 4, false}, {false, 4, true}});
  CHECK(job.model.head_dim == 64);  // 1024 / 16
  CHECK(job.model.ffn_hidden_size == 4096);
  CHECK(job.model.max_position_embeddings == 1024);
  CHECK(job.training.hidden_dropout == 0.1);
  CHECK(job.optimizer.bucket_size == 40'000'000);
  CHECK(job.cluster.intra_node.bandwidth == 450e9);
  CHECK(job.cluster.inter_node.bandwidth == 50e9);
  CHECK(job.cluster.reserved_bytes == 2147483648);
  CHECK(job.config_sha256.size() == 64);
}

TEST_CASE("a batch that does not divide names the numbers and the nearest two that do") {
  const std::string text =
      edited(edited("nodes: 1", "nodes: 16"), "global_batch_size: 16", "global_batch_size: 120");
  CHECK(refusal(text) ==
        "job.yaml:11:22: error: 120 sequences do not split into micro_batch_size 1 x data parallel 16 "
        "(120 / 16 = 7.5)\n"
        "  hint: 112 and 128 do.\n"
        "1 error; nothing was run.\n");
}

TEST_CASE("everything that is wrong is reported in one run, in the order of the lines") {
  const std::string text = R"(simrun: 1
model:
  model_type: gpt
  num_layers: 010
  hidden_size: 1024
  hidden_size: 2048
  num_attention_heads: "16"
training:
  seq_length: 1e3
  micro_batch_size: 1
  precision: bf17
  global_batch_size: 16
optimizer: {zero_stage: yes}
cluster:
  nodes: 1
  gpus_per_node: 8
  gpu: h100_sxm
  intra_node: {bandwidth: 450, latency: 2 us}
)";
  CHECK(refusal(text) ==
        "job.yaml:2:1: error: missing required key 'vocab_size' in 'model'\n"
        "  hint: vocab_size: a whole number.\n"
        "job.yaml:4:15: error: 'model.num_layers': '010' starts with a zero, which YAML 1.1 reads as octal\n"
        "  hint: write it without the zero.\n"
        "job.yaml:6:3: error: duplicate key 'hidden_size'\n"
        "  hint: it is already on line 5; keep one.\n"
        "job.yaml:7:24: error: 'model.num_attention_heads' must be a whole number, not the quoted text '16'\n"
        "  hint: remove the quotes.\n"
        "job.yaml:9:15: error: 'training.seq_length': must be a whole number in plain digits, not '1e3'\n"
        "  hint: write 1000.\n"
        "job.yaml:11:14: error: 'training.precision' cannot be 'bf17'\n"
        "  hint: did you mean 'bf16'?\n"
        "job.yaml:13:25: error: 'optimizer.zero_stage': must be a whole number in plain digits, not 'yes'\n"
        "job.yaml:18:27: error: 'cluster.intra_node.bandwidth': needs a unit: 450 of what?\n"
        "  hint: write 450 GB/s (bytes) or 450 Gb/s (bits).\n"
        "8 errors; nothing was run.\n");
}

TEST_CASE("one wrong thing gives one error that names it") {
  struct Row {
    std::string from;
    std::string to;
    std::string error;  // "line:column message"
  };
  const std::vector<Row> rows = {
      {"simrun: 1\n", "", "1:1 missing required key 'simrun', the version of the config's schema"},
      {"simrun: 1", "simrun: 2", "1:9 schema version '2' is unknown to this simrun"},
      {"simrun: 1", "simrun: [1]", "1:9 schema version a list is unknown to this simrun"},
      {"cluster: {from: dgx_h100, nodes: 1}", "", "1:1 missing required section 'cluster'"},
      {"cluster: {from: dgx_h100, nodes: 1}", "cluster: 8", "16:10 'cluster' must be a map of keys, not '8'"},
      {", nodes: 1}", "}", "16:1 missing required key 'nodes' in 'cluster'"},
      {"from: dgx_h100", "from: dgx_h10", "16:17 no file 'dgx_h10' in clusters/"},
      {"from: dgx_h100", "from: [a]", "16:17 'from' must be the name of a file"},
      {"nodes: 1", "nodes: 1000001", "16:34 'cluster.nodes': must be at most 1000000, not '1000001'"},
      {"nodes: 1", "nodes: 1, gpu: {from: h100_sxm, memory: 80}",
       "16:67 'cluster.gpu.memory': needs a unit: 80 of what?"},
      {"nodes: 1", "nodes: 1, intra_node: {efficiency: 1.5}",
       "16:62 'cluster.intra_node.efficiency': must be from 0.01 to 1, not '1.5'"},
      {"nodes: 1", "nodes: 1, gpus_per_node: 12",
       "16:34 12 GPUs (1 nodes x 12) do not divide by tensor 4 x pipeline 2 = 8"},
      {"tensor_model_parallel_size: 4", "tensor_model_parallel_size: 8",
       "16:34 8 GPUs (1 nodes x 8) is smaller than the mesh: tensor 8 x pipeline 2 = 16"},
      {"parallelism:\n", "parallelism:\n  data_parallel_size: 2\n",
       "14:23 data_parallel_size is 1: 8 GPUs (1 nodes x 8) / (tensor 4 x pipeline 2 = 8)"},
      {"parallelism:\n", "parallelism:\n  context_parallel_size: 2\n",
       "17:34 8 GPUs (1 nodes x 8) is smaller than the mesh: tensor 4 x context 2 x pipeline 2 = 16"},
      {"parallelism:\n", "parallelism:\n  expert_model_parallel_size: 2\n",
       "14:31 2 ranks for experts, and the model has none"},
      {"parallelism:\n", "parallelism:\n  pipeline_schedule: seq1f1b\n",
       "14:22 seq1f1b runs slices of a sequence, and the passes of a plan run whole sequences; simrun "
       "--schedule "
       "seq1f1b draws it"},
      {"parallelism:\n", "parallelism:\n  pipeline_schedule: zb_v\n",
       "14:22 zb_v has two chunks per rank, but virtual_pipeline_model_parallel_size is 1"},
      {"parallelism:\n", "parallelism:\n  pipeline_schedule: mine.csv\n",
       "14:22 cannot read 'mine.csv': no such file"},
      {"parallelism:\n", "parallelism:\n  pipeline_schedule: interleaved_1f1b\n",
       "14:22 interleaved_1f1b needs virtual_pipeline_model_parallel_size 2 or more"},
      {"parallelism:\n",
       "parallelism:\n  pipeline_schedule: gpipe\n  virtual_pipeline_model_parallel_size: 2\n",
       "14:22 gpipe has one chunk per rank, but virtual_pipeline_model_parallel_size is 2"},
      {"parallelism:\n", "parallelism:\n  virtual_pipeline_model_parallel_size: 3\n",
       "14:41 8 layers do not split into pipeline 2 x virtual 3 = 6 stages"},
      {"parallelism:\n", "parallelism:\n  virtual_pipeline_model_parallel_size: 8\n",
       "14:41 8 layers are fewer than pipeline 2 x virtual 8 = 16 stages"},
      {"parallelism:\n", "parallelism:\n  pipeline_model_parallel_layout: \"Et*4|t*3L\"\n",
       "14:36 the layout has 7 decoder layers; the model has 8"},
      {"parallelism:\n", "parallelism:\n  pipeline_model_parallel_layout: \"Et*8L\"\n",
       "14:36 the layout has 1 stages; pipeline 2 x virtual 1 needs 2"},
      {"parallelism:\n", "parallelism:\n  pipeline_model_parallel_layout: \"Et*4|t*4x\"\n",
       "14:44 'x' means nothing in a pipeline layout"},
      {"parallelism:\n", "parallelism:\n  sequence_parallel: True\n",
       "14:22 'parallelism.sequence_parallel' must be true or false, not 'True'"},
      {"seq_length: 1024", "seq_length: 1022\n  unused: 1", "10:3 unknown key 'unused' in 'training'"},
      {"precision: bf16", "precision: mxfp8", "12:14 'mxfp8' for 'training.precision' is not supported yet"},
      {"precision: bf16", "precision:", "12:3 missing required key 'precision' in 'training'"},
      {"precision: bf16", "precision: bf16\n  hidden_dropout: 1",
       "13:19 'training.hidden_dropout': must be from 0 to 0.999, not '1'"},
      {"micro_batch_size: 1", "micro_batch_size: 0",
       "10:21 'training.micro_batch_size': must be at least 1, not 0"},
      {"global_batch_size: 16", "global_batch_size: 9223372036854775808",
       "11:22 'training.global_batch_size': must be at most 100000000, not '9223372036854775808'"},
      {"hidden_size: 1024", "hidden_size: 1028",
       "5:16 hidden_size 1028 does not split into 16 attention heads"},
      {"num_attention_heads: 16", "num_attention_heads: 2",
       "14:31 2 attention heads do not split into tensor parallel 4"},
      {"hidden_size: 1024\n  num_attention_heads: 16",
       "hidden_size: 768\n  num_attention_heads: 12\n  num_query_groups: 3",
       "15:31 tensor parallel 4 gives its ranks unequal copies of 3 key-value heads"},
      {"num_attention_heads: 16", "num_attention_heads: 16\n  num_query_groups: 12",
       "6:24 16 attention heads do not split into 12 key-value heads"},
      {"num_layers: 8", "num_layers: 8\n  ffn_hidden_size: 4098",
       "15:31 feed-forward size 4098 does not split into tensor parallel 4"},
      {"num_layers: 8", "num_layers: 8\n  swiglu: true",
       "2:1 missing required key 'ffn_hidden_size' in 'model'"},
      {"num_layers: 8", "num_layers: 8\n  max_position_embeddings: 512",
       "10:15 seq_length 1024 is longer than the model's 512 positions"},
      {"num_layers: 8", "num_layers: 7", "15:33 7 layers do not split into pipeline 2"},
      {"model_type: gpt", "model_type: gptj", "3:15 'model.model_type' cannot be 'gptj'"},
      {"  model_type: gpt\n", "", "2:1 missing required key 'model_type' in 'model'"},
      {"cluster:", "moe: {token_dispatcher: deepep}\ncluster:",
       "16:1 'moe' is about experts, and the model has none"},
      {"cluster:", "trainin: {}\ncluster:", "16:1 unknown section 'trainin'"},
      {"cluster:", "optimizer: {zero_stage: 4}\ncluster:",
       "16:25 'optimizer.zero_stage': must be at most 3, not '4'"},
      {"cluster:", "optimizer: {zero_stage: 3, overlap_grad_reduce: false}\ncluster:",
       "16:49 zero_stage 3 always reduces gradients behind the backward pass"},
      {"cluster:", "optimizer: {overlap_param_gather: true}\ncluster:",
       "16:35 overlap_param_gather needs zero_stage 1, 2 or 3"},
      {"cluster:", "optimizer: {zero_stage: 2, reshard_after_forward: false}\ncluster:",
       "16:51 reshard_after_forward: false needs zero_stage 3"},
      {"cluster:", "optimizer: {zero_stage: 3, reshard_after_backward: false}\ncluster:",
       "16:52 weights kept between microbatches are kept behind the forward pass too"},
      {"cluster:", "optimizer: {zero_stage: 1, no_sync: true}\ncluster:",
       "16:37 no_sync: true needs zero_stage 2 or 3"},
      {"cluster:", "optimizer: {zero_stage: 1, overlap_param_gather: true}\ncluster:",
       "16:50 overlap_param_gather needs overlap_grad_reduce: true"},
      {"cluster:", "optimizer: {name: lamb}\ncluster:",
       "16:19 'lamb' for 'optimizer.name' is not supported yet"},
      {"cluster:", "recompute: {granularity: selective, modules: [core_attn, core_attn]}\ncluster:",
       "16:58 'core_attn' is listed twice"},
      {"cluster:", "recompute: {granularity: selective, modules: mlp}\ncluster:",
       "16:46 'recompute.modules' must be a list such as [core_attn], not 'mlp'"},
      {"cluster:", "recompute: {modules: [mlp]}\ncluster:",
       "16:13 'recompute.modules' means nothing with granularity: none"},
      {"cluster:", "recompute: {granularity: selective, num_layers: 2}\ncluster:",
       "16:37 'recompute.num_layers' means nothing with granularity: selective"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.to);
    const std::vector<Diagnostic> problems = problems_of(edited(row.from, row.to));
    CHECK(problems.size() == 1);
    if (problems.empty()) continue;
    const Diagnostic& problem = problems.front();
    CHECK(fmt::format("{}:{} {}", problem.position.line, problem.position.column, problem.message) ==
          row.error);
    CHECK(problem.position.file == "job.yaml");
  }
}

TEST_CASE("interleaving refuses microbatch counts that Megatron-LM's groups cannot take") {
  const std::string four_ranks =
      edited(edited("pipeline_model_parallel_size: 2",
                    "pipeline_model_parallel_size: 4\n  virtual_pipeline_model_parallel_size: 2"),
             "nodes: 1", "nodes: 2");
  CHECK(load(four_ranks).parallelism.pipeline_schedule == "interleaved_1f1b");
  CHECK(load(four_ranks).parallelism.microbatch_group_size_per_vp_stage == 4);
  CHECK(refusal(edited(four_ranks, "global_batch_size: 16", "global_batch_size: 18")) ==
        "job.yaml:11:22: error: interleaved_1f1b runs groups of 4 microbatches, the last one full or at "
        "least 4 (the "
        "pipeline size); 18 microbatches do not split so\n"
        "  hint: 16 and 20 microbatches do: global_batch_size 16 or 20.\n"
        "1 error; nothing was run.\n");
  CHECK(problems_of(edited(four_ranks, "global_batch_size: 16", "global_batch_size: 3")).at(0).hint ==
        "4 microbatches do: global_batch_size 4.");
  // A group of 6: 16 = 6 + 6 + 4 leaves 4 >= 4, 15 leaves 3 < 4.
  const std::string six =
      edited(four_ranks, "  virtual", "  microbatch_group_size_per_vp_stage: 6\n  virtual");
  CHECK(refusal(six) == "accepted");
  CHECK(problems_of(edited(six, "global_batch_size: 16", "global_batch_size: 15")).at(0).hint ==
        "12 and 16 microbatches do: global_batch_size 12 or 16.");
  CHECK(problems_of(edited(six, "stage: 6", "stage: 3")).at(0).message ==
        "microbatch_group_size_per_vp_stage 3 is below pipeline_model_parallel_size 4");
}

TEST_CASE("a layout gives each virtual stage its content") {
  const Job job =
      load(edited("parallelism:\n", "parallelism:\n  pipeline_model_parallel_layout: \"Et*3|t*5L\"\n"));
  CHECK(job.parallelism.stages == std::vector<StageContent>{{true, 3, false}, {false, 5, true}});
}

TEST_CASE("sequence parallelism without tensor parallelism is off, and the effective config says so") {
  const LoadedJob loaded = load_job_text(
      edited("tensor_model_parallel_size: 4", "tensor_model_parallel_size: 1\n  sequence_parallel: true"),
      "job.yaml", with_presets());
  CHECK_FALSE(loaded.job.parallelism.sequence_parallel);
  CHECK(loaded.effective_yaml.find("# from job.yaml:15, off because tensor_model_parallel_size is 1") !=
        std::string::npos);
}

TEST_CASE("afab is another name of gpipe") {
  CHECK(load(edited("parallelism:\n", "parallelism:\n  pipeline_schedule: afab\n"))
            .parallelism.pipeline_schedule == "gpipe");
}

TEST_CASE("scores count where they are written to memory only") {
  // 8 B x 4 x 16 heads x 8 layers x 65,536 sequences x (1,048,576 tokens)^2 = 3.0e20 B of scores.
  std::string text = edited("seq_length: 1024", "seq_length: 1048576");
  text = edited(text, "global_batch_size: 16", "global_batch_size: 65536");
  CHECK(problems_of(edited(text, "training:\n", "training:\n  attention: unfused\n"))
            .at(0)
            .message.starts_with("too large to count: the bytes of a step's activations"));
  CHECK(problems_of(edited(text, "training:\n", "training:\n  attention: flash\n")).empty());
}

TEST_CASE("sizes whose products leave 64 bits are refused") {
  std::string text = edited("num_layers: 8", "num_layers: 10000");
  text = edited(text, "hidden_size: 1024", "hidden_size: 10000000\n  kv_channels: 10000000");
  text = edited(text, "vocab_size: 51200", "vocab_size: 100000000");
  text = edited(text, "seq_length: 1024", "seq_length: 100000000");
  text = edited(text, "global_batch_size: 16", "global_batch_size: 1000000");
  const std::vector<Diagnostic> problems = problems_of(text);
  REQUIRE(problems.size() == 3);
  for (const Diagnostic& problem : problems) CHECK(problem.message.starts_with("too large to count: "));
  CHECK(problems_of(edited("global_batch_size: 16", "global_batch_size: 10000000")).at(0).message ==
        "10000000 microbatches x 2 pipeline stages are more than simrun's 2000000 passes");
}

TEST_CASE("--set overrides, creates and is named in messages and in the effective config") {
  LoadOptions options = with_presets();
  options.overrides = {{"training.global_batch_size", "32"},
                       {"optimizer.zero_stage", "1"},
                       {"cluster.gpu.memory", "96 GiB"},
                       {"recompute", "{granularity: selective, modules: [mlp]}"}};
  const LoadedJob loaded = load_job_text(small_job, "job.yaml", options);
  CHECK(loaded.job.training.global_batch_size == 32);
  CHECK(loaded.job.optimizer.zero_stage == 1);
  CHECK(loaded.job.cluster.gpu.memory_bytes == 103079215104);  // 96 x 2^30
  CHECK(loaded.job.cluster.gpu.name == "h100_sxm");
  CHECK(loaded.job.recompute.modules == std::vector<std::string>{"mlp"});
  CHECK(loaded.effective_yaml.find("  global_batch_size: 32                         # --set\n") !=
        std::string::npos);

  const auto set = [](const std::string& key, const std::string& value) {
    LoadOptions one = with_presets();
    one.overrides = {{key, value}};
    return refusal(small_job, one);
  };
  CHECK(set("training.global_batch_siz", "32") ==
        "--set training.global_batch_siz=32: error: unknown key 'global_batch_siz' in 'training'\n"
        "  hint: did you mean 'global_batch_size'?\n1 error; nothing was run.\n");
  CHECK(set("training.seq_length", "many")
            .starts_with(
                "--set training.seq_length=many: error: 'training.seq_length': must be a whole number"));
  CHECK(set("training", "3") ==
        "--set training=3: error: 'training' must be a map of keys, not '3'\n"
        "1 error; nothing was run.\n");
  CHECK(set("..", "3").find("the key must be a dotted path") != std::string::npos);
  CHECK(set("training.seq_length", "[1").starts_with("--set training.seq_length=[1: error: "));
  CHECK(set("cluster.gpu", "a100_sxm_40gb") == "accepted");
}

TEST_CASE("--set of a preset leaves what the job writes beside it, in whichever order") {
  const auto layers = [](std::vector<Override> overrides) {
    LoadOptions options = with_presets();
    options.overrides = std::move(overrides);
    const Job job =
        load_job_text(
            "simrun: 1\nmodel: {from: llama3-8b, num_hidden_layers: 4}\n"
            "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
            "cluster: {from: dgx_a100, nodes: 1}\n"
            "framework: {from: megatron_core, kernels: {host_dispatch: 0 us}}\n",
            "job.yaml", options)
            .job;
    CHECK(job.framework.kernels.host_dispatch_s == 0);
    return job.model.num_layers;
  };
  CHECK(layers({{"model.from", "llama2-7b"}}) == 4);
  CHECK(layers({{"model.num_hidden_layers", "2"}, {"model.from", "llama2-7b"}}) == 2);
  CHECK(layers({{"model.from", "llama2-7b"}, {"model.num_hidden_layers", "2"}}) == 2);
  CHECK(layers({{"framework.from", "nemo"}}) == 4);
  CHECK(layers({{"cluster.gpu", "{from: a100_sxm_80gb, memory: 41 GiB}"},
                {"cluster.gpu.from", "a100_sxm_40gb"},
                {"cluster.reserved_memory", "40.5 GiB"}}) == 4);  // refused of 40 GiB
  CHECK(layers({{"model", "{from: llama2-7b}"}}) == 32);          // a model of its own
}

TEST_CASE("a GPU without peak for the precision, or without NVLink in a node, is named") {
  LoadOptions options = with_presets();
  options.overrides = {{"cluster.gpu", "v100_sxm2_16gb"}};
  CHECK(problems_of(small_job, options).at(0).message == "v100_sxm2_16gb has no peak_flops for bf16");
  CHECK(problems_of(small_job, options).at(0).hint == "it has fp64, fp32, fp16.");
  options.overrides = {{"cluster.gpu", "t4"}, {"training.precision", "fp16"}};
  CHECK(problems_of(small_job, options).at(0).message ==
        "missing required key 'bandwidth' in 'cluster.intra_node'");
}

TEST_CASE("an empty file, a list and a missing file are refused, not crashed on") {
  CHECK(problems_of("").at(0).message == "a config is a map of sections, not nothing");
  CHECK(problems_of("- 1\n").at(0).message == "a config is a map of sections, not a list");
  CHECK(problems_of("simrun: [\n").at(0).message.starts_with("not valid YAML: "));
  CHECK_THROWS_AS(load_job("/nowhere/job.yaml", with_presets()), ConfigError);
  CHECK_THROWS_AS(load_job("/dev/zero", with_presets()), ConfigError);
  CHECK_THROWS_AS(load_job("/", with_presets()), ConfigError);
}

TEST_CASE("the hash is of the meaning: not of the file's name, comments, order or spelling of numbers") {
  const std::string hash = load(small_job).config_sha256;
  CHECK(load_job_text("# a comment\n" + small_job, "elsewhere/x.yaml", with_presets()).job.config_sha256 ==
        hash);
  CHECK(load(edited("  micro_batch_size: 1\n  global_batch_size: 16\n",
                    "  global_batch_size: 16\n  micro_batch_size: 1\n"))
            .config_sha256 == hash);
  CHECK(load(edited("nodes: 1", "nodes: 1, reserved_memory: 2.0GiB")).config_sha256 == hash);
  CHECK(load(edited("global_batch_size: 16", "global_batch_size: 32")).config_sha256 != hash);
}

TEST_CASE("a reserve that leaves nothing of the GPU is refused with both sizes") {
  LoadOptions options = with_presets();
  options.overrides = {{"cluster.reserved_memory", "500 GiB"}};
  CHECK(problems_of(small_job, options).at(0).message ==
        "reserved_memory 500.0 GiB leaves nothing of the 80.0 GiB of h100_sxm");
}

TEST_CASE("a file that cannot be read says why") {
  const auto reason = [](const char* path) {
    try {
      load_job(path, with_presets());
    } catch (const ConfigError& error) {
      return error.diagnostics().at(0).message;
    }
    return std::string("read");
  };
  CHECK(reason("/nowhere/job.yaml") == "cannot read this file: no such file");
  CHECK(reason("/") == "cannot read this file: it is a directory");
  CHECK(reason("/dev/zero") == "cannot read this file: it is not a regular file");
}

TEST_CASE("a name that is no clean text is made one") {
  CHECK(load_job_text(small_job, "bad\xff\n.yaml", with_presets()).job.name == "bad__");
  const auto name = [](const std::string& file) {
    return load_job_text(small_job, file + ".yaml", with_presets()).job.name;
  };
  CHECK(name("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(name("\xc0\xaf") == "__");            // longer than needed
  CHECK(name("\xed\xa0\x80") == "___");       // a surrogate
  CHECK(name("\xf4\x90\x80\x80") == "____");  // above U+10FFFF
  CHECK(name("a\xe2\x82") == "a__");          // cut short
}
