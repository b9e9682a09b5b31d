#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/lower_model.h"
#include "tests/jobs.h"
#include "tests/schedules/crossing_names.h"

// Vision-language models in plans: what lies on which stage, what is exchanged, what a frozen tower leaves
// out.
namespace simrun {
namespace {

// Four layers of ViT with 64 patches of width 256, the last of which is not read, before four of a decoder of
// width 512.
std::string text(const std::string& more, const std::string& parallelism, int gpus) {
  return "simrun: 1\n"
         "model:\n"
         "  from: llava-1.5-7b\n"
         "  text_config: {num_hidden_layers: 4, hidden_size: 512, intermediate_size: 1024, "
         "num_attention_heads: 8, "
         "num_key_value_heads: 8, vocab_size: 1024}\n"
         "  vision_config: {image_size: 224, patch_size: 28, num_hidden_layers: 4, hidden_size: 256, "
         "intermediate_size: 768, num_attention_heads: 8}\n" +
         more +
         "training: {seq_length: 256, images_per_sample: 2, micro_batch_size: 1, global_batch_size: 16, "
         "precision: bf16}\n"
         "parallelism: " +
         parallelism + "\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n";
}
const std::string frozen = "  frozen: [vision_tower]\n";

bool is_of_tower(const Instruction& what) { return what.label.starts_with("vision_"); }

TEST_CASE("the tower's layers come first over the pipeline, and its rows alone cross until the decoder") {
  const LoweredModel model = lower_model(job_from(text("", "{pipeline_model_parallel_size: 4}", 4)));
  CHECK(crossing_names(model, 0) == std::vector<std::string>{"vision_mlp_add"});
  // Of the tower's fourth layer nothing is read: the third's output goes to the projector on stage 2.
  CHECK(crossing_names(model, 1) == std::vector<std::string>{"vision_mlp_add"});
  CHECK(crossing_names(model, 2) == std::vector<std::string>{"mlp_add"});
  CHECK(model.partition.first_layer == std::vector<std::int32_t>{0, 2, 4, 6});
  std::set<std::string> before_decoder;
  for (const std::size_t o : model.partition.operators[2])
    if (model.graph.operators[o].before_layer) before_decoder.insert(model.graph.operators[o].name);
  CHECK(before_decoder == std::set<std::string>{"vision_features", "projector_fc1", "projector_activation",
                                                "projector_fc2", "projector_add", "tokens", "word_embedding",
                                                "merge_images"});
}

TEST_CASE("a border within the tower carries two images' 65 rows of 256, one behind it 256 rows of 512") {
  const Plan plan = compile(job_from(text("", "{pipeline_model_parallel_size: 4}", 4)));
  std::vector<std::int64_t> bytes;
  for (const Segment& segment : plan.segments)
    if (segment.name.ends_with("send activation")) {
      bytes.push_back(0);
      for (const Index buffer : segment.instructions.front().inputs)
        bytes.back() += plan.buffers[buffer].bytes();
    }
  CHECK(bytes == std::vector<std::int64_t>{2 * 65 * 256 * 2, 2 * 65 * 256 * 2, 256 * 512 * 2});
}

TEST_CASE("stages that hold a frozen tower have no backward pass, and no gradient crosses to them") {
  const Plan plan = compile(job_from(text(frozen, "{pipeline_model_parallel_size: 4}", 4)));
  CHECK(lint(plan).empty());
  std::map<std::int32_t, int> backward;
  for (const Segment& segment : plan.segments) {
    if (segment.kind == PassKind::backward)
      backward[plan.chunks[segment.chunk].stage] += static_cast<int>(segment.instructions.size());
    if (segment.kind == PassKind::communication && plan.chunks[segment.chunk].stage < 2)
      CHECK(segment.name.find("gradient") == std::string::npos);
  }
  CHECK(backward[0] == 0);
  CHECK(backward[1] == 0);
  CHECK(backward[2] > 0);
}

TEST_CASE("a frozen tower keeps no activations, and has neither gradients nor optimizer state") {
  const Plan with = compile(job_from(text(frozen, "{}", 2)));
  const Plan without = compile(job_from(text("", "{}", 2)));
  CHECK(lint(with).empty());
  const auto kept = [](const Plan& plan, Category category) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope == Scope::run && buffer.category == category) bytes += buffer.bytes();
    return bytes;
  };
  const std::int64_t tower = with.job.frozen_parameters;
  // 64 patches of 2352 pixels, class token, 65 positions, four layers of 4 v^2 + 2 v ffn with biases and
  // norms, two norms.
  CHECK(tower == 2352 * 256 + 256 + 65 * 256 +
                     4 * (4 * 256 * 256 + 2 * 256 * 768 + (4 * 256 + 768 + 256) + 4 * 256) + 4 * 256);
  CHECK(kept(with, Category::weights) == 2 * with.job.parameters);
  CHECK(kept(with, Category::gradients) == 4 * (with.job.parameters - tower));
  CHECK(kept(with, Category::optimizer) == 12 * (with.job.parameters - tower));

