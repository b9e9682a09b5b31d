#pragma once

#include "schedules/plan.h"
#include "tests/schedules/two_stage_plan.h"

namespace simrun {

inline Gpu gpu_with_every_field() {
  GpuKernels kernels = {.random_numbers = 1e12,
                        .sustained = 0.9,
                        .fp8_efficiency = 0.875,
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

inline Framework framework_with_every_field() {
  return {.name = "f",
          .kernels = {.host_dispatch_s = 1e-6,
                      .expert_dispatch_s = 3e-6,
                      .host_step_s = 2e-3,
                      .routing_operators = 11,
                      .routing_backward_operators = 12,
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
                      .scatter_operations = 300,
                      .norm_efficiency = 0.75,
                      .batched_gemm_efficiency = 0.5,
                      .scan_efficiency = 0.4,
                      .scan_memory_efficiency = 0.6,
                      .chunk_step_s = 4e-6,
                      .chunk_backward_step_s = 5e-6,
                      .optimizer_bytes = 1.5,
                      .copies_gathered_shards = true,
                      .compute_slowdown = 1.25,
                      .overlap_slowdown = 1.125,
                      .blocking_tensor_parallel = true,
                      .blocking_collectives = true,
                      .blocking_pipeline = true,
                      .whole_pipeline_transfers = true},
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
                     .cross_entropy_chunks = 9,
                     .saved = {{"norm", 0.5}},
                     .arena_share = 0.75,
                     .communicator_channels = 6,
                     .communicator_buffer_bytes = 7,
                     .communicator_bytes = 8}};
}

// The good plan with every field of plan.h off its default, beyond what lint() would accept.
inline Plan plan_with_every_field() {
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

}  // namespace simrun
