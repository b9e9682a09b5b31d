#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/attention_cost.h"
#include "sim/kernel_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

const Instruction& first_of(const Plan& plan, Opcode opcode, const std::string& label) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == opcode && what.label == label) return what;
  FAIL("no instruction " << label);
  return plan.segments.front().instructions.front();
}

TEST_CASE("LLaVA's presets compile, lint and run, frozen and whole, over tensor and pipeline ranks") {
  for (const char* preset : {"llava-1.5-7b", "llava-1.5-13b"})
    for (const char* frozen : {"[vision_tower]", "[vision_tower, language_model]", "null"}) {
      CAPTURE(preset, frozen);
      const Plan plan = compile(job_from(
          "simrun: 1\nmodel: {from: models/" + std::string(preset) + ".yaml, frozen: " + frozen +
          "}\ntraining: {seq_length: 1024, micro_batch_size: 2, global_batch_size: 16, precision: bf16}\n"
          "parallelism: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 4, "
          "sequence_parallel: true}\nrecompute: {granularity: selective}\n"
          "cluster: {from: dgx_h100, nodes: 1}\n"));
      CHECK(lint(plan).empty());
      const Summary summary = summarize(plan, simulate(plan));
      CHECK(summary.step_time_s > 0);
      CHECK(summary.mfu > 0);
      CHECK(summary.mfu < summary.hfu);  // the tower's last layer, and recompute
      CHECK(summary.hfu < 1);
      CHECK(plan.job.tokens_per_step == 16 * 1024);  // images' and text's
    }
}

TEST_CASE("the tower's attention is priced on every patch and the class token, and on no mask") {
  const Job job = job_from(
      "simrun: 1\nmodel: {from: llava-1.5-7b, frozen: [vision_tower]}\n"
      "training: {seq_length: 2048, images_per_sample: 3, micro_batch_size: 2, global_batch_size: 16, "
      "precision: bf16}\nparallelism: {tensor_model_parallel_size: 2, sequence_parallel: true}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n");
  const Plan plan = compile(job);
  const Instruction& tower = first_of(plan, Opcode::attention, "vision_core_attention");
  const AttentionShape shape = attention_shape(plan, tower);
  CHECK(shape.batch == 6);  // images: 2 sequences of 3
  CHECK(shape.sequence == 577);
  CHECK(shape.key_sequence == 577);
  CHECK(shape.heads == 8);  // 16 over two ranks
  CHECK(shape.head_dim == 64);
  CHECK(kernel_work(plan, tower).flops == 4.0 * 6 * 8 * 577 * 577 * 64);
  // Dropping the class token reads and writes 576 rows of 1024 in bf16 for every image.
  CHECK(kernel_work(plan, first_of(plan, Opcode::map, "vision_features")).bytes == 2.0 * 6 * 576 * 1024 * 2);
  // Merged are 3 x 576 rows of images and the other 320 of text, of 4096 in bf16: read and written once.
  CHECK(kernel_work(plan, first_of(plan, Opcode::map, "merge_images")).bytes == 2.0 * 2 * 2048 * 4096 * 2);
}

}  // namespace
}  // namespace simrun
