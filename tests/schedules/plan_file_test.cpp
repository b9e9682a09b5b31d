#include "schedules/plan_file.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "configs/diagnostics.h"
#include "schedules/lint.h"
#include "schedules/plan_message.h"
#include "tests/schedules/plan_refusal.h"
#include "two_stage_plan.h"

namespace simrun {
namespace {

Gpu gpu_with_every_field() {
  GpuKernels kernels = {.random_numbers = 1e12,
                        .sustained = 0.9,
                        .power = {.flash = {0.4, 0.5, 0.8}, .other = 0.3, .fitted = 0.9},
                        .tail_waves = 0.5,
                        .flash = {}};
  kernels.flash = {{{0.5, 0.4, 0.9, 30}, {0.6, 0.5, 0.8, 40}, {0.7, 0.6, 0.7, 50}}};
  return {.name = "g",
          .peak_flops = {{Dtype::fp64, 0.1}, {Dtype::uint8, 1e300}},
          .vector_flops = 1.5,
          .memory_bytes = 2,
          .driver_memory_bytes = 3,
          .matmul_workspace_bytes = 4,
          .memory_bandwidth = 5.5,
          .sm_count = 6,
          .l2_bytes = 7,
          .nvlink_bandwidth = 8.5,
          .kernel_launch_s = 9.5,
          .matmul_efficiency = 10.5,
          .memory_efficiency = 11.5,
          .special_functions = 12.5,
          .communication_sms = 20,
          .mxfp8 = true,
          .kernels = kernels};
}

Framework framework_with_every_field() {
  return {.name = "f",
          .kernels = {.host_dispatch_s = 1e-6,
                      .flash_attention = 2,
                      .softmax = SoftmaxKernel::megatron,
                      .fused_softmax_limit = 2048,
                      .fused_norm = false,
                      .fused_rope = false,
                      .fused_activation = false,
                      .separate_gate = true,
                      .recompute_stops_early = true,
                      .fused_residual = false,
                      .fused_qkv_bias = false,
                      .fused_weight_gradient = false,
                      .fused_cross_entropy = false,
                      .fused_permute = false,
                      .expert_bias = ExpertBias::separate_fc2,
                      .broadcast_operations = 100,
                      .broadcast_operations_fp32 = 200,
                      .broadcast_sum = 0.5,
                      .norm_efficiency = 0.75,
                      .batched_gemm_efficiency = 0.5,
                      .optimizer_bytes = 1.5,
                      .compute_slowdown = 1.25,
                      .overlap_slowdown = 1.125,
                      .blocking_tensor_parallel = true,
                      .blocking_collectives = true,
                      .blocking_pipeline = true},
          .memory = {.context_bytes = 1,
                     .context_bytes_per_sm = 2,
                     .allocator = AllocatorKind::arena,
                     .expandable_segments = true,
                     .matmul_workspaces = 3,
                     .other_workspace_bytes = 4,
                     .weight_gradients = WeightGradients::per_pass,
                     .keeps_stage_outputs = true,
                     .keeps_gathered_inputs = true,
                     .attention_mask = AttentionMask::first_and_last_stage,
                     .gradient_bucket_bytes = 5,
                     .bucket_bytes_per_parameter = 0.5,
                     .step_bytes_per_parameter = 1.5,
                     .step_bytes_per_held_parameter = 2.5,
                     .lazy_optimizer_state = true,
                     .fsdp = 2,
                     .loss_copies = 3.5,
                     .logits = LogitsTensors::half,
                     .saved = {{"norm", 0.5}},
                     .arena_share = 0.75,
                     .communicator_channels = 6,
                     .communicator_buffer_bytes = 7,
                     .communicator_bytes = 8}};
}

// The good plan with every field of plan.h off its default, beyond what lint() would accept.
Plan plan_with_every_field() {
  Plan plan = two_stage_plan();
  plan.job = {"name", "0.1",   "abc",   "gpt",      "auto", FoundSchedule{"1f1b", 1.5, 1.25, 7},
              2,      3,       4,       5,          6,      7,
              8,      9,       {10, 8}, 10,         11,     true,
              12,     1.0 / 3, 6.02e23, Dtype::fp8, 5,      {},
              {},     {}};
  plan.job.found_recompute = FoundRecompute{"{granularity: full}", 1, 2, 3, 0.25};
  plan.job.documents =
      DocumentMask{"a.csv", 0.5, 0.75, 1e20, {DocumentLengths::lognormal, {3, 5}, 7, 0.5, 9, ""}};
  plan.job.parameter_servers = ParameterServers{4, true, ServerMode::bounded_staleness, 3, 2, 1 << 20};
  plan.cluster.gpu = gpu_with_every_field();
  plan.framework = framework_with_every_field();
  plan.cluster.inter_node.flow_bandwidth = 5e9;
  plan.cluster.node_groups = {{"fast", 3, gpu_with_every_field(), {1e9, 2e-6, 0.5, true, 3e9}},
                              {"slow", 1, {}, {}}};
  plan.cluster.nics_per_node = 2;
  plan.cluster.fabric = {FabricTopology::leaf_spine, false, 3, 4, 1.25, 2e-7};
  plan.streams[2] = {"host copies", StreamDevice::nvme, Traffic::offload};
  plan.chunks[0] = {-1, 2, 3, 4, 5, true, true, 6, 7};
  plan.buffers[0].parent = 5;
  plan.buffers[0].parent_offset = -3;
  plan.buffers[0].dims[0].table = 0;
  Communication& communication = plan.communications[0];
  communication = {{3, {2, 1}, {4, 5}}, {-1, {2, 1}, -3, true, {-1, 7}}, Reduction::max, 0, "why"};
  Instruction& instruction = plan.segments[0].instructions[0];
  instruction = {Opcode::broadcast,
                 Function::adam,
                 Phase::optimizer,
                 7,
                 3,
                 true,
                 {true, 6},
                 {{1, 0}, true, true, -1},
                 0,
                 0.1f,
                 0,
                 {1},
                 {2, 3},
                 "qkv",
                 {4, 5}};
  instruction.work_table = 0;
  instruction.soft_cap = true;
  instruction.alibi = true;
  instruction.constants = {1e-5, 10000};
  plan.buffers[0].parameter = 7;
  plan.buffers[0].shard_of = 1;
  plan.dimension_sizes = {50257, 0, 12};
  plan.parameters = {{7, -1, "word_embeddings"}, {9, 3, "qkv_weight"}};
  plan.extent_tables[0] = {ExtentSource::run_time, 2, {1, 0}, {-3, 1 << 30}, "router", true};
  plan.programs[0].entries[0] = {1, 2, 3, Steps::first_only, 9};
  plan.programs[0].bindings[0] = {no_index, -5, -6, -7, Direction::up};
  plan.programs[0].pipeline_rank = -1;
  plan.cluster.imperfections = {
      .seed = 9,
      .jitter = {JitterDistribution::uniform, 0.1},
      .stragglers = {{.name = "hot", .gpus = {3, 1}, .nodes = {2}, .count = 4, .slowdown = 1.1}},
      .links = {{"fibre", "node0.*", 0.3, 1e-6}},
      .background = {{"others", "*.up", true, {0, 1}, {1, 0}, 1e9, 0.7}},
      .other_jobs = {{"neighbour", {0, 1}, "all_gather", {0}, {1}, 2e9, 0.5, 0.25}}};
  return plan;
}

}  // namespace

TEST_CASE("a plan file reads back as the plan that was written") {
  const Plan plan = two_stage_plan();
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  CHECK(serialize(parse_plan(serialize(plan), "some.plan")) == serialize(plan));
}

TEST_CASE("the message carries every field, doubles exactly") {
  const Plan plan = plan_with_every_field();
  CHECK(decode_plan(encode_plan(plan)) == plan);
  CHECK(decode_plan(encode_plan(Plan{})) == Plan{});
}

TEST_CASE("a plan file is found by its magic and read from disk") {
  const std::string path = "plan_file_test.plan";
  std::ofstream(path, std::ios::binary) << serialize(two_stage_plan());
  CHECK(is_plan_file(path));
  CHECK(read_plan(path) == two_stage_plan());
  std::ofstream(path, std::ios::binary) << "model_type: gpt\n";
  CHECK_FALSE(is_plan_file(path));
  std::remove(path.c_str());
  CHECK_FALSE(is_plan_file(path));
  CHECK_THROWS_AS(read_plan(path), ConfigError);
}

TEST_CASE("a plan file cut off at any byte is refused") {
  const std::string bytes = serialize(two_stage_plan());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(refusal(bytes.substr(0, size)).empty());
  }
  CHECK(refusal(bytes.substr(0, 20)) == "the plan file is cut off in its header");
  CHECK(refusal(bytes + "x").find("bytes behind its header") != std::string::npos);
}

