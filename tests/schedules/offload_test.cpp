#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

// ZeRO-Offload and ZeRO-Infinity: what lies where, and what is copied.
namespace simrun {
namespace {

using Overrides = std::vector<Override>;

// One GPU, 4 layers, 32 microbatches: nothing is sharded, so every figure is per parameter.
Plan plan_with(const Overrides& overrides) {
  Overrides all = {{"cluster.gpus_per_node", "1"}, {"cluster.fabric.topology", "non_blocking"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return compile(job_from(small_gpt(4, 1, 1, 1), all));
}

// Bytes per parameter that live for ever in one memory.
double kept(const Plan& plan, MemorySpace space) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::run && buffer.space == space) bytes += buffer.bytes();
  return static_cast<double>(bytes) / static_cast<double>(plan.job.parameters);
}

// Bytes per parameter that each stream copies in a step.
std::map<std::string, double> copied(const Plan& plan) {
  std::map<std::string, double> bytes;
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions)
      if (what.opcode == Opcode::copy && what.stream != compute_stream)
        for (const Index buffer : what.inputs)
          bytes[plan.streams[what.stream].name] +=
              static_cast<double>(plan.buffers[buffer].elements() * bytes_of(plan.buffers[buffer].dtype)) /
              static_cast<double>(plan.job.parameters);
  return bytes;
}

}  // namespace

TEST_CASE("an offloaded optimizer leaves 6 of 18 bytes per parameter on the GPU, and 18 on the host") {
  const Plan none = plan_with({});
  // fp16 weights, fp32 main gradients; fp32 main weights and two moments.
  CHECK(kept(none, MemorySpace::device) == Approx(2 + 4 + 12).epsilon(0.01));
  CHECK(kept(none, MemorySpace::host) == 0);
  const Plan cpu = plan_with({{"offload.optimizer", "cpu"}});
  CHECK(kept(cpu, MemorySpace::device) == Approx(2 + 4).epsilon(0.01));
  // The state, the gradients as they arrive and the fp16 weights that go back.
  CHECK(kept(cpu, MemorySpace::host) == Approx(12 + 4 + 2).epsilon(0.01));
  // Once per step, whatever the number of microbatches.
  CHECK(copied(cpu)["to_host"] == Approx(4).epsilon(0.01));
  CHECK(copied(cpu)["from_host"] == Approx(2).epsilon(0.01));
}

TEST_CASE("a fraction of the optimizer offloads that share of every bucket") {
  const Plan half = plan_with({{"offload.optimizer", "cpu"}, {"offload.optimizer_fraction", "0.5"}});
  CHECK(kept(half, MemorySpace::device) == Approx(2 + 4 + 12 / 2).epsilon(0.01));
  CHECK(kept(half, MemorySpace::host) == Approx((12 + 4 + 2) / 2).epsilon(0.01));
  CHECK(copied(half)["to_host"] == Approx(4.0 / 2).epsilon(0.01));
}

TEST_CASE("state on NVMe is read and written once per step, 12 bytes per parameter each way") {
  const Plan plan = plan_with({{"offload.optimizer", "nvme"}});
  CHECK(kept(plan, MemorySpace::nvme) == Approx(12).epsilon(0.01));
  CHECK(kept(plan, MemorySpace::host) == Approx(4 + 2).epsilon(0.01));
  CHECK(copied(plan)["nvme_read"] == Approx(12).epsilon(0.01));
  CHECK(copied(plan)["nvme_write"] == Approx(12).epsilon(0.01));
}

TEST_CASE("offloaded parameters come to the GPU for each of two passes, and are updated where they are") {
  const Overrides cpu = {{"offload.optimizer", "cpu"},
                         {"offload.parameters", "cpu"},
                         {"optimizer.zero_stage", "3"},
                         {"training.global_batch_size", "2"}};
  const Plan plan = plan_with(cpu);                                   // one microbatch
  CHECK(kept(plan, MemorySpace::device) == Approx(4).epsilon(0.01));  // main gradients
  CHECK(kept(plan, MemorySpace::host) == Approx(12 + 4 + 2).epsilon(0.01));
  CHECK(copied(plan)["from_host"] == Approx(2 * 2).epsilon(0.01));
  Overrides nvme = cpu;
  nvme[0].value = nvme[1].value = "nvme";
  const Plan infinity = plan_with(nvme);
  CHECK(kept(infinity, MemorySpace::nvme) == Approx(12 + 2).epsilon(0.01));
  CHECK(copied(infinity)["nvme_read"] == Approx(12 + 2 * 2).epsilon(0.01));
  CHECK(copied(infinity)["nvme_write"] == Approx(12 + 2).epsilon(0.01));
}