  // From the forward to the backward pass: of the tower nothing but the features that the projector reads,
  // 2 images x 64 x 256 in bf16.
  const auto saved = [](const Plan& plan) {
    std::map<std::string, std::int64_t> bytes;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope == Scope::microbatch && buffer.category == Category::activations &&
          buffer.name.find("vision_") != std::string::npos)
        bytes[buffer.name] += buffer.bytes();
    return bytes;
  };
  const std::map<std::string, std::int64_t> of_frozen = saved(with);
  REQUIRE(of_frozen.size() == 1);
  CHECK(of_frozen.begin()->first.find("vision_features") != std::string::npos);
  CHECK(of_frozen.begin()->second == 2 * 64 * 256 * 2);
  CHECK(saved(without).size() > 10);
}

TEST_CASE("only what is trained is summed over data-parallel ranks") {
  for (const std::string& part :
       {std::string(), frozen, std::string("  frozen: [vision_tower, language_model]\n")}) {
    CAPTURE(part);
    const Plan plan = compile(job_from(text(part, "{}", 2)));
    std::int64_t reduced = 0;
    for (const Entry& entry : plan.programs[0].entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions)
        if (what.opcode == Opcode::all_reduce && what.label == "gradient reduction")
          reduced += plan.buffers[what.inputs[0]].elements();
    CHECK(reduced == plan.job.parameters - plan.job.frozen_parameters);
  }
}

struct PartVolume {
  std::int64_t tower = 0, projector = 0, merge = 0, decoder = 0;
  bool operator==(const PartVolume&) const = default;
};

// Bytes of the summed or gathered tensor over tp in one microbatch's passes of one kind.
PartVolume tensor_parallel_bytes(const Plan& plan, PassKind kind) {
  PartVolume volume;
  std::set<std::int32_t> seen;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != kind || !seen.insert(plan.chunks[segment.chunk].stage).second) continue;
    for (const Instruction& what : segment.instructions) {
      if (!is_communication(what.opcode) || plan.streams[what.stream].traffic != Traffic::tensor) continue;
      if (what.label.starts_with("logits") || what.label.starts_with("cross_entropy")) continue;  // the loss
      const Index largest = what.opcode == Opcode::reduce_scatter ? what.inputs[0] : what.outputs[0];
      const std::int64_t bytes = plan.buffers[largest].bytes();
      const bool projector = what.label.starts_with("projector_");
      const bool merge = what.label.starts_with("word_embedding") || what.label.starts_with("merge_images");
      (is_of_tower(what) ? volume.tower
       : projector       ? volume.projector
       : merge           ? volume.merge
                         : volume.decoder) += bytes;
    }
  }
  return volume;
}

TEST_CASE("tensor parallel: two sums per layer and pass in tower and decoder, one of the projector") {
  const Plan plan = compile(job_from(text("", "{tensor_model_parallel_size: 2}", 2)));
  CHECK(lint(plan).empty());
  const std::int64_t of_tower = 2 * 65 * 256 * 2, of_images = 2 * 64 * 512 * 2, of_text = 128 * 512 * 2,
                     of_decoder = 256 * 512 * 2;
  // The fourth layer, which nobody reads, sums its rows too.
  CHECK(tensor_parallel_bytes(plan, PassKind::forward) ==
        PartVolume{4 * 2 * of_tower, of_images, of_text, 4 * 2 * of_decoder});
  // Backward: three layers, the features' gradient behind the projector's first product, and the decoder's
  // with that of the head.
  CHECK(tensor_parallel_bytes(plan, PassKind::backward) ==
        PartVolume{3 * 2 * of_tower + 2 * 64 * 256 * 2, 0, 0, (4 * 2 + 1) * of_decoder});
  const Plan still = compile(job_from(text(frozen, "{tensor_model_parallel_size: 2}", 2)));
  CHECK(tensor_parallel_bytes(still, PassKind::backward).tower == 0);
}

