#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"
#include "validation/claimed_flops.h"
#include "validation/size_guess.h"

// What a row means that names a model, counts FLOPs or batches in ways of its own.
namespace simrun {
namespace {

Cells on_one_gpu(Cells cells) {
  cells.insert(cells.end(), {{Column::tp, "1"}, {Column::pp, "1"}, {Column::vpp, "1"}});
  return cells;
}

TEST_CASE("row: a preset keeps what a row does not print where the row's dimensions are the preset's") {
  const auto gemma = [](const char* hidden) {
    return load_row(on_one_gpu({{Column::model, "Gemma 2 9B"},
                                {Column::layers, "42"},
                                {Column::hidden, hidden},
                                {Column::heads, "16"},
                                {Column::kv_heads, "8"},
                                {Column::ffn_hidden, "14336"},
                                {Column::vocab, "256000"}}))
        .job.model;
  };
  CHECK(gemma("3584").model_type == "gemma2");
  CHECK(gemma("3584").head_dim == 256);  // where 3,584 / 16 are 224
  CHECK(gemma("4096").model_type == "gpt");
}

TEST_CASE("row: experts that only the preset tells of are spread over ranks as others are") {
  const Cells mixtral{{Column::model, "Mixtral 8x7B"},
                      {Column::layers, ""},
                      {Column::hidden, ""},
                      {Column::heads, ""},
                      {Column::n_gpus, "64"}};
  CHECK(load_row(mixtral).made.row[Column::n_experts] == "8");
  CHECK(load_row(mixtral).made.guesses_experts);
}

TEST_CASE("row: DeepSeek's dense width is not that of its experts") {
  const auto width = [](const char* ffn) {
    return load_row(on_one_gpu({{Column::model, "DeepSeek-V3"},
                                {Column::layers, ""},
                                {Column::hidden, ""},
                                {Column::heads, ""},
                                {Column::n_experts, "256"},
                                {Column::ffn_hidden, ffn}}))
        .job.model;
  };
  CHECK(width("18432").experts.ffn_hidden_size == 2048);
  CHECK(width("18432").ffn_hidden_size == 18432);
  CHECK(width("1024").experts.ffn_hidden_size == 1024);
}

TEST_CASE("row: experts of nobody's known model are gated, unless its size or its source says otherwise") {
  const auto type = [](const char* name, const char* source) {
    return load_row(on_one_gpu({{Column::model, name},
                                {Column::source, source},
                                {Column::layers, "16"},
                                {Column::hidden, "2048"},
                                {Column::heads, "16"},
                                {Column::ffn_hidden, "1024"},
                                {Column::vocab, "50304"},
                                {Column::n_experts, "64"},
                                {Column::topk, "8"}}))
        .job.model.model_type;
  };
  CHECK(type("OLMoE 7B", "a blog") == "mixtral");
  CHECK(type("OLMoE-1B-7B", "a blog") == "olmoe");
  CHECK(type("some MoE", "a blog") == "mixtral");
  // 64 experts of two matrices: 4.3 B and the rest.
  CHECK(type("some MoE 4.7B", "a blog") == "gpt");
  CHECK(type("Switch-like MoE", "a blog") == "gpt");
}

TEST_CASE("row: MLPs are gated where the row says so, or where their width is that of gated ones") {
  const auto type = [](const char* ffn, const char* notes) {
    return load_row(on_one_gpu({{Column::model, "some model"},
                                {Column::source, "a blog"},
                                {Column::layers, "16"},
                                {Column::hidden, "2048"},
                                {Column::heads, "16"},
                                {Column::ffn_hidden, ffn},
                                {Column::notes, notes}}))
        .job.model.model_type;
  };
  CHECK(type("8192", "") == "gpt");
  CHECK(type("8192", "SwiGLU MLP") == "llama");
  CHECK(type("8192", "no SwiGLU") == "gpt");
  CHECK(type("8192", "relu^2 ungated MLP") == "gpt");
  CHECK(type("5632", "") == "llama");  // 2.75 of 2,048
  CHECK(type("5632", "ungated") == "gpt");
}

TEST_CASE("row: an MFU is a share of the peak that its words name") {
  const auto peak = [](const char* definition, const char* notes) {
    const LoadedRow row = load_row({{Column::measured_metric, "mfu"},
                                    {Column::hardware, "H100"},
                                    {Column::precision, "fp8"},
                                    {Column::flops_definition, definition},
                                    {Column::notes, notes}});
    return claimed_peak(row.made.facts, row.job);
  };
  CHECK(peak("MFU", "") == Approx(1979e12).epsilon(1e-3));
  CHECK(peak("MFU vs BF16 peak (989 TFLOP/s)", "") == Approx(989e12).epsilon(1e-3));
  CHECK(peak("MFU", "relative to BF16 peak") == Approx(989e12).epsilon(1e-3));
  CHECK(peak("MFU", "20 % faster vs bf16") == Approx(1979e12).epsilon(1e-3));
}

TEST_CASE("row: parameters are shared over ranks where copies of them do not fit, and nobody says they are") {
  const Cells llama{{Column::model, "Llama 2 7B"}, {Column::layers, ""},    {Column::hidden, ""},
                    {Column::heads, ""},           {Column::n_gpus, "8"},   {Column::source, "a blog"},
                    {Column::notes, "PyTorch"},    {Column::zero_stage, ""}};
  CHECK(load_row(llama).made.guesses_sharding);
  const SizeGuess shared{.shards = true};
  CHECK(load_row(llama, shared).job.optimizer.zero_stage == 3);
  CHECK_FALSE(load_row(llama, shared).made.guesses_sharding);
  CHECK(next_guess(load_row(llama).made)->shards);
}

TEST_CASE("row: models that are not what their names begin with") {
  const auto refused = [](const char* model) {
    const LoadOptions options = source_presets();
    KnownPresets presets(options);
    const RowJob made = job_of_row(
        measured_row(
            {{Column::model, model}, {Column::layers, ""}, {Column::hidden, ""}, {Column::heads, ""}}),
        load_row_rules(options), presets);
    return made.facts.contains("unknown") || made.facts.contains("unsupported");
  };
  for (const char* model :
       {"Llama-3.1-Nemotron-70B", "Nemotron 8B", "Nemotron-H-47B", "InternLM2.5-7B", "DeepSeek-V3.2"}) {
    CAPTURE(model);
    CHECK(refused(model));
  }
  for (const char* model : {"Llama 4 Maverick", "InternLM-7B", "DeepSeek-V3", "Nemotron-4 340B",
                            "Nemotron-H-56B", "Nemotron_3_Super", "Nemotron V3 Nano 30B (26.02)"}) {
    CAPTURE(model);
    CHECK_FALSE(refused(model));
  }
  CHECK(load_row(on_one_gpu({{Column::model, "ViT-B/16"},
                             {Column::layers, ""},
                             {Column::hidden, ""},
                             {Column::heads, ""},
                             {Column::seq_len, ""}}))
            .job.model.model_type == "vit");
}

TEST_CASE("row: how FLOPs count that nobody says is assumed, and is that of the source's other rows") {
  const auto made = [](const char* source, const char* definition) {
    return load_row({{Column::source, source},
                     {Column::measured_metric, "tflops_per_gpu"},
                     {Column::flops_definition, definition}})
        .made;
  };
  CHECK(assumes(made("a blog", ""), "flops_definition=model"));
  CHECK(made("Megatron-LM SC21, table 1", "").facts.at("flops") == "hardware_96");
  CHECK(assumes(made("Megatron-LM SC21, table 1", ""), "flops_definition=hardware_96"));
  CHECK(made("a blog", "includes recompute").facts.at("flops") == "hardware");
  CHECK(assumes(made("a blog", "bananas"), "flops_definition 'bananas' read as model"));
  CHECK(made("a blog", "model FLOPs, 6ND").facts.at("flops") == "6nd");
  CHECK(made("a blog", "8ND with recompute").facts.at("flops") == "8nd");
  CHECK(made("a blog", "MFU, not including recompute").facts.at("flops") == "model");
}

TEST_CASE("row: V100 have neither FlashAttention nor bf16, whatever the framework has on other GPUs") {
  const auto flash = [](const char* hardware, const char* cell) {
    return load_row({{Column::hardware, hardware},
                     {Column::precision, ""},
                     {Column::notes, "PyTorch FSDP"},
                     {Column::flash_attention, cell}})
        .job.training.attention;
  };
  CHECK(flash("V100-SXM2-32GB", "") == AttentionKernel::unfused);
  CHECK(flash("V100-SXM2-32GB", "1") == AttentionKernel::flash);
  CHECK(flash("A100-SXM4-80GB", "") == AttentionKernel::flash);
}

TEST_CASE(
    "row: a stated batch that is smaller than what runs at once contradicts, half of it may be counted so") {
  const auto row_fault = [](Cells cells) {
    const LoadOptions options = source_presets();
    KnownPresets presets(options);
    return job_of_row(measured_row(on_one_gpu(std::move(cells))), load_row_rules(options), presets).row.fault;
  };
  const auto fault = [&](const char* global) {
    return row_fault({{Column::n_gpus, "8"},
                      {Column::dp, "8"},
                      {Column::micro_batch, "16"},
                      {Column::global_batch, global}});
  };
  CHECK(fault("256").empty());
  CHECK(fault("64").empty());
  CHECK(
      row_fault({{Column::micro_batch, "562949953421312"}, {Column::dp, "32768"}, {Column::n_gpus, "32768"}})
          .ends_with("are more sequences than can be counted"));
  CHECK(fault("32") == "micro_batch 16 x dp 8 are 128 sequences, and global_batch is 32");
}

TEST_CASE("row: a split that nobody states leaves no data-parallel rank without a microbatch") {
  const LoadedRow row = load_row({{Column::n_gpus, "64"},
                                  {Column::tp, ""},
                                  {Column::pp, ""},
                                  {Column::dp, ""},
                                  {Column::micro_batch, "16"},
                                  {Column::global_batch, "512"}});
  CHECK(row.job.parallelism.tensor_model_parallel_size == 2);
  CHECK(row.job.parallelism.data_parallel_size == 32);
}

TEST_CASE("row: images have no sequence") {
  const LoadedRow row = load_row({{Column::model, "ResNet-50"},
                                  {Column::layers, ""},
                                  {Column::hidden, ""},
                                  {Column::heads, ""},
                                  {Column::seq_len, "224"},
                                  {Column::n_gpus, "8"}});
  CHECK(row.job.model.model_type == "resnet");
}

TEST_CASE("row: what notes say of optimizers, heads and of what is no training step") {
  const auto loaded = [](const char* notes) { return load_row({{Column::notes, notes}}); };
  CHECK(loaded("SGD optimizer").job.optimizer.name == UpdateRule::sgd);
  CHECK(loaded("Adafactor optimizer").job.optimizer.name == UpdateRule::adafactor);
  CHECK(loaded("dropout 0.1").job.training.hidden_dropout == 0.1);
  CHECK(loaded("attention dropout 0.2").job.training.hidden_dropout != 0.2);
  for (const char* notes : {"inference throughput", "RLHF with PPO", "hybrid Mamba layers"})
    CHECK(loaded(notes).made.facts.contains("unsupported"));
  for (const char* notes :
       {"all of it is supported", "SFT, no PPO here", "pretraining of an RLHF-tuned model"})
    CHECK_FALSE(loaded(notes).made.facts.contains("unsupported"));
  CHECK(loaded("hidden and attention dropout 0").job.training.hidden_dropout == 0);
  CHECK(loaded("dropout 10%").job.training.hidden_dropout != 10);
}

}  // namespace
}  // namespace simrun
