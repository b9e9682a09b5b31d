#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/jobs.h"

// Models that read images, on ranks in every layout that they have, compute what one rank computes with the
// same microbatches: batch norm is over a rank's microbatch, which is the scope that the plan declares.
namespace simrun {
namespace {

const char* const tiny_resnet =
    "{model_type: resnet, image_size: 24, embedding_size: 4, hidden_sizes: [8, 12], depths: [1, 3], "
    "num_labels: 7}";
const char* const tiny_basic_resnet =
    "{model_type: resnet, image_size: 24, embedding_size: 6, hidden_sizes: [6, 10], depths: [2, 2], "
    "layer_type: basic, num_labels: 7}";
const char* const tiny_vgg =
    "{model_type: vgg, image_size: 32, num_layers: 11, wide_features: 10, num_labels: 7}";
const char* const tiny_vit =
    "{model_type: vit, image_size: 12, patch_size: 4, num_channels: 2, num_hidden_layers: 4, hidden_size: "
    "12, "
    "intermediate_size: 20, num_attention_heads: 2, num_labels: 7}";

struct ImageJob {
  const char* model = tiny_resnet;
  std::string parallelism = "{}", optimizer = "{}", more = "";
  int gpus = 1;
  int micro_batch_size = 2;
};

// Eight images per step.
Plan plan_of(const ImageJob& of) {
  return compile(job_from("simrun: 1\nmodel: " + std::string(of.model) +
                          "\ntraining: {global_batch_size: 8, precision: fp32, micro_batch_size: " +
                          std::to_string(of.micro_batch_size) + "}\nparallelism: " + of.parallelism +
                          "\noptimizer: " + of.optimizer + "\n" + of.more +
                          "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(of.gpus) +
                          "}\n"));
}

const Execution& alone(const ImageJob& of) {
  static std::map<std::pair<std::string, int>, Execution> known;
  const auto [at, is_new] = known.try_emplace({of.model, of.micro_batch_size});
  if (is_new) at->second = checked_run(plan_of({.model = of.model, .micro_batch_size = of.micro_batch_size}));
  return at->second;
}

void check(const ImageJob& of) {
  CAPTURE(of.model, of.parallelism, of.optimizer, of.more, of.gpus, of.micro_batch_size);
  const Plan plan = plan_of(of);
  const Execution run = checked_run(plan);
  check_equal(run, alone(of), 1e-10);
  check_memory(plan, run, false);
}

}  // namespace

TEST_CASE("an untrained classifier is as surprised as a die of seven sides: the loss is near log 7") {
  for (const char* model : {tiny_resnet, tiny_basic_resnet, tiny_vit}) {
    CAPTURE(model);
    CHECK(alone({.model = model}).loss[0] == Approx(std::log(7)).epsilon(0.05));
  }
  // A stem, 4 x 3 convolutions, 2 shortcuts: a weight and batch norm's two each; the classifier's two.
  CHECK(alone({}).gradients.tensors().size() == 15 * 3 + 2);
}

TEST_CASE("data-parallel ranks compute of images what one rank does") {
  for (const char* model : {tiny_resnet, tiny_basic_resnet, tiny_vit})
    for (const char* optimizer : {"{}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}"})
      check({.model = model, .optimizer = optimizer, .gpus = 2});
  check({.optimizer = "{zero_stage: 1, overlap_grad_reduce: true}", .gpus = 4});
  check({.model = tiny_vit, .optimizer = "{zero_stage: 3}", .gpus = 4, .micro_batch_size = 1});
}

TEST_CASE("tensor-parallel ranks split the classifier, and what is before it is the same on all") {
  for (const char* model : {tiny_resnet, tiny_vit})
    check({.model = model, .parallelism = "{tensor_model_parallel_size: 2}", .gpus = 4});
}

TEST_CASE("channels split over ranks by a layout of one's own give the same") {
  // Every convolution sums over the channels that its ranks have apart, and batch norm has them apart again.
  const char* const even =
      "{model_type: resnet, image_size: 24, embedding_size: 4, hidden_sizes: [8, 16], depths: [1, 2], "
      "num_labels: 7}";
  check({.model = even,
         .parallelism = "{tensor_model_parallel_size: 2}",
         .more = "layout: [{scope: layers, split: {channels: tp}}]\n",
         .gpus = 2});
}

// Of eight images four for each of two ranks that both have, and one for each of four.
TEST_CASE("under layouts of one's own batch norm takes what a rank has, and so does the reference") {
  const auto check_own = [](const char* parallelism, const char* rule, int gpus) {
    CAPTURE(rule);
    const Job job =
        job_from("simrun: 1\nmodel: " + std::string(tiny_basic_resnet) +
                 "\ntraining: {global_batch_size: 8, precision: fp32, micro_batch_size: 2}\nparallelism: " +
                 parallelism + "\nlayout: [{" + rule +
                 "}]\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n");
    check_equal(checked_run(compile(job)), checked_run(compile(reference_job(job))), 1e-10);
  };
  check_own("{}", "replicate: [batch]", 2);
  check_own("{tensor_model_parallel_size: 2}", "split: {batch: [dp, tp]}", 4);
}

TEST_CASE("a side of an image is not split: windows reach over the border") {
  CHECK_THROWS_WITH(plan_of({.parallelism = "{tensor_model_parallel_size: 2}",
                             .more = "layout: [{scope: stem, split: {height: tp}}]\n",
                             .gpus = 2}),
                    Catch::Contains("needs its dimension 'height' whole"));
}

TEST_CASE("pipelines of images compute what one rank does") {
  for (const char* model : {tiny_resnet, tiny_vit})
    for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
      check({.model = model,
             .parallelism =
                 "{pipeline_model_parallel_size: 2, pipeline_schedule: " + std::string(schedule) + "}",
             .gpus = 2});
  check({.model = tiny_basic_resnet,
         .parallelism = "{pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2}",
         .optimizer = "{zero_stage: 1}",
         .more = "recompute: {granularity: full}\n",
         .gpus = 8});
}

TEST_CASE("a Wide-ResNet of 50 layers computes on four ranks what it does on one") {
  check({.model =
             "{model_type: wide_resnet, image_size: 64, num_layers: 50, base_channels: 2, width_factor: 2, "
             "widens: 3x3, num_labels: 9}",
         .parallelism = "{pipeline_model_parallel_size: 2}",
         .optimizer = "{zero_stage: 2}",
         .gpus = 4});
}

// 9.3 M parameters: its widths are the paper's.
TEST_CASE("VGG-11 computes on ranks of every kind what it does on one", "[long]") {
  CHECK(alone({.model = tiny_vgg}).loss[0] == Approx(std::log(7)).epsilon(0.05));
  check({.model = tiny_vgg,
         .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
         .optimizer = "{zero_stage: 3}",
         .gpus = 8});
}

TEST_CASE("the scope of batch norm is a rank's microbatch: with another one the gradients are others") {
  const Execution& two = alone({});
  const Execution& four = alone({.micro_batch_size = 4});
  CHECK(compare(two.gradients, four.gradients, 1e-3).error > 1e-3);
  // Not so of a net without: the mean over images does not care how they are cut.
  const Execution& of_two = alone({.model = tiny_vit});
  const Execution& of_four = alone({.model = tiny_vit, .micro_batch_size = 4});
  CHECK(compare(of_two.gradients, of_four.gradients, 1e-10).first == "");
}

TEST_CASE("convolutional nets allocate in f32 to the byte what the simulator predicts") {
  for (const char* model : {tiny_resnet, tiny_basic_resnet, tiny_vit}) {
    const ImageJob job{.model = model, .parallelism = "{pipeline_model_parallel_size: 2}", .gpus = 4};
    const Plan plan = plan_of(job);
    const Execution run = checked_run(plan, ExecutionDevice::cpu_f32);
    check_memory(plan, run, true);
    CHECK(compare(run.gradients, alone(job).gradients, 1e-4).first == "");
  }
}

}  // namespace simrun
