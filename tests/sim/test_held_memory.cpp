#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/allocation_replay.h"
#include "sim/communicator_memory.h"
#include "sim/held_memory.h"
#include "sim/memory.h"
#include "sim/score_tensors.h"
#include "sim/simulate.h"
#include "sim/steady_phase.h"
#include "tests/jobs.h"
#include "tests/sim/plan_builder.h"

namespace simrun {
namespace {

Plan small_plan(const std::vector<Override>& overrides, int pp = 1) {
  return compile(job_from(small_gpt(4, 1, pp, 1), overrides));
}

HeldMemory held_of(const Plan& plan) { return held_memory(plan, plan.programs.front(), 0); }

std::int64_t sum_of(const HeldMemory& held, HeldLevel level) {
  std::int64_t bytes = 0;
  for (const HeldPart& part : held.parts)
    if (part.level == level) bytes += part.bytes;
  return bytes;
}

std::int64_t part_of(const HeldMemory& held, const std::string& name) {
  for (const HeldPart& part : held.parts)
    if (part.name == name) return part.bytes;
  return 0;
}

std::int64_t peak_live(const Plan& plan) {
  return walk_memory(plan, plan.programs.front(), WhichStep::steady, MemoryDetail::peak).peak.bytes;
}

TEST_CASE("Without a framework a rank holds the plan's bytes, and the cluster's reserve stays") {
  const Plan plan = small_plan({});
  const Summary summary = summarize(plan, simulate(plan));
  CHECK_FALSE(summary.stages.front().held.has_value());
  CHECK(summary.memory_limit_bytes == plan.cluster.gpu.memory_bytes - plan.cluster.reserved_bytes);
}

TEST_CASE("Live <= allocated <= reserved <= device, and the named parts are the differences") {
  const std::string framework = GENERATE("megatron_core", "megatron_deepspeed", "nanotron", "alpa");
  const int pp = GENERATE(1, 4);
  const std::string zero = GENERATE("0", "1");
  CAPTURE(framework, pp, zero);
  const Plan plan = small_plan({{"framework", framework}, {"optimizer.zero_stage", zero}}, pp);
  for (const Program& program : plan.programs) {
    const HeldMemory held = held_memory(plan, program, 0);
    const std::int64_t peak = walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes;
    CHECK(held.live_bytes <= peak);
    CHECK(peak <= held.allocated_bytes);
    CHECK(held.live_bytes + sum_of(held, HeldLevel::allocated) == held.allocated_bytes);
    CHECK(held.allocated_bytes + sum_of(held, HeldLevel::reserved) == held.reserved_bytes);
    CHECK(held.reserved_bytes + sum_of(held, HeldLevel::device) == held.device_bytes);
    CHECK(held.reserved_bytes >= held.allocated_bytes);
    CHECK(held.device_bytes > held.reserved_bytes);
  }
}

TEST_CASE("A framework that keeps nothing of its own allocates the plan's peak, but for rounding") {
  const Plan plan = small_plan({{"framework.memory.allocator", "caching"}}, GENERATE(1, 2));
  const HeldMemory held = held_of(plan);
  CHECK(held.live_bytes == Approx(static_cast<double>(peak_live(plan))).epsilon(1e-3));
  CHECK(held.allocated_bytes == held.live_bytes + part_of(held, "rounding"));
  CHECK(part_of(held, "rounding") < held.live_bytes / 50);
}

TEST_CASE("Workspaces, context and cuBLAS are those of the GPU") {
  // A100: 3 x 8,320 KiB; 108 multiprocessors x 4 MiB + 100 MiB.
  const HeldMemory held = held_of(small_plan({{"framework.memory.allocator", "caching"},
                                              {"framework.memory.matmul_workspaces", "3"},
                                              {"framework.memory.context_per_sm", "4 MiB"},
                                              {"framework.memory.context", "100 MiB"}}));
  CHECK(part_of(held, "workspaces") == 3 * 8320 * 1024);
  CHECK(part_of(held, "context") == (108 * 4 + 100) << 20);
}

TEST_CASE(
    "An attention mask of 512 x 512 bytes waits for a backward pass that reads it, one per microbatch") {
  const auto masks = [](const char* where, const char* attention, const char* granularity) {
    const Plan plan = small_plan({{"framework.memory.allocator", "caching"},
                                  {"framework.memory.attention_mask", where},
                                  {"training.attention", attention},
                                  {"recompute.granularity", granularity}},
                                 4);
    std::vector<std::int64_t> of_ranks;
    for (const Program& program : plan.programs)
      of_ranks.push_back(part_of(held_memory(plan, program, 0), "attention_mask") / (512 * 512));
    return of_ranks;
  };
  const std::vector<std::int64_t> in_flight{4, 3, 2, 1}, at_the_ends{4, 0, 0, 1};
  CHECK(masks("every_stage", "flash", "full") == in_flight);
  CHECK(masks("every_stage", "unfused", "none") == in_flight);
  CHECK(masks("first_and_last_stage", "flash", "full") == at_the_ends);
  CHECK(masks("first_and_last_stage", "unfused", "none") == at_the_ends);
  // A kernel that knows which keys are masked reads none: no pass leaves its mask behind.
  for (const std::int64_t kept : masks("every_stage", "flash", "none")) CHECK(kept <= 1);
  CHECK(masks("none", "unfused", "full") == std::vector<std::int64_t>(4, 0));
}

TEST_CASE("PyTorch's softmax in fp32 keeps 4 bytes per score beside the half-precision ones") {
  // Two sequences of 512 under 16 heads: 2^23 scores in each of four layers.
  const auto held = [](const char* softmax, const char* dropout) {
    return held_of(small_plan({{"framework.memory.allocator", "caching"},
                               {"framework.kernels.softmax", softmax},
                               {"training.attention_dropout", dropout}}));
  };
  constexpr std::int64_t scores = 1 << 23;
  for (const char* softmax : {"separate", "autocast"}) {
    CHECK(part_of(held(softmax, "0"), "saved") == 4 * 4 * scores);
    CHECK(part_of(held(softmax, "0.1"), "saved") == 4 * 2 * scores);  // dropout frees what it has cast
  }
  CHECK(part_of(held("fused", "0"), "saved") == 0);
  CHECK(part_of(held("megatron", "0"), "saved") == 0);
}

TEST_CASE("While softmax runs in fp32, scores lie before and behind it") {
  const Plan plan =
      small_plan({{"framework.kernels.softmax", "separate"}, {"training.attention_dropout", "0"}});
  constexpr std::int64_t scores = 1 << 23;
  int forward = 0, backward = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions) {
      const ScoreTensors tensors = score_tensors(plan, instruction);
      if (instruction.opcode == Opcode::attention) {
        ++forward;  // half-precision and masked fp32 ones; softmax's output stays
        CHECK(tensors.brief == (2 + 4) * scores);
        CHECK(tensors.kept == 4 * scores);
      } else if (instruction.opcode == Opcode::attention_backward) {
        ++backward;  // two gradients, less the probabilities of the product
        CHECK(tensors.brief == (4 + 4 - 2) * scores);
        CHECK(tensors.kept == 0);
      } else {
        CHECK(tensors.brief + tensors.kept == 0);
      }
    }
  CHECK(forward == 4);
  CHECK(backward == 2 * 4);  // of the first microbatch, and of those that add to its gradients
}

TEST_CASE("What the passes leave does not depend on how many microbatches a step has") {
  const std::string framework = GENERATE("megatron_core", "megatron_deepspeed");
  const std::string schedule = GENERATE("1f1b", "interleaved_1f1b", "zb_h1");
  const int pp = 2;
  std::vector<HeldMemory> held;
  for (const char* batch : {"64", "128", "256"}) {  // 8 GPUs, 4 replicas: 8, 16 and 32 microbatches of two
    std::vector<Override> overrides{{"framework", framework},
                                    {"parallelism.pipeline_schedule", schedule},
                                    {"training.global_batch_size", batch}};
    if (schedule == "interleaved_1f1b")
      overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", "2"});
    held.push_back(held_of(small_plan(overrides, pp)));
  }
  CHECK(held[1] == held[0]);
  CHECK(held[2] == held[0]);
}

TEST_CASE("1F1B repeats every two entries, one microbatch later") {
  const Plan plan = small_plan({{"training.global_batch_size", "512"}}, 1);  // 32 microbatches
  const SteadyPhase phase = steady_phase(plan.programs.front());
  REQUIRE(phase.period > 0);
  CHECK(phase.shift == 1);
  const Program& program = plan.programs.front();
  for (Index e = phase.begin; e + phase.period < phase.end; ++e) {
    CHECK(program.entries[e].segment == program.entries[e + phase.period].segment);
  }
  CHECK((phase.end - phase.begin) / phase.period >= 28);  // all but the first and the last, which differ
}

TEST_CASE("NCCL holds 544 MiB for a group of two A100, 664 for one of four") {
  // 12 NVLinks, 24 channels of 10 MiB: a ring's connection and 2 (n - 1) / n of trees; and 64 MiB.
  const int ranks = GENERATE(2, 4);
  const Plan plan = small_plan({{"framework", "megatron_core"},
                                {"cluster.gpus_per_node", std::to_string(ranks)},
                                {"cluster.nics_per_node", std::to_string(ranks)}});
  const CommunicatorMemory memory = communicator_memory(plan, plan.programs.front(), 0);
  CHECK(memory.communicators == 1);
  CHECK(memory.bytes == (ranks == 2 ? 544 : 664) * (std::int64_t{1} << 20));
}

TEST_CASE("Pipeline ranks of one node have a channel's buffer for each neighbour") {
  // No data parallelism: only transfers. The middle ranks have two neighbours, 2 x 24 x 10 + 64 MiB.
  const Plan plan = small_plan({{"framework", "megatron_core"},
                                {"cluster.gpus_per_node", "4"},
                                {"cluster.nics_per_node", "4"},
                                {"model.untie_embeddings_and_output_weights", "true"},
                                {"optimizer.clip_grad", "0"}},
                               4);
  const auto bytes = [&](std::size_t rank) {
    return communicator_memory(plan, plan.programs[rank], 0).bytes >> 20;
  };
  CHECK(bytes(1) - bytes(0) == 240);
  CHECK(bytes(1) == bytes(2));
}

TEST_CASE("Gradients of a pass that wait for its end take two bytes per parameter") {
  // 128 tokens: what is saved of 4 layers (at most 40 MB) is less than 2 B x 52 M parameters, so that the
  // peak is where the pass ends.
  const auto held = [](const char* where) {
    const Plan plan = small_plan({{"framework.memory.allocator", "caching"},
                                  {"framework.memory.weight_gradients", where},
                                  {"training.seq_length", "128"},
                                  {"training.micro_batch_size", "1"},
                                  {"model.vocab_size", "1024"}});
    return std::pair(held_of(plan), plan.job.parameters);
  };
  const auto [per_pass, parameters] = held("per_pass");
  CHECK(part_of(per_pass, "weight_gradients") > 3 * parameters / 2);
  // The tied table [1024, 1024] has two: of the embedding and of the head.
  CHECK(part_of(per_pass, "weight_gradients") <= 2 * (parameters + 1024 * 1024));
  const HeldMemory in_place = held("in_place").first;
  CHECK(part_of(in_place, "weight_gradients") == 0);
  CHECK(per_pass.allocated_bytes - in_place.allocated_bytes > parameters);
  const HeldMemory per_parameter = held("per_parameter").first;
  CHECK(per_parameter.allocated_bytes < per_pass.allocated_bytes);
}

TEST_CASE(
    "Gradients that are autograd's own lie where the loss has been, until a second microbatch has one") {
  // One microbatch on each of 8 ranks. Six copies of [512, 2] tokens x 51,200 fp32 logits, 200 MiB each, are
  // more than what follows needs: two bytes for each of the 100 M parameters, and the activations. Main
  // gradients of another type are there from the start.
  const auto held = [](const char* where, const char* dtype, const char* batch = "16") {
    const Plan plan = small_plan({{"framework.memory.allocator", "caching"},
                                  {"framework.memory.weight_gradients", where},
                                  {"framework.memory.loss_copies", "6"},
                                  {"training.precision", "bf16"},
                                  {"training.global_batch_size", batch},
                                  {"optimizer.main_grads_dtype", dtype},
                                  {"model.vocab_size", "51200"}});
    return std::pair(held_of(plan).reserved_bytes, plan.job.parameters);
  };
  const std::int64_t slack = 50 << 20;  // the allocator takes 20 MiB at a time for tensors of 1 to 10 MiB
  const auto [own, parameters] = held("per_parameter", "bf16");
  CHECK(std::abs(held("in_place", "bf16").first - own - 2 * parameters) < slack);
  CHECK(std::abs(held("per_parameter", "fp32").first - own - 4 * parameters) < slack);
  CHECK(std::abs(held("in_place", "bf16", "32").first - held("per_parameter", "bf16", "32").first) < slack);
}

TEST_CASE("Outputs that are kept until their backward pass are one more tensor per microbatch in flight") {
  // [512, 2, 1024] fp16 = 2 MiB; the first of 4 stages has 4 microbatches in flight.
  const auto part = [](const char* keeps) {
    const Plan plan = small_plan({{"framework.memory.allocator", "caching"},
                                  {"framework.memory.keeps_stage_outputs", keeps},
                                  {"cluster.gpus_per_node", "4"},
                                  {"cluster.nics_per_node", "4"}},
                                 4);
    return part_of(held_of(plan), "stage_outputs");
  };
  CHECK(part("false") == 0);
  CHECK(part("true") == 4 * 2 * (std::int64_t{1} << 20));
}

TEST_CASE("A loss of gathered logits takes all of them on every tensor-parallel rank") {
  // [512, 2] tokens x 51,200 fp32 logits = 200 MiB, in two copies; a rank of two has half of them, and the
  // plan counts those once.
  const auto loss = [](const char* key) {
    const Plan plan = small_plan({{"framework.memory.allocator", "caching"},
                                  {key, "2"},
                                  {"model.vocab_size", "51200"},
                                  {"parallelism.tensor_model_parallel_size", "2"},
                                  {"cluster.gpus_per_node", "2"},
                                  {"cluster.nics_per_node", "2"}});
    return part_of(held_of(plan), "loss") >> 20;
  };
  CHECK(loss("framework.memory.saved.gathered_logits") == 300);
  CHECK(loss("framework.memory.loss_copies") == 200);
}

TEST_CASE("Under FSDP a rank keeps 12 bytes of state per parameter and shard, not 14 and 4 of gradients") {
  // 64 data-parallel ranks, ZeRO-3: what is live while the loss is computed, less what does not depend on
  // who shards.
  const auto live = [](const char* generation) {
    const Plan plan = compile(job_from(small_gpt(2, 1, 1, 8), {{"optimizer.zero_stage", "3"},
                                                               {"training.precision", "bf16"},
                                                               {"training.micro_batch_size", "16"},
                                                               {"training.global_batch_size", "1024"},
                                                               {"framework.memory.allocator", "caching"},
                                                               {"framework.memory.fsdp", generation}}));
    return std::pair(held_of(plan), plan.job.parameters);
  };
  const auto [megatron, parameters] = live("0");
  const HeldMemory one = live("1").first, two = live("2").first;
  // 2 bytes of weights and 4 of gradients, on each of 64 ranks; buckets are padded.
  CHECK(static_cast<double>(megatron.live_bytes - one.live_bytes) ==
        Approx(6.0 * static_cast<double>(parameters) / 64).epsilon(0.01));
  CHECK(part_of(one, "exchange_buffers") == 0);
  CHECK(part_of(two, "exchange_buffers") > 0);
  CHECK(two.live_bytes == one.live_bytes);
  CHECK(two.reserved_bytes > one.reserved_bytes);
}

TEST_CASE("FSDP2's copies of units are there in every microbatch, and ZeRO-1 has none") {
  const auto copies = [](const char* stage, const char* batch) {
    const Plan plan = compile(job_from(small_gpt(2, 1, 1, 8), {{"optimizer.zero_stage", stage},
                                                               {"optimizer.overlap_grad_reduce", "true"},
                                                               {"training.precision", "bf16"},
                                                               {"training.micro_batch_size", "1"},
                                                               {"training.global_batch_size", batch},
                                                               {"recompute", "{granularity: full}"},
                                                               {"framework.memory.allocator", "caching"},
                                                               {"framework.memory.fsdp", "2"}}));
    return held_of(plan);
  };
  CHECK(part_of(copies("3", "64"), "exchange_buffers") > 0);
  CHECK(part_of(copies("3", "256"), "exchange_buffers") >= part_of(copies("3", "64"), "exchange_buffers"));
  CHECK(part_of(copies("1", "64"), "exchange_buffers") == 0);
}

TEST_CASE("Moments that the first update makes cut what that step left free: the next one reserves more") {
  // The logits are the largest tensors, and free when the moments come.
  const auto held = [](const char* lazy) {
    return held_of(small_plan({{"framework.memory.allocator", "caching"},
                               {"framework.memory.loss_copies", "2"},
                               {"training.micro_batch_size", "4"},
                               {"model.vocab_size", "65536"},
                               {"framework.memory.lazy_optimizer_state", lazy}}));
  };
  const HeldMemory before = held("false"), later = held("true");
  CHECK(later.live_bytes == before.live_bytes);
  CHECK(later.allocated_bytes == before.allocated_bytes);
  CHECK(later.reserved_bytes > before.reserved_bytes);
}

TEST_CASE("Logits in half precision alone spare the fp32 ones and their copies, but not the gradient") {
  const auto held = [](const char* logits, const char* copies) {
    return held_of(small_plan({{"framework.memory.allocator", "caching"},
                               {"training.precision", "bf16"},
                               {"training.micro_batch_size", "16"},
                               {"training.global_batch_size", "128"},
                               {"model.vocab_size", "65536"},
                               {"recompute", "{granularity: full}"},
                               {"framework.memory.logits", logits},
                               {"framework.memory.loss_copies", copies}}));
  };
  const HeldMemory fp32 = held("fp32", "2"), half = held("half", "0");
  // 16 x 512 tokens of 65,536 logits.
  const std::int64_t logits = std::int64_t{4} * 16 * 512 * 65536;
  CHECK(part_of(fp32, "loss") == 2 * logits);
  CHECK(part_of(half, "loss") == 0);
  // Logits and two copies of them; against half the logits and half their gradient.
  CHECK(fp32.allocated_bytes - half.allocated_bytes == 3 * logits - logits);
}

// With 4 layers on 4 ranks the last one, with the loss, has most allocated; all of them have the same arena.
TEST_CASE("What is free in an arena is the plan's to have, and its fullest rank is the one with most in it") {
  Plan plan = small_plan({{"framework", "alpa"}}, 4);
  const Summary summary = summarize(plan, simulate(plan));
  const Gpu& gpu = plan.cluster.gpu;
  std::int64_t most = 0;
  std::int32_t fullest = 0;
  for (const Program& program : plan.programs) {
    const HeldMemory held = held_memory(plan, program, 0);
    CHECK(held.reserved_bytes > held.allocated_bytes);
    const std::int64_t beside = held.device_bytes - held.reserved_bytes;  // context and communicators
    const std::int64_t peak = walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes;
    CHECK(room_for_plan(plan, program) ==
          gpu.memory_bytes - gpu.driver_memory_bytes - beside - (held.allocated_bytes - peak));
    if (held.allocated_bytes <= most) continue;
    most = held.allocated_bytes;
    fullest = program.pipeline_rank;
  }
  CHECK(summary.fits);
  CHECK(summary.peak_pipeline_rank == fullest);
  CHECK(summary.memory_limit_bytes == room_for_plan(plan, plan.programs[static_cast<std::size_t>(fullest)]));
  plan.framework.memory.arena_share = 1.5;  // it cannot be had
  CHECK_FALSE(summarize(plan, simulate(plan)).fits);
}

TEST_CASE("fits compares what the device holds with what programs get of it") {
  Plan plan = small_plan({{"framework", "megatron_core"}});
  const auto fits = [&] { return summarize(plan, simulate(plan)).fits; };
  const std::int64_t device = held_of(plan).device_bytes;
  plan.cluster.gpu.memory_bytes = device + plan.cluster.gpu.driver_memory_bytes;
  CHECK(fits());
  CHECK(room_for_plan(plan, plan.programs.front()) == peak_live(plan));
  CHECK(held_of(plan).device_bytes == device);
  plan.cluster.gpu.memory_bytes = peak_live(plan);
  CHECK_FALSE(fits());
}

}  // namespace
}  // namespace simrun
