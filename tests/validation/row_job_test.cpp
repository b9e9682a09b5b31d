#include "validation/row_job.h"

#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"

namespace simrun {
namespace {

TEST_CASE("row: a source of no rule runs with Megatron's habits, each noted") {
  const LoadedRow row = load_row({});
  CHECK(row.made.source == "a source of no rule");
  CHECK(row.job.parallelism.data_parallel_size == 2);
  CHECK(row.job.optimizer.zero_stage == 1);
  for (const char* what :
       {"zero_stage=1", "recompute=none", "flash_attention=1", "vocab=51200", "schedule=1f1b", "sp=0"})
    CHECK(assumes(row.made, what));
  CHECK_FALSE(assumes(row.made, "tp=2"));
}

TEST_CASE("row: the family follows from the model's name, the dimensions from the row") {
  const LoadedRow llama =
      load_row({{Column::model, "LLaMA-13B"}, {Column::ffn_hidden, "2752"}, {Column::vocab, "128000"}});
  CHECK(llama.job.model.activation == Activation::swiglu);
  CHECK(llama.job.model.ffn_hidden_size == 2752);
  const LoadedRow mpt = load_row({{Column::model, "MPT-1b"}});
  CHECK(mpt.job.model.model_type == "mpt");
  CHECK(mpt.job.model.position_embedding == PositionEmbedding::learned_absolute);
  const LoadedRow mixtral = load_row({{Column::model, "Mixtral-8x7B"},
                                      {Column::kv_heads, "8"},
                                      {Column::n_experts, "8"},
                                      {Column::topk, "2"},
                                      {Column::ep, "2"},
                                      {Column::layers, "4"}});
  CHECK(mixtral.job.model.experts.count == 8);
  CHECK(mixtral.job.parallelism.expert_model_parallel_size == 2);
  CHECK(
      load_row(
          {{Column::model, "DeepSeek-V3"}, {Column::layers, "8"}, {Column::hidden, ""}, {Column::heads, ""}})
          .job.model.mla.on());
}

TEST_CASE(
    "row: heads that are not stated are near 128 elements wide and divisible by tensor-parallel ranks") {
  const auto heads = [](const char* hidden, const char* tensor) {
    return load_row({{Column::hidden, hidden},
                     {Column::heads, ""},
                     {Column::tp, tensor},
                     {Column::pp, "1"},
                     {Column::vpp, "1"}})
        .job.model.num_attention_heads;
  };
  CHECK(heads("13824", "1") == 108);  // of 128 elements
  CHECK(heads("13824", "8") == 96);   // of 144; 104 and 112 do not divide the width
  CHECK(heads("1024", "4") == 16);    // of 64
  CHECK(load_row({{Column::hidden, "3072"}, {Column::heads, ""}, {Column::kv_heads, "32"}})
            .job.model.num_attention_heads ==
        32);  // of 96; 24 of 128 elements do not share 32 key-value heads
}

TEST_CASE("row: a model without dimensions is the preset that its name means") {
  const Cells unknown{{Column::layers, ""}, {Column::hidden, ""}, {Column::heads, ""}};
  const auto named = [&](const char* model, Cells cells = {}) {
    cells.insert(cells.end(), unknown.begin(), unknown.end());
    cells.emplace_back(Column::model, model);
    return load_row(cells);
  };
  const LoadedRow qwen = named("Qwen2.5 32B");
  CHECK(qwen.job.model.num_layers == 64);
  CHECK(assumes(qwen.made, "model preset qwen2.5-32b"));
  CHECK(qwen.job.model.vocab_size == 152064);
  CHECK_FALSE(assumes(qwen.made, "vocab=32000"));
  CHECK(named("Yi-34B").job.model.hidden_size == 7168);
  // What the row says itself stands over the preset's.
  CHECK(
      load_row({{Column::model, "Yi-34B"}, {Column::layers, "8"}, {Column::hidden, ""}, {Column::heads, ""}})
          .job.model.num_layers == 8);
  CHECK(named("OPT-13B", {{Column::vocab, "51200"}}).job.model.vocab_size == 51200);
  CHECK(named("DeepSeek-V2-Lite 16B").job.model.num_layers == 27);
  CHECK(named("Kimi K2").job.model.experts.count == 384);
  // 95 layers on two stages.
  CHECK(named("DeepSeek LLM 67B").job.model.num_layers == 95);
}

TEST_CASE(
    "row: a source of no rule runs on the framework that its words name, else on that of its GPUs' years") {
  const auto framework = [](const char* source, const char* hardware, const char* notes = "") {
    const LoadedRow row = load_row({{Column::source, source},
                                    {Column::hardware, hardware},
                                    {Column::notes, notes},
                                    {Column::precision, "fp16"}});
    const std::string& name = row.job.framework.name;
    CHECK(assumes(row.made, "framework=" + name));
    return name;
  };
  CHECK(framework("a blog", "H100") == "megatron_core");
  CHECK(framework("a blog", "A100") == "megatron_2022");
  CHECK(framework("a blog", "V100-SXM2-32GB") == "megatron_2020");
  CHECK(framework("a blog", "A100", "twice as fast as on V100") == "megatron_2022");
  CHECK(framework("a blog", "H100", "Alpaca, accelerated by a GPT4 tokenizer") == "megatron_core");
  CHECK(framework("a blog on nanotron", "H100") == "nanotron");
  CHECK(framework("a blog", "H100", "PyTorch FSDP2, torch.compile") == "fsdp");
  CHECK(framework("nanoGPT", "A100", "torch.compile, no dropout") == "fsdp");
  CHECK(framework("nanoGPT", "A100", "PyTorch, eager") == "pytorch_eager");
  CHECK(framework("a blog", "A100", "Hugging Face Trainer in PyTorch") == "pytorch_eager");
  CHECK(framework("a blog", "A100", "DeepSpeed 0.11.1 around Hugging Face's Llama") ==
        "deepspeed_transformers");
  CHECK(framework("a blog", "A100", "Megatron-LM on PyTorch 2.1") == "megatron_2022");
  CHECK(framework("a blog", "H100", "Megatron-LM on PyTorch 2.1") == "megatron_core");
  for (const char* shards : {"fsdp", "3"})
    CHECK(load_row({{Column::tp, "1"}, {Column::pp, "1"}, {Column::zero_stage, shards}}).job.framework.name ==
          "fsdp");
  // What a rule of sources.yaml names stands.
  CHECK(load_row({{Column::source, "FlashAttention-2 (arXiv 2307.08691)"}}).job.framework.name == "fsdp");
  CHECK(load_row({{Column::source, "hpcaitech/ColossalAI README.md"}}).job.framework.name ==
        "deepspeed_transformers");
  // DeepSeek's own software has no profile.
  const LoadedRow deepseek = load_row({{Column::source, "DeepSeek-V3 technical report arXiv 2412.19437"}});
  CHECK(assumes(deepseek.made, "no profile of deepseek"));
  CHECK(deepseek.job.framework.name.empty());
}

TEST_CASE("row: papers of before FlashAttention have none, unless they say so") {
  const auto kernel = [](const char* source, const char* flash = "") {
    return load_row({{Column::source, source}, {Column::hardware, "A100"}, {Column::flash_attention, flash}})
        .job.training.attention;
  };
  CHECK(kernel("a paper (arXiv 2211.15841)") == AttentionKernel::unfused);
  CHECK(kernel("a paper (arXiv 2112.01075), Megatron-LM") == AttentionKernel::unfused);
  CHECK(kernel("a paper (arXiv 2211.15841)", "1") == AttentionKernel::flash);
  CHECK(kernel("a paper (arXiv 2406.08334)") == AttentionKernel::flash);
}

TEST_CASE("row: what no rule knows is named, in place of the keys that the job would lack") {
  const RowRules rules = load_row_rules(source_presets());
  const LoadOptions options = source_presets();
  KnownPresets presets(options);
  const auto unknown = [&](const Cells& cells) {
    const RowJob made = job_of_row(measured_row(cells), rules, presets);
    const auto found = made.facts.find("unknown");
    return found == made.facts.end() ? "" : found->second;
  };
  CHECK(unknown({}).empty());
  CHECK(unknown({{Column::hardware, "Gaudi2"}}) ==
        "hardware 'Gaudi2': this GPU has no profile in configs/gpus");
  for (const char* other : {"MI308X", "MI300A", "GB10", "L20"})
    CHECK(unknown({{Column::hardware, other}}).find("has no profile") != std::string::npos);
  CHECK(unknown({{Column::hardware, "A100 48GB"}}) ==
        "hardware 'A100 48GB': of its memory this GPU has no profile in configs/gpus, a100_sxm_80gb has 80 "
        "GiB");
  CHECK(unknown({{Column::model, "Jamba-52B"}, {Column::layers, ""}}) ==
        "model 'Jamba-52B': no cells with its dimensions, no preset of its name");
  CHECK(unknown({{Column::model, "Some-MoE-20B"}}) ==
        "model 'Some-MoE-20B': of its experts no number is given (n_experts)");
  CHECK(unknown({{Column::model, "Some-MoE-20B"}, {Column::n_experts, "8"}}).empty());
  CHECK(unknown({{Column::model, "Qwen1.5-MoE-A2.7B"}}).empty());
}

TEST_CASE("row: GPUs whose links are PCIe have no NVLink") {
  const auto gpu = [](const char* hardware, const char* links, const char* precision = "bf16") {
    const LoadedRow row =
        load_row({{Column::hardware, hardware}, {Column::intra_link, links}, {Column::precision, precision}});
    CHECK((row.job.cluster.gpu.nvlink_bandwidth == 0) == (row.job.cluster.intra_node.bandwidth < 100e9));
    return row.job.cluster.gpu.name;
  };
  CHECK(gpu("H100-80GB", "PCIe 5.0 x16") == "h100_pcie");
  CHECK(gpu("A100-PCIE-40GB", "") == "a100_pcie_40gb");
  CHECK(gpu("A100 80GB", "PCIe") == "a100_pcie_80gb");
  CHECK(gpu("A100 80GB", "PCIe (no NVLink)") == "a100_pcie_80gb");
  CHECK(gpu("A100 PCIe 80GB, 400 Gb/s InfiniBand", "") == "a100_pcie_80gb");
  CHECK(gpu("A800-80GB", "PCIe") == "a100_pcie_80gb");
  CHECK(gpu("A100-80GB", "NVLink3, NICs on PCIe 4.0") == "a100_sxm_80gb");
  CHECK(gpu("8x A100-SXM4-80GB, PCIe 4.0 host", "PCIe") == "a100_sxm_80gb");
  CHECK(gpu("Tesla V100-PCIE-32GB", "", "fp16") == "v100_pcie_32gb");
  CHECK(load_row({{Column::hardware, "Tesla V100-PCIE-16GB"}, {Column::precision, "fp16"}})
            .job.cluster.gpu.memory_bytes == std::int64_t{16} << 30);
  CHECK(gpu("8x RTX 4090", "") == "rtx_4090");
}

TEST_CASE("row: a card whose name another's begins with, or that begins with another's, is itself") {
  const auto gpu = [](const char* hardware, const char* precision = "bf16") {
    return load_row({{Column::hardware, hardware}, {Column::precision, precision}}).job.cluster.gpu.name;
  };
  CHECK(gpu("H20") == "h20_sxm");
  CHECK(gpu("H200") == "h200_sxm");
  CHECK(gpu("H100 NVL") == "h100_nvl");
  CHECK(gpu("H200 NVL") == "h200_nvl");
  CHECK(gpu("GH200") == "gh200_96gb");
  CHECK(gpu("GH200 144GB") == "gh200_144gb");
  CHECK(gpu("A10G") == "a10g");
  CHECK(gpu("A10") == "a10");
  CHECK(gpu("L4") == "l4");
  CHECK(gpu("L40S") == "l40s");
  CHECK(gpu("RTX 6000 Ada") == "rtx_6000_ada");
  CHECK(gpu("B300") == "b300");
  CHECK(gpu("GB300") == "gb300");
  CHECK(gpu("V100S-PCIE-32GB", "fp16") == "v100s_pcie");
  CHECK(gpu("Tesla P100-PCIE-16GB", "fp32") == "p100_pcie_16gb");
}

TEST_CASE("row: what a rule says of a node's links stands, however many NICs a node has") {
  const Cells nodes{{Column::n_gpus, "16"}, {Column::global_batch, "16"}, {Column::hardware, "H100 PCIe"}};
  for (const char* network : {"2x200 Gb/s", "8x200 Gb/s per node"}) {
    Cells cells = nodes;
    cells.emplace_back(Column::inter_link, network);
    CHECK(load_row(cells).job.cluster.intra_node.bandwidth == Approx(63e9));
  }
}

TEST_CASE("row: Alpa's models of experts have them in every second layer, wide ones, under Adafactor") {
  const LoadedRow alpa = load_row({{Column::model, "MoE h768 L12"},
                                   {Column::layers, "12"},
                                   {Column::hidden, "768"},
                                   {Column::heads, "6"},
                                   {Column::n_experts, "16"},
                                   {Column::pp, "1"},
                                   {Column::vpp, "1"},
                                   {Column::tp, "1"}});
  CHECK(alpa.job.model.experts.count == 16);
  CHECK(alpa.job.model.ffn_hidden_size == 6144);
  CHECK(alpa.job.optimizer.name == UpdateRule::adafactor);
  CHECK(assumes(alpa.made, "ffn_hidden=6144"));
  CHECK(load_row({{Column::model, "GPT-1.3B"}}).job.optimizer.name == UpdateRule::adam);
}

TEST_CASE("row: layers that stages do not divide are laid out, first and last one short where that fits") {
  // 22 + 2 = 8 x 3: embedding and loss stand for a layer each
  const LoadedRow row =
      load_row({{Column::layers, "22"}, {Column::pp, "8"}, {Column::tp, "1"}, {Column::vpp, "1"}});
  std::vector<std::int64_t> layers;
  for (const StageContent& stage : row.job.parallelism.stages) layers.push_back(stage.layers);
  CHECK(layers == std::vector<std::int64_t>{2, 3, 3, 3, 3, 3, 3, 2});
  CHECK(assumes(row.made, "22 layers on 8 stages"));
  // 78 on 12: seven each, one on the last
  const LoadedRow bloom = load_row({{Column::layers, "78"},
                                    {Column::pp, "12"},
                                    {Column::tp, "1"},
                                    {Column::n_gpus, "48"},
                                    {Column::vpp, "1"}});
  CHECK(bloom.job.parallelism.stages.front().layers == 7);
  CHECK(bloom.job.parallelism.stages.back().layers == 1);
}

TEST_CASE("row: a layout of stages in the notes is taken, and says how many virtual stages there are") {
  const LoadedRow row =
      load_row({{Column::layers, "7"},
                {Column::pp, "2"},
                {Column::tp, "1"},
                {Column::notes, "x --pipeline-model-parallel-layout Ett|(tt|)*2tL --bf16"}});
  CHECK(row.job.parallelism.virtual_pipeline_model_parallel_size == 2);
  CHECK(row.job.parallelism.pipeline_schedule == "interleaved_1f1b");
  REQUIRE(row.job.parallelism.stages.size() == 4);
  CHECK(row.job.parallelism.stages.back().layers == 1);
}

TEST_CASE("row: two GPUs of a node of eight have the links that these two have") {
  const LoadedRow row = load_row({{Column::hardware, "V100-SXM2-16GB (AWS p3.16xlarge)"},
                                  {Column::precision, "fp16"},
                                  {Column::gpus_per_node, "8"},
                                  {Column::n_gpus, "2"},
                                  {Column::tp, "2"},
                                  {Column::dp, "1"},
                                  {Column::pp, "1"}});
  CHECK(row.job.cluster.wiring.nvlinks == std::vector<NvlinkPair>{{0, 1, 1}});
  CHECK(row.job.cluster.intra_node.bandwidth == Approx(25e9));
}

TEST_CASE("row: nodes, NICs and their rate are the row's, latencies the preset's") {
  const LoadedRow row = load_row(
      {{Column::n_gpus, "32"}, {Column::global_batch, "32"}, {Column::inter_link, "4x100Gb RoCE per node"}});
  CHECK(row.job.cluster.nodes == 4);
  CHECK(row.job.cluster.nics_per_node == 4);
  CHECK(row.job.cluster.inter_node.bandwidth == 12.5e9);
  const LoadedRow part = load_row({{Column::n_gpus, "4"},
                                   {Column::hardware, "V100-SXM2-16GB (AWS p3.16xlarge)"},
                                   {Column::precision, "fp16"}});
  CHECK(part.job.cluster.nodes == 1);
  CHECK(part.job.cluster.gpus_per_node == 4);
  CHECK(part.job.cluster.gpu.memory_bytes == std::int64_t{16} << 30);
}

TEST_CASE("row: a batch that microbatches do not divide becomes the next smaller one that they do") {
  const LoadedRow row = load_row({{Column::micro_batch, "3"}, {Column::global_batch, "20"}});
  CHECK(row.job.training.global_batch_size == 18);  // 3 x data parallel 2 x 3
  CHECK(row.made.batch_share == Approx(0.9));
  CHECK(assumes(row.made, "global_batch 18 instead of 20"));
}

TEST_CASE("row: fixed words of the notes are read") {
  const LoadedRow row =
      load_row({{Column::notes,
                 "use=clean; --attention-backend unfused --untie-embeddings-and-output-weights "
                 "true --vocab-size 1000; GiB, allocated_bytes.all.peak on the LAST global rank"}});
  CHECK(row.job.training.attention == AttentionKernel::unfused);
  CHECK_FALSE(row.job.model.tie_word_embeddings);
  CHECK(row.job.model.vocab_size == 1000);
  CHECK(row.made.facts.at("memory_rank") == "last");
  CHECK_FALSE(row.made.facts.contains("set"));
}

TEST_CASE("row: sharding in groups, and layers recomputed in part, are read from the notes") {
  const std::vector<std::pair<Column, std::string>> wide{{Column::tp, "1"},
                                                         {Column::pp, "1"},
                                                         {Column::n_gpus, "32"},
                                                         {Column::global_batch, "32"},
                                                         {Column::recompute, "selective"},
                                                         {Column::zero_stage, "fsdp"}};
  Cells cells = wide;
  cells.emplace_back(Column::notes, "HSDP sharding; AC mode: selective (layer)");
  const LoadedRow row = load_row(cells);
  CHECK(row.job.optimizer.zero_stage == 3);
  CHECK(row.job.optimizer.num_distributed_optimizer_instances == 4);  // 32 / 8
  CHECK(row.job.recompute.method == RecomputeMethod::block);
  CHECK(row.job.recompute.num_layers == 4);  // half of 8
}

TEST_CASE("row: the Playbook's pipelines over several nodes ran on its slower network, the rest did not") {
  const auto latency_of = [](const char* gpus, const char* pp) {
    return load_row({{Column::source, "HF Ultra-Scale Playbook interactive figure"},
                     {Column::hardware, "H100-80GB"},
                     {Column::inter_link, "AWS EFA"},
                     {Column::notes, "use=assume"},
                     {Column::n_gpus, gpus},
                     {Column::pp, pp}})
        .job.cluster.inter_node.latency_s;
  };
  CHECK(latency_of("16", "2") == Approx(580e-6));
  CHECK(latency_of("16", "1") == Approx(230e-6));
  CHECK(latency_of("8", "2") == Approx(230e-6));
}

TEST_CASE("row: experts of a router that was left to itself are not equally busy") {
  const auto imbalance_of = [](const char* experts, const char* notes) {
    return load_row({{Column::model, "Mixtral-8x22B"},
                     {Column::kv_heads, "8"},
                     {Column::n_experts, experts},
                     {Column::topk, "2"},
                     {Column::ep, "4"},
                     {Column::layers, "4"},
                     {Column::notes, notes}})
        .job.moe.load_imbalance;
  };
  CHECK(imbalance_of("8", "use=assume; dropless, natural routing") == Approx(1.17));
  CHECK(imbalance_of("64", "use=assume; dropless, natural routing") == Approx(1.31));
  CHECK(imbalance_of("8", "use=assume; dropless, forced balance") == Approx(1));
}

TEST_CASE("row: exchanges of experts are overlapped where a recipe says so and the pipeline interleaves") {
  const auto job_of = [](const char* vpp, const char* notes, const char* pp = "2") {
    return load_row({{Column::model, "Qwen3_235B_a22B"},
                     {Column::kv_heads, "8"},
                     {Column::n_experts, "8"},
                     {Column::topk, "2"},
                     {Column::n_gpus, "16"},
                     {Column::tp, "1"},
                     {Column::ep, "2"},
                     {Column::pp, pp},
                     {Column::layers, "8"},
                     {Column::global_batch, "64"},
                     {Column::vpp, vpp},
                     {Column::notes, notes}})
        .job;
  };
  const auto schedule_of = [&](const char* vpp, const char* notes) {
    return job_of(vpp, notes).parallelism.pipeline_schedule;
  };
  CHECK(schedule_of("2", "use=clean; A2A overlap") == "interleaved_1f1b_overlap");
  CHECK(schedule_of("2", "use=clean") == "interleaved_1f1b");
  CHECK(schedule_of("2", "use=clean; no A2A overlap") == "interleaved_1f1b");
  CHECK(schedule_of("1", "use=clean; A2A overlap") == "1f1b");
  CHECK(job_of("1", "use=clean; A2A overlap", "1").parallelism.pipeline_schedule ==
        "interleaved_1f1b_overlap");
}

TEST_CASE("row: Megatron-Bridge dispatches by HybridEP on GB200 and B300, by all-to-alls on H100") {
  const auto dispatcher_of = [](const char* hardware,
                                const char* source = "NVIDIA Megatron-Bridge performance summary",
                                const char* notes = "") {
    return load_row({{Column::source, source},
                     {Column::hardware, hardware},
                     {Column::model, "Qwen3_30B_a3B"},
                     {Column::kv_heads, "8"},
                     {Column::n_experts, "8"},
                     {Column::topk, "2"},
                     {Column::tp, "1"},
                     {Column::ep, "2"},
                     {Column::layers, "4"},
                     {Column::notes, notes}})
        .job.moe.token_dispatcher;
  };
  CHECK(dispatcher_of("GB200") == TokenDispatcher::deepep);
  CHECK(dispatcher_of("B300") == TokenDispatcher::deepep);
  CHECK(dispatcher_of("H100 80GB") == TokenDispatcher::alltoall);
  CHECK(dispatcher_of("GB200", "another framework's table") == TokenDispatcher::alltoall);
  CHECK(dispatcher_of("B300", "NVIDIA Megatron-Bridge performance summary",
                      "MoE dispatcher NCCL all-to-all") == TokenDispatcher::alltoall);
}

}  // namespace
}  // namespace simrun
