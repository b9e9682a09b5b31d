// What a step keeps of a GPU's clock: sim/step_clock.h.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "sim/step_clock.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct Mix {
  std::string attention;
  double products = 0, attentions = 0, copies = 0, products_ms = 0, attention_ms = 0, copies_ms = 0,
         mix_ms = 0;
};

std::vector<Mix> measured_mixes() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/kernels/h200_clock.csv");
  std::vector<Mix> mixes;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("attention")) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream cells(line);
    Mix of;
    cells >> of.attention >> of.products >> of.attentions >> of.copies >> of.products_ms >> of.attention_ms >>
        of.copies_ms >> of.mix_ms;
    REQUIRE(cells);
    mixes.push_back(of);
  }
  return mixes;
}

Job llama(const std::string& framework, int sequence, int sequences_per_rank, const std::string& gpu) {
  return job_from(
      fmt::format("simrun: 1\nframework: {{from: {}}}\n"
                  "model: {{from: llama3-8b, num_hidden_layers: 2, max_position_embeddings: {}}}\n"
                  "training: {{seq_length: {}, micro_batch_size: 1, global_batch_size: {}, "
                  "precision: bf16}}\noptimizer: {{zero_stage: 1}}\n"
                  "cluster: {{from: dgx_h100, nodes: 1, gpu: {{from: {}}}}}\n",
                  framework, sequence, sequence, 8 * sequences_per_rank, gpu));
}

double kept(const Job& job) { return plan_job(job).cluster.gpu.kernels.sustained; }

}  // namespace

// Best rates are those of the kernels alone; products alone keep 4.275 / 5.062 = 0.845 of theirs. In a whole
// step links and a host are at work too: by what `sustained` was fitted on it keeps up to 6 % less.
TEST_CASE("mixes of products, attention and copies on an H200 keep what their powers say, to 2 %") {
  const GpuKernels stated = llama("torchtitan", 8192, 1, "h200_sxm").cluster.gpu.kernels;
  GpuKernels kernels_alone = stated;
  kernels_alone.power.fitted = 1;
  const std::vector<Mix> mixes = measured_mixes();
  REQUIRE(mixes.size() == 18);
  for (const Mix& of : mixes) {
    if (of.products == 0) continue;
    const double products = of.products * of.products_ms, attention = of.attentions * of.attention_ms,
                 copies = of.copies * of.copies_ms;
    const double of_attention = stated.power.flash[of.attention == "cudnn" ? 2 : 1];
    const double power =
        (products + attention * of_attention + copies * stated.power.other) / (products + attention + copies);
    const double measured = (products + attention + copies) / of.mix_ms;
    CAPTURE(of.attention, of.products, of.attentions, of.copies, power, measured);
    CHECK(kept_share(kernels_alone, power) == Approx(measured).epsilon(0.02));
    CHECK(kept_share(stated, power) <= measured);
    CHECK(kept_share(stated, power) > 0.93 * measured);
  }
}

TEST_CASE("the clock is the cube root of what the fitted steps draw by what this one does, and no lower") {
  for (const int sequence : {2048, 8192, 32768, 131072}) {
    const Job job = llama("torchtitan", sequence, 1, "h100_sxm");
    const GpuKernels& stated = job.cluster.gpu.kernels;
    const double power = power_of_passes(compile(job));
    CAPTURE(sequence, power);
    CHECK(power > stated.power.flash[1]);
    CHECK(power < 1);
    CHECK(kept(job) == kept_share(stated, power));
    CHECK(kept_share(stated, stated.power.fitted / 1.331) == Approx(1.1 * stated.sustained));
    CHECK(kept_share(stated, 1) == stated.sustained);
    CHECK(kept_share(stated, 0.1) == 1);
  }
  // Products draw most, and longer sequences are more attention.
  CHECK(kept(llama("torchtitan", 2048, 1, "h100_sxm")) < kept(llama("torchtitan", 131072, 1, "h100_sxm")));
  // cuDNN's attention draws more than FlashAttention 2.
  CHECK(kept(llama("megatron_core", 131072, 1, "h100_sxm")) <
        kept(llama("torchtitan", 131072, 1, "h100_sxm")));
}

// The first and the last of several microbatches are passes of their own.
TEST_CASE("the clock is that of any number of microbatches from three on, and as stated without powers") {
  CHECK(kept(llama("torchtitan", 32768, 3, "h100_sxm")) == kept(llama("torchtitan", 32768, 9, "h100_sxm")));
  CHECK(kept(llama("torchtitan", 131072, 1, "b200")) ==
        llama("torchtitan", 131072, 1, "b200").cluster.gpu.kernels.sustained);
  CHECK(kept(llama("torchtitan", 131072, 1, "a100_sxm_80gb")) == 0.97);
}

TEST_CASE("convolutions draw what products do") {
  const Plan plan =
      compile(job_from("simrun: 1\nframework: {from: torchtitan}\nmodel: {from: wide-resnet-1b}\n"
                       "training: {micro_batch_size: 32, global_batch_size: 256, precision: fp16}\n"
                       "cluster: {from: dgx_h100, nodes: 1}\n"));
  CHECK(power_of_passes(plan) > 0.7);
}

// What is copied beside the kernels, over PCIe, draws nothing of theirs.
TEST_CASE("offloading activations leaves the clock as it is") {
  const auto offloading = [](const char* where) {
    return kept(
        job_from(fmt::format("simrun: 1\nframework: {{from: torchtitan}}\n"
                             "model: {{from: llama3-8b, num_hidden_layers: 2}}\n"
                             "training: {{seq_length: 8192, micro_batch_size: 1, global_batch_size: 24, "
                             "precision: bf16}}\noffload: {{activations: {}}}\n"
                             "cluster: {{from: dgx_h100, nodes: 1}}\n",
                             where)));
  };
  CHECK(offloading("cpu") == Approx(offloading("none")).epsilon(1e-3));
}

// The search prices passes at the clock of the plan that it is for.
TEST_CASE("no step with a framework on an H100 is shorter than the bound of its schedule's search") {
  const Plan plan = plan_job(
      job_from("simrun: 1\nframework: {from: torchtitan}\n"
               "model: {from: llama3-8b, num_hidden_layers: 8, max_position_embeddings: 32768}\n"
               "training: {seq_length: 32768, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
               "parallelism: {pipeline_model_parallel_size: 4, pipeline_schedule: auto}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n"));
  REQUIRE(plan.job.found_schedule);
  CHECK(plan.cluster.gpu.kernels.sustained > 0.84);
  CHECK(to_seconds(simulate(plan).step) >= plan.job.found_schedule->lower_bound_s);
}

// `fitted` in configs/gpus/h100_sxm.yaml.
TEST_CASE("llm-foundry's 7B with 2048 tokens draws what sustained was fitted on") {
  const Plan plan = compile(
      job_from("simrun: 1\nframework: {from: composer}\nmodel: {from: mpt-7b}\n"
               "training: {seq_length: 2048, micro_batch_size: 16, global_batch_size: 128, precision: bf16}\n"
               "optimizer: {zero_stage: 3}\nrecompute: {granularity: full}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n"));
  CHECK(power_of_passes(plan) == Approx(plan.cluster.gpu.kernels.power.fitted).margin(0.01));
}

}  // namespace simrun