TEST_CASE("sequence parallel splits the decoder's rows and leaves the tower's whole") {
  const Plan plan =
      compile(job_from(text("", "{tensor_model_parallel_size: 4, sequence_parallel: true}", 4)));
  CHECK(lint(plan).empty());
  std::set<std::string> tower, decoder;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      if (segment.kind != PassKind::forward || what.opcode != Opcode::norm) continue;
      const Buffer& rows = plan.buffers[what.outputs[0]];
      for (std::size_t d = 0; d < rows.dims.size(); ++d)
        if (plan.dimension_names[rows.dims[d].name] == "sequence")
          (is_of_tower(what) ? tower : decoder).insert(std::to_string(rows.dims[d].extent) + rows.split[d]);
    }
  CHECK(tower == std::set<std::string>{"65"});
  CHECK(decoder == std::set<std::string>{"64tp"});  // 256 / 4
}

TEST_CASE("recompute of whole layers leaves the projector, the embedding and the merge alone") {
  const std::string recompute = "recompute: {granularity: full}\n";
  for (const std::string& part : {std::string(), frozen}) {
    const Plan plan = compile(job_from(text(part, "{tensor_model_parallel_size: 2}", 2) + recompute));
    CHECK(lint(plan).empty());
    int of_tower = 0, of_decoder = 0;
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions) {
        if (what.phase != Phase::recompute) continue;
        CAPTURE(what.label, what.layer);
        CHECK_FALSE(what.label.starts_with("projector_"));
        CHECK(what.label != "merge_images");
        CHECK(what.layer != 3);  // discarded
        ++(is_of_tower(what) ? of_tower : of_decoder);
      }
    CHECK((of_tower > 0) == part.empty());
    CHECK(of_decoder > 0);
  }
}

TEST_CASE("a vision-language model compiles and lints in every schedule, ZeRO stage and tensor layout") {
  const auto [schedule, virtual_stages] = GENERATE(table<std::string, std::string>(
      {{"1f1b", "1"}, {"interleaved_1f1b", "2"}, {"zb_h1", "1"}, {"zb_v", "2"}, {"dualpipe", "1"}}));
  const std::string zero = GENERATE("0", "1", "2", "3");
  const std::string sequence_parallel = GENERATE("false", "true");
  if (schedule == "dualpipe" && zero > "1") return;  // refused for any job
  CAPTURE(schedule, zero, sequence_parallel);
  const std::vector<std::string> parts = {"", frozen, "  frozen: [vision_tower, language_model]\n",
                                          "  frozen: [language_model, multi_modal_projector]\n"};
  for (const std::string& part : parts) {
    CAPTURE(part);
    const Job job =
        job_from(text(part, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", 8),
                 {{"parallelism.pipeline_schedule", schedule},
                  {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                  {"parallelism.sequence_parallel", sequence_parallel},
                  {"optimizer.zero_stage", zero}});
    CHECK(lint(compile(job)).empty());
  }
}

TEST_CASE("a layout of one's own may split the tower otherwise than the decoder") {
  const std::string layout =
      "layout: [{scope: \"vision_fc*\", replicate: [ffn]}, {scope: vision_mlp_activation, "
      "replicate: [ffn]}]\n";
  const Plan plan = compile(job_from(text("", "{tensor_model_parallel_size: 2}", 2) + layout));
  CHECK(lint(plan).empty());
  // Attention's sums are left: one per layer.
  CHECK(tensor_parallel_bytes(plan, PassKind::forward).tower == 4 * 2 * 65 * 256 * 2);
}

}  // namespace
}  // namespace simrun
