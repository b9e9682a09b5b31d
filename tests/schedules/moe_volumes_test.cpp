#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

// The exchange volume of every preset with experts, as its papers have it.
namespace simrun {
namespace {

Job job_of(const std::string& preset) {
  return job_from(
      "simrun: 1\nmodel: {from: " + preset +
      "}\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "parallelism: {expert_model_parallel_size: 4}\ncluster: {from: dgx_h100, nodes: 1}\n");
}

std::set<std::string> presets() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/models"))
    names.insert(entry.path().stem().string());
  return names;
}

bool has_experts(const std::string& preset) {
  if (reads_images(preset) || preset.starts_with("llava")) return false;
  return job_from(
             "simrun: 1\nmodel: {from: " + preset +
             "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
             "cluster: {from: dgx_h100, nodes: 1}\n")
             .model.experts.count > 0;
}

// All-to-alls of every layer in one pass: how many, and bytes on a GPU.
struct DispatchVolume {
  int count = 0;
  std::int64_t bytes = 0;
};
std::map<std::int32_t, DispatchVolume> all_to_alls(const Plan& plan, PassKind kind) {
  std::map<std::int32_t, DispatchVolume> layers;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != kind) continue;
    for (const Instruction& what : segment.instructions) {
      if (what.opcode != Opcode::all_to_all) continue;
      const Buffer& buffer = plan.buffers[what.inputs[0]];
      DispatchVolume& of = layers[what.layer];
      ++of.count;
      of.bytes += buffer.elements() * bytes_of(buffer.dtype);
    }
    break;
  }
  return layers;
}

}  // namespace

TEST_CASE("every preset with experts exchanges topk copies of its tokens twice forward, twice backward",
          "[long]") {
  int seen = 0;
  for (const std::string& preset : presets()) {
    if (!has_experts(preset)) continue;
    ++seen;
    CAPTURE(preset);
    const Job job = job_of(preset);
    const Plan plan = compile(job);
    const ExpertConfig& experts = job.model.experts;
    const auto sparse = static_cast<std::size_t>(std::ranges::count(experts.layers, true)) +
                        static_cast<std::size_t>(job.model.num_nextn_predict_layers);
    // 1,024 tokens of a GPU, topk copies of each; of an expert whole rows from every GPU.
    const double rows =
        std::ceil(8 * 1024.0 * static_cast<double>(experts.topk) / static_cast<double>(experts.count) / 8) *
        static_cast<double>(experts.count);
    const auto width =
        static_cast<double>(experts.latent_size > 0 ? experts.latent_size : job.model.hidden_size);
    for (const PassKind kind : {PassKind::forward, PassKind::backward}) {
      const std::map<std::int32_t, DispatchVolume> layers = all_to_alls(plan, kind);
      CHECK(layers.size() == sparse);
      for (const auto& [layer, volume] : layers) {
        CAPTURE(layer);
        CHECK(volume.count == 2);
        CHECK(static_cast<double>(volume.bytes) == 2 * rows * width * 2);
      }
    }
  }
  CHECK(seen >= 18);
}

TEST_CASE("encoder-decoders' experts take the tokens of their own stack") {
  const Job job = job_from(
      "simrun: 1\n"
      "model: {from: switch-base, num_layers: 2, num_sparse_encoder_layers: 1, num_sparse_decoder_layers: 1, "
      "num_experts: 8}\n"
      "training: {seq_length: 1024, decoder_seq_length: 256, micro_batch_size: 1, global_batch_size: 8, "
      "precision: bf16}\n"
      "parallelism: {expert_model_parallel_size: 8}\ncluster: {from: dgx_h100, nodes: 1}\n");
  const Plan plan = compile(job);
  CHECK(lint(plan).empty());
  const std::map<std::int32_t, DispatchVolume> layers = all_to_alls(plan, PassKind::forward);
  REQUIRE(layers.size() == 2);
  CHECK(layers.at(1).bytes == 2 * 1024 * 768 * 2);  // one copy of each token, there and back
  CHECK(layers.at(3).bytes == 2 * 256 * 768 * 2);
}

TEST_CASE("the new families compile and lint over tensor, pipeline and expert parallel ranks") {
  for (const char* preset :
       {"switch-base, num_layers: 4, num_sparse_encoder_layers: 2, num_sparse_decoder_layers: 2",
        "gshard-600b, encoder_num_layers: 4, decoder_num_layers: 4, num_experts: 64",
        "phi3.5-moe, num_hidden_layers: 4"})
    for (const char* dispatcher : {"alltoall", "allgather", "deepep"}) {
      CAPTURE(preset, dispatcher);
      const Job job = job_from(
          "simrun: 1\nmodel: {from: " + std::string(preset) +
          "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
          "parallelism: {tensor_model_parallel_size: 2, sequence_parallel: true, "
          "pipeline_model_parallel_size: 2, "
          "expert_model_parallel_size: 8, expert_tensor_parallel_size: 1}\n"
          "moe: {token_dispatcher: " +
          dispatcher + "}\ncluster: {from: dgx_h100, nodes: 2}\n");
      CHECK(lint(compile(job)).empty());
    }
}

}  // namespace simrun
