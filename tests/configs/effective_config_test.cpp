#include <catch2/catch.hpp>
#include <filesystem>

#include "small_job.h"

// What --print-config prints is the same job, whichever of several spellings it was written in.
namespace simrun::test {
namespace {

std::string with_model(const std::string& model) {
  return "simrun: 1\nmodel: " + model +
         "\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n";
}

const std::string nemotron_h =
    "{model_type: nemotron_h, num_hidden_layers: 4, hidden_size: 256, intermediate_size: 512, "
    "num_attention_heads: 4, vocab_size: 1024, ssm_state_size: 16, mamba_num_heads: 8, mamba_head_dim: 16, "
    "n_groups: 4, ";
const std::string pattern = "hybrid_override_pattern: \"M-*-\"";

LoadedJob round_trip(const std::string& text) {
  LoadedJob first = load_job_text(text, "job.yaml", with_presets());
  CAPTURE(text, first.effective_yaml);
  const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", LoadOptions{});
  CHECK(again.job == first.job);
  CHECK(again.job.config_sha256 == first.job.config_sha256);
  return first;
}

std::size_t times(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the size of nemotron_h's heads is printed under the key that says it, and no other") {
  const LoadedJob earlier = round_trip(with_model(nemotron_h + pattern + ", attention_head_dim: 64}"));
  CHECK(earlier.job.model.head_dim == 64);
  CHECK(times(earlier.effective_yaml, "  head_dim:") == 0);
  CHECK(times(earlier.effective_yaml, "  attention_head_dim: 64") == 1);
  const LoadedJob later =
      round_trip(with_model(nemotron_h + pattern + ", attention_head_dim: 64, head_dim: 32}"));
  CHECK(later.job.model.head_dim == 32);
  CHECK(times(later.effective_yaml, "head_dim: 64") == 0);
  CHECK(round_trip(with_model(nemotron_h + pattern + "}")).job.model.head_dim == 128);
}

TEST_CASE("nemotron_h's keys with one value alone are not printed as text") {
  const std::string kernels =
      ", conv_kernel: 4, chunk_size: 128, use_conv_bias: true, mamba_hidden_act: silu}";
  const LoadedJob loaded = round_trip(with_model(nemotron_h + pattern + kernels));
  for (const char* key : {"conv_kernel", "chunk_size", "use_conv_bias", "mamba_hidden_act"})
    CHECK(times(loaded.effective_yaml, key) == 0);
}

TEST_CASE("other spellings of one key come back as the same job") {
  for (const std::string& model :
       {nemotron_h + "layers_block_type: [mamba, mlp, attention, mlp]}",
        nemotron_h + pattern + ", norm_eps: 1e-6, rms_norm_eps: 1e-4, layer_norm_epsilon: 1e-3}",
        std::string("{from: gpt2, n_ctx: 1024, embd_pdrop: 0.0}"),
        std::string("{from: llama3-8b, rope_parameters: {rope_theta: 1000}, rope_theta: null}"),
        std::string("{from: llama3-8b, attention_dropout: 0.1, head_dim: 64, hidden_act: swish}"),
        std::string("{from: qwen2.5-7b, use_sliding_window: false, max_window_layers: 3}"),
        std::string("{from: deepseek-v3, ep_size: 1, num_nextn_predict_layers: 0}"),
        std::string("{model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: "
                    "64, max_position_embeddings: 1024, kv_channels: 32, rotary_base: 500000}")})
    round_trip(with_model(model));
}

TEST_CASE("a job on two nodes of every cluster preset loads again as an equal job") {
  const std::string folder = preset_directory + "/clusters";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    LoadOptions options = with_presets();
    options.overrides = {{"cluster", "{from: " + name + ", nodes: 2}"},
                         {"training.precision", "fp16"},
                         {"parallelism.tensor_model_parallel_size", "1"}};
    const LoadedJob first = load_job_text(small_job, "job.yaml", options);
    CHECK(load_job_text(first.effective_yaml, "job.yaml", LoadOptions{}).job == first.job);
    ++count;
  }
  CHECK(count >= 10);
}

}  // namespace simrun::test