TEST_CASE("a plan file with any byte altered is refused") {
  const std::string bytes = serialize(two_stage_plan());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    std::string altered = bytes;
    altered[i] = static_cast<char>(altered[i] ^ 0x10);
    CHECK_FALSE(refusal(altered).empty());
  }
  std::string altered = bytes;
  altered.back() = static_cast<char>(altered.back() ^ 1);
  CHECK(refusal(altered) == "the plan file was altered: its checksum does not match");
}

TEST_CASE("a newer format version is refused with both versions") {
  std::string bytes = serialize(two_stage_plan());
  bytes[8] = plan_format_version + 1;
  CHECK(refusal(bytes) == "the plan file has format version 17; this simrun reads versions 1 to 16");
  bytes[8] = 0;
  CHECK(refusal(bytes) == "the plan file has format version 0; this simrun reads versions 1 to 16");
}

TEST_CASE("a plan that a reader of version 1 would take for another is version 2") {
  Plan plan = two_stage_plan();
  CHECK(serialize(plan)[8] == 1);
  plan.cluster.nics_per_node = 2;
  CHECK(serialize(plan)[8] == 2);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.cluster.nics_per_node = 4;
  plan.cluster.fabric = {FabricTopology::leaf_spine, false, 2, 4, 1.5, 1e-6};
  CHECK(serialize(plan)[8] == 2);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("a plan with a sliding window is version 3, since readers of 2 would attend to all tokens") {
  Plan plan = two_stage_plan();
  plan.segments[0].instructions[0].causal = {true, 4096};
  CHECK(serialize(plan)[8] == 3);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.segments[0].instructions[0].causal.window = -1;
  CHECK(refusal(serialize(plan)) == "the plan file is malformed: window -1 is negative");
}

TEST_CASE("a plan with work by rank or another memory is version 4") {
  Plan plan = two_stage_plan();
  plan.segments[0].instructions[0].soft_cap = true;
  CHECK(serialize(plan)[8] == 4);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan = two_stage_plan();
  plan.segments[0].instructions[0].alibi = true;
  CHECK(serialize(plan)[8] == 4);
  plan = two_stage_plan();
  plan.buffers[0].space = MemorySpace::host;
  CHECK(serialize(plan)[8] == 4);
}

TEST_CASE("a plan with parameter servers or scales of blocks is version 5") {
  Plan plan = two_stage_plan();
  plan.buffers[0].scale_block = 128;
  CHECK(serialize(plan)[8] == 5);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan = two_stage_plan();
  plan.segments[0].instructions[0].opcode = Opcode::push;
  CHECK(serialize(plan)[8] == 5);
}

TEST_CASE("a plan of a measured cluster, or with a sequence in zigzag blocks, is version 6") {
  Plan plan = two_stage_plan();
  plan.cluster.communication = CommunicationMode::blocking;
  CHECK(serialize(plan)[8] == 6);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan = two_stage_plan();
  REQUIRE(serialize(plan)[8] < 6);
  plan.buffers[0].split = {"cp:zigzag,tp"};
  CHECK(serialize(plan)[8] == 6);
}

TEST_CASE("a plan with collectives, a network or imperfections of its own is version 7") {
  for (const auto& change : std::vector<std::function<void(Cluster&)>>{
           [](Cluster& cluster) { cluster.wiring.relay = false; },
           [](Cluster& cluster) { cluster.gpu.sm_count = 108, cluster.gpu.communication_sms = 4; },
           [](Cluster& cluster) { cluster.imperfections.jitter.coefficient_of_variation = 0.1; }}) {
    Plan plan = two_stage_plan();
    change(plan.cluster);
    CHECK(serialize(plan)[8] == 7);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

// Without what version 15 brought: gates of their own, and tensors that come to life in a step.
Framework framework_of_version_15() {
  Framework framework = framework_with_every_field();
  framework.memory.attention_mask = AttentionMask::every_stage;
  framework.kernels.expert_bias = ExpertBias::fused;
  framework.kernels.broadcast_operations = framework.kernels.broadcast_operations_fp32 = 0;
  return framework;
}

Framework framework_of_version_14() {
  Framework framework = framework_of_version_15();
  framework.kernels.separate_gate = framework.kernels.recompute_stops_early = false;
  framework.memory.lazy_optimizer_state = false;
  framework.memory.fsdp = 0;
  framework.memory.logits = LogitsTensors::fp32;
  return framework;
}

TEST_CASE("a plan of a framework, of kernels of its own or with other jobs beside it is version 8") {
  for (const auto& change : std::vector<std::function<void(Plan&)>>{
           [](Plan& plan) {
             plan.framework = framework_of_version_14();
             plan.framework.kernels.blocking_collectives = false;
             plan.framework.kernels.overlap_slowdown = 1;
             plan.framework.kernels.batched_gemm_efficiency = plan.framework.kernels.norm_efficiency = 1;
           },
           [](Plan& plan) { plan.cluster.gpu.kernels.sustained = 0.9; },
           [](Plan& plan) { plan.cluster.inter_node.flow_bandwidth = 5e9; }}) {
    Plan plan = two_stage_plan();
    change(plan);
    CHECK(serialize(plan)[8] == 8);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("a plan with groups of nodes, batches of unlike size or blocking collectives is version 9") {
  for (const auto& change : std::vector<std::function<void(Plan&)>>{
           [](Plan& plan) {
             plan.cluster.node_groups = {
                 {"all", plan.cluster.nodes, plan.cluster.gpu, plan.cluster.intra_node}};
           },
           [](Plan& plan) {
             plan.job.replica_micro_batch_sizes = {1, 2};
           },
           [](Plan& plan) {
             plan.framework = framework_of_version_14();
             plan.framework.kernels.overlap_slowdown = 1;
             plan.framework.kernels.batched_gemm_efficiency = plan.framework.kernels.norm_efficiency = 1;
           }}) {
    Plan plan = two_stage_plan();
    change(plan);
    CHECK(serialize(plan)[8] == 9);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("operators that take a negative number of operations are no plan") {
  Plan plan = two_stage_plan();
  for (double FrameworkKernels::*const operations :
       {&FrameworkKernels::broadcast_operations, &FrameworkKernels::broadcast_operations_fp32,
        &FrameworkKernels::broadcast_sum}) {
    plan.framework = framework_with_every_field();
    plan.framework.kernels.*operations = -1;
    CHECK(refusal(serialize(plan)) ==
          "the plan file is malformed: a framework's operators take negative operations");
  }
}

TEST_CASE("masks at a pipeline's ends, softmax under autocast and biases behind products are version 16") {
  for (const auto& change : std::vector<std::function<void(Framework&)>>{
           [](Framework& f) { f.memory.attention_mask = AttentionMask::first_and_last_stage; },
           [](Framework& f) { f.kernels.softmax = SoftmaxKernel::autocast; },
           [](Framework& f) { f.kernels.expert_bias = ExpertBias::separate; },
           [](Framework& f) { f.kernels.broadcast_operations = 165; }}) {
    Plan plan = two_stage_plan();
    change(plan.framework);
    CHECK(serialize(plan)[8] == 16);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("exchanges that slow kernels are version 12, a rate for batched products 13, for norms 14") {
  Plan plan = two_stage_plan();
  plan.framework = framework_with_every_field();
  CHECK(serialize(plan)[8] == 16);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.framework = framework_of_version_15();
  CHECK(serialize(plan)[8] == 15);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.framework = framework_of_version_14();
  CHECK(serialize(plan)[8] == 14);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.framework.kernels.norm_efficiency = 1;
  CHECK(serialize(plan)[8] == 13);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.framework.kernels.batched_gemm_efficiency = 1;
  CHECK(serialize(plan)[8] == 12);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("a plan with fp4 among its peaks or buffers is version 10") {
  for (const auto& change : std::vector<std::function<void(Plan&)>>{
           [](Plan& plan) { plan.cluster.gpu.peak_flops[Dtype::fp4] = 1e16; },
           [](Plan& plan) { plan.job.precision = Dtype::fp4; },
           [](Plan& plan) { plan.buffers.front().dtype = Dtype::fp4; }}) {
    Plan plan = two_stage_plan();
    change(plan);
    CHECK(serialize(plan)[8] == 10);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("a plan file without NICs and fabric has a NIC per GPU on a non-blocking fabric") {
  Plan plan = two_stage_plan();
  plan.cluster.nics_per_node = 0;
  plan.cluster.fabric.oversubscription = 0;  // absent
  const Plan read = parse_plan(serialize(plan), "some.plan");
  CHECK(read.cluster.nics_per_node == 4);
  CHECK(read.cluster.fabric == Fabric{});
}

TEST_CASE("200,000 entries are less than 2 MB and read back") {
  Plan plan = two_stage_plan();
  Program& program = plan.programs[0];
  program.entries.clear();
  program.bindings.clear();
  for (Index i = 0; i < 200'000; ++i) {
    program.entries.push_back({i % 12, i, 1, Steps::every, i / 2});
    program.bindings.push_back({.chunk = i % 2, .microbatch = static_cast<std::int32_t>(i / 8)});
  }
  const std::string message = encode_plan(plan);
  CHECK(message.size() < 2'000'000);
  CHECK(decode_plan(message) == plan);
}

}  // namespace simrun
