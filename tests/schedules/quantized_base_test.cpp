// QLoRA: frozen weights in NormalFloat4 beside adapters.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "models/decoder.h"
#include "schedules/compile.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Job llama2_7b(const std::string& lora) {
  return job_from(
      "simrun: 1\nmodel: {from: models/llama2-7b.yaml}\ntraining: {seq_length: 512, micro_batch_size: 1, "
      "global_batch_size: 1, precision: bf16, lora: {rank: 16" +
      lora + "}}\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n");
}

std::int64_t weight_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.category == Category::weights) bytes += buffer.bytes();
  return bytes;
}

// Products of 2-byte weights in the layers of Llama 2 7B: qkv, projection, gate and up, down.
constexpr std::int64_t linear_weights = 32LL * (4096 * 12288 + 4096 * 4096 + 4096 * 22016 + 11008LL * 4096);

// Weights that a pass makes whole, and how many of them are alive at most.
struct Made {
  std::int64_t times = 0;
  std::size_t at_once = 0;
};
Made made_whole(const Plan& plan, PassKind kind) {
  const auto segment = std::ranges::find(plan.segments, kind, &Segment::kind);  // all of a kind are alike
  Made made;
  std::set<Index> alive;
  for (const Instruction& what : segment->instructions) {
    if (what.opcode == Opcode::free)
      for (const Index buffer : what.inputs) alive.erase(buffer);
    if (what.opcode != Opcode::map || what.inputs.size() != 1) continue;
    if (plan.buffers[what.inputs[0]].dtype != Dtype::fp4) continue;
    CHECK(plan.buffers[what.outputs.at(0)].dtype == Dtype::bf16);
    ++made.times;
    alive.insert(what.outputs.at(0));
    made.at_once = std::max(made.at_once, alive.size());
  }
  return made;
}

}  // namespace

TEST_CASE("the linear layers of Llama-2-7B take 3.34 GB in NF4, 12.95 GB in bf16") {
  const Plan wide = compile(llama2_7b("")), narrow = compile(llama2_7b(", base_dtype: nf4"));
  REQUIRE(linear_weights == 6'476'005'376);
  // Half a byte each, a byte for 64 and four for 64 x 256.
  const std::int64_t in_nf4 = linear_weights / 2 + linear_weights / 64 + linear_weights / (64 * 256) * 4;
  REQUIRE(in_nf4 == 3'340'771'328);
  const std::int64_t saved = weight_bytes(wide) - weight_bytes(narrow);
  CHECK(saved == Approx(static_cast<double>(2 * linear_weights - in_nf4)).epsilon(1e-6));
  CHECK(narrow.job.parameters == wide.job.parameters);
}

TEST_CASE("a weight in NF4 is made whole in front of its product, and again in front of its gradient's") {
  const Plan plan = compile(llama2_7b(", base_dtype: nf4, targets: [q]"));
  CHECK(made_whole(plan, PassKind::forward).times == 4 * 32);
  // Nothing is trained before the first layer's adapter of q.
  CHECK(made_whole(plan, PassKind::backward).times == 4 * 32 - 1);
}

TEST_CASE(
    "under full recompute the backward pass makes each weight whole twice, and no two are alive at once") {
  Job job = llama2_7b(", base_dtype: nf4");
  job.recompute.granularity = RecomputeGranularity::full;
  const Made backward = made_whole(compile(job), PassKind::backward);
  CHECK(backward.times == 2 * 4 * 32 - 1);
  CHECK(backward.at_once == 1);
}

}  // namespace simrun