TEST_CASE("offloaded activations: all that a layer keeps goes out once and comes back once") {
  const Plan plan = plan_with(
      {{"offload.activations", "cpu"}, {"training.global_batch_size", "2"}, {"model.vocab_size", "128"}});
  std::map<std::string, double> bytes = copied(plan);
  CHECK(bytes["to_host"] > 0);
  CHECK(bytes["to_host"] == Approx(bytes["from_host"]));
  // Nothing that the forward pass leaves on the GPU but what goes with the loss.
  double stays = 0, leaves = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::microbatch && buffer.category == Category::activations)
      (buffer.space == MemorySpace::host ? leaves : stays) += static_cast<double>(buffer.bytes());
  CHECK(leaves > 0.9 * stays);
}

TEST_CASE("layers that keep nothing for a backward pass of theirs leave the others' copies as they are") {
  // The first two of four layers are frozen: nothing of them is read again.
  const auto leaving = [](const Overrides& more) {
    Overrides overrides = {{"offload.activations", "cpu"}, {"training.global_batch_size", "2"}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return copied(plan_with(overrides))["to_host"];
  };
  const double behind_frozen = leaving({{"model.frozen", "[embedding, 'layers[0-1]']"}});
  CHECK(behind_frozen > 0);
  CHECK(behind_frozen < leaving({}));
}

TEST_CASE("activations of the first layers alone are offloaded: as many layers' bytes leave and come back") {
  const auto leaving = [](const char* layers) {
    Overrides overrides = {{"offload.activations", "cpu"}, {"training.global_batch_size", "2"}};
    if (layers != nullptr) overrides.push_back({"offload.activation_layers", layers});
    std::map<std::string, double> bytes = copied(plan_with(overrides));
    CHECK(bytes["to_host"] == Approx(bytes["from_host"]));
    return bytes["to_host"];
  };
  const double one = leaving("1"), two = leaving("2");
  CHECK(one > 0);
  CHECK(two == Approx(2 * one).epsilon(0.1));
  CHECK(leaving(nullptr) > two);
}

TEST_CASE("offloading is valid with every kind of schedule, ZeRO stage and recompute") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"1f1b", "1"}, {"zb_h1", "1"},      {"interleaved_1f1b", "2"},
      {"zb_v", "2"}, {"dualpipe_v", "2"}, {"dualpipe", "1"}};
  const Overrides cpu = {{"offload.optimizer", "cpu"}}, nvme = {{"offload.optimizer", "nvme"}},
                  half = {{"offload.optimizer", "cpu"}, {"offload.optimizer_fraction", "0.3"}},
                  activations = {{"offload.activations", "cpu"}};
  const auto with = [](Overrides a, const Overrides& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto zero = [](const char* stage) { return Overrides{{"optimizer.zero_stage", stage}}; };
  const Overrides overlap = {{"optimizer.overlap_grad_reduce", "true"}};
  const std::vector<Overrides> options = {
      with(cpu, activations),
      with(nvme, overlap),
      with(with(half, zero("1")), overlap),
      with(with(cpu, zero("2")), activations),
      with(with(half, zero("3")), activations),
      with(with(cpu, zero("3")), {{"offload.parameters", "nvme"}}),
      with(with(nvme, zero("3")),
           {{"offload.parameters", "cpu"}, {"optimizer.reshard_after_forward", "false"}}),
      with(with(nvme, zero("3")),
           {{"optimizer.num_distributed_optimizer_instances", "2"}, {"optimizer.no_sync", "true"}})};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (std::size_t o = 0; o < options.size(); ++o)
      for (const char* recompute : {"none", "full"}) {
        if (std::string(schedule) == "dualpipe" && o > 2) continue;  // ZeRO-2 and 3 refuse two copies
        CAPTURE(schedule, o, recompute);
        const Plan plan = compile(
            job_from(small_gpt(8, 2, 2, 2),
                     with(options[o], {{"parallelism.pipeline_schedule", schedule},
                                       {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                       {"parallelism.sequence_parallel", "true"},
                                       {"model.untie_embeddings_and_output_weights", "true"},
                                       {"recompute.granularity", recompute}})));
        CHECK(lint(plan) == std::vector<std::string>{});
      }
}

}  // namespace simrun
