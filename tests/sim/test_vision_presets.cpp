#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/conv_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::string text(const std::string& model, const std::string& parallelism, int gpus,
                 const std::string& sequence = "") {
  return "simrun: 1\nmodel: " + model + "\ntraining: {" + sequence +
         "micro_batch_size: 2, global_batch_size: 16, precision: bf16}\nparallelism: " + parallelism +
         "\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n";
}

Summary run(const std::string& job) {
  const Plan plan = compile(job_from(job));
  CHECK(lint(plan).empty());
  const Summary summary = summarize(plan, simulate(plan));
  CHECK(summary.step_time_s > 0);
  CHECK(summary.mfu > 0);
  CHECK(summary.mfu < 1);
  return summary;
}

const Instruction& named(const Plan& plan, const std::string& label, Opcode opcode, std::int32_t layer,
                         Function function = Function::none) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.label == label && instruction.opcode == opcode && instruction.layer == layer &&
          instruction.function == function)
        return instruction;
  FAIL("no instruction " << label);
  return plan.segments.front().instructions.front();
}

TEST_CASE("image models compile, lint and run on one GPU, over data-parallel and over pipeline ranks") {
  for (const char* preset : {"resnet-50", "resnet-50-100k", "vgg-16", "wide-resnet-50-2", "wide-resnet-250m",
                             "wide-resnet-1b", "wide-resnet-2b", "wide-resnet-4b", "wide-resnet-6.8b",
                             "wide-resnet-13b", "vit-base-16", "vit-large-16", "vit-huge-14"}) {
    const std::string model = "{from: models/" + std::string(preset) + ".yaml}";
    CAPTURE(preset);
    const Summary alone = run(text(model, "{}", 1));
    const Summary two = run(text(model, "{}", 2));
    // Twice the GPUs on the same batch: less than twice as fast, since gradients are summed.
    CHECK(two.step_time_s > alone.step_time_s / 2);
    CHECK(two.exposed_comm_s > 0);
    if (std::string(preset).starts_with("vit"))
      run(text(model, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", 4));
  }
  const std::string layout = "pipeline_model_parallel_layout: \"Et*8|t*8L\"";
  run(text("{from: resnet-50}", "{pipeline_model_parallel_size: 2}", 4));
  run(text("{from: resnet-50}", "{pipeline_model_parallel_size: 2, " + layout + "}", 2));
  run(text("{from: resnet-50, depths: [2, 2, 2, 2], hidden_sizes: [64, 128, 256, 512], layer_type: basic}",
           "{pipeline_model_parallel_size: 4, pipeline_schedule: zb_h1}", 4));
}

TEST_CASE("BERT compiles, lints and runs, unsplit and over tensor and pipeline ranks") {
  for (const char* preset : {"bert-base", "bert-large"})
    for (const char* parallelism :
         {"{}", "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
          "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}"}) {
      CAPTURE(preset, parallelism);
      run(text("{from: models/" + std::string(preset) + ".yaml}", parallelism, 8, "seq_length: 128, "));
    }
}

TEST_CASE("batch norm exchanges nothing: its statistics are of a rank's own images") {
  const Plan plan = compile(job_from(text("{from: resnet-50}", "{}", 2)));
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (is_communication(instruction.opcode)) CHECK(segment.kind != PassKind::forward);
  // 2 images of 112 x 112 x 64 in bf16, read twice and written once; weight and bias; two statistics in fp32.
  const Instruction& norm = named(plan, "stem_norm", Opcode::norm, -1, Function::batch_norm);
  CHECK(kernel_work(plan, norm).bytes == 3.0 * 2 * 112 * 112 * 64 * 2 + 2 * 64 * 2 + 2 * 64 * 4);
}

TEST_CASE("a convolution is the product that its implicit GEMM runs") {
  const Plan plan = compile(job_from(text("{from: resnet-50}", "{}", 1)));
  // Block 3: 3x3, 128 -> 128 channels, 56 -> 28 pixels; 2 images.
  const GemmShape forward = convolution_gemm(plan, named(plan, "conv2", Opcode::conv, 3));
  CHECK(forward.m == 2 * 28 * 28);
  CHECK(forward.n == 128);
  CHECK(forward.k == 9 * 128);
  const GemmShape input =
      convolution_gemm(plan, named(plan, "conv2", Opcode::conv, 3, Function::convolution_input_gradient));
  CHECK(input.m == 2 * 56 * 56);
  CHECK(input.n == 128);
  CHECK(input.k == 9 * 128 / 4);  // a quarter of the positions are read by each: stride 2 both ways
  const GemmShape weight =
      convolution_gemm(plan, named(plan, "conv2", Opcode::conv, 3, Function::convolution_weight_gradient));
  CHECK(weight.m == 128);
  CHECK(weight.n == 9 * 128);
  CHECK(weight.k == 2 * 28 * 28);
  // The three channels of an image are padded to 8.
  CHECK(convolution_gemm(plan, named(plan, "stem", Opcode::conv, -1)).k == 49 * 8);
  // It moves x, w and y, not the matrix of patches.
  CHECK(convolution_work(plan, named(plan, "conv2", Opcode::conv, 3)).bytes ==
        2.0 * (2 * 56 * 56 * 128 + 9 * 128 * 128 + 2 * 28 * 28 * 128));
}

TEST_CASE(
    "hardware FLOPs of image models are their model FLOPs: nothing is repeated on data-parallel ranks") {
  for (const char* preset : {"resnet-50", "vgg-16", "vit-base-16"}) {
    const Plan plan = compile(job_from(text("{from: " + std::string(preset) + "}", "{}", 2)));
    CHECK(plan.job.hardware_flops_per_step == Approx(plan.job.model_flops_per_step).epsilon(1e-12));
  }
}

TEST_CASE("a head of 100,000 classes is split over tensor-parallel ranks, and its gradients with it") {
  const Plan plan = compile(job_from(text("{from: resnet-50-100k}", "{tensor_model_parallel_size: 2}", 2)));
  const Instruction& logits = named(plan, "logits", Opcode::gemm, -1);
  CHECK(plan.buffers[logits.outputs.at(0)].dims.back().extent == 50'000);
}

}  // namespace
}  // namespace simrun
