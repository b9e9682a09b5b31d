// Which format version a plan is written as: the lowest whose readers take it for what it is.
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "schedules/adafactor_parameters.h"
#include "schedules/compile.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"
#include "tests/schedules/full_plan.h"
#include "tests/schedules/plan_refusal.h"

namespace simrun {

TEST_CASE("a newer format version is refused with both versions") {
  std::string bytes = serialize(two_stage_plan());
  bytes[8] = plan_format_version + 1;
  CHECK(refusal(bytes) == "the plan file has format version 26; this simrun reads versions 1 to 25");
  bytes[8] = 0;
  CHECK(refusal(bytes) == "the plan file has format version 0; this simrun reads versions 1 to 25");
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

TEST_CASE("a plan with attention in chunks is version 24, since readers of 23 would take them for windows") {
  Plan plan = two_stage_plan();
  plan.segments[0].instructions[0].causal = {true, 4096, true};
  CHECK(serialize(plan)[8] == 24);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan = two_stage_plan();
  plan.segments[0].instructions[0].function = Function::scale_rows;
  CHECK(serialize(plan)[8] == 24);
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

Framework framework_of_version_17() {
  Framework framework = framework_with_every_field();
  framework.memory.cross_entropy_chunks = 1;
  framework.kernels.routing_operators = framework.kernels.routing_backward_operators = 0;
  framework.kernels.whole_pipeline_transfers = false;
  framework.kernels.host_step_s = 0;
  return framework;
}

// Without what version 15 brought: gates of their own, and tensors that come to life in a step.
Framework framework_of_version_15() {
  Framework framework = framework_of_version_17();
  framework.memory.attention_mask = AttentionMask::every_stage;
  framework.kernels.expert_bias = ExpertBias::fused;
  framework.kernels.broadcast_operations = framework.kernels.broadcast_operations_fp32 = 0;
  framework.kernels.copies_gathered_shards = false;
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
        &FrameworkKernels::broadcast_sum, &FrameworkKernels::scatter_operations}) {
    plan.framework = framework_of_version_17();
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
           [](Framework& f) { f.kernels.broadcast_operations = 165; },
           [](Framework& f) { f.kernels.copies_gathered_shards = true; }}) {
    Plan plan = two_stage_plan();
    change(plan.framework);
    CHECK(serialize(plan)[8] == 16);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("a GPU that no framework slows, of all nodes or of some, is version 16") {
  for (const bool of_all : {true, false}) {
    Plan plan = two_stage_plan();
    NodeGroup group;
    group.name = "some";
    group.nodes = plan.cluster.nodes;
    group.gpu = plan.cluster.gpu;
    group.intra_node = plan.cluster.intra_node;
    Gpu& gpu = of_all ? plan.cluster.gpu : group.gpu;
    gpu.kernels.efficiencies_of_steps = true;
    if (!of_all) plan.cluster.node_groups = {group};
    CHECK(serialize(plan)[8] == 16);
    CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  }
}

TEST_CASE("products of fp8 at a rate of their own are version 17, where there are any") {
  Plan plan = two_stage_plan();
  plan.cluster.gpu.kernels.fp8_efficiency = 0.5;
  CHECK(serialize(plan)[8] < 17);
  plan.buffers.front().dtype = Dtype::fp8;
  CHECK(serialize(plan)[8] == 17);
  CHECK(parse_plan(serialize(plan), "some.plan").cluster.gpu.kernels.fp8_efficiency == 0.5);
}

TEST_CASE("transfers of a pipeline that are whole on every tensor-parallel rank are version 18") {
  Plan plan = two_stage_plan();
  plan.framework.kernels.blocking_pipeline = true;
  CHECK(serialize(plan)[8] < 18);
  plan.framework.kernels.whole_pipeline_transfers = true;
  CHECK(serialize(plan)[8] == 18);
  CHECK(parse_plan(serialize(plan), "some.plan").framework.kernels.whole_pipeline_transfers);
}

TEST_CASE("a cross entropy in chunks is version 19") {
  Plan plan = two_stage_plan();
  plan.framework.memory.allocator = AllocatorKind::caching;
  CHECK(serialize(plan)[8] < 19);
  plan.framework.memory.cross_entropy_chunks = 8;
  CHECK(serialize(plan)[8] == 19);
  CHECK(parse_plan(serialize(plan), "some.plan").framework.memory.cross_entropy_chunks == 8);
}

TEST_CASE("a framework whose host does something once a step is version 20") {
  Plan plan = two_stage_plan();
  plan.framework.kernels.routing_operators = 30;
  CHECK(serialize(plan)[8] == 19);
  plan.framework.kernels.host_step_s = 0.015;
  CHECK(serialize(plan)[8] == 20);
  CHECK(parse_plan(serialize(plan), "some.plan").framework.kernels.host_step_s == 0.015);
}

TEST_CASE("a plan with Mamba layers is version 21") {
  Plan plan = two_stage_plan();
  CHECK(serialize(plan)[8] < 21);
  plan.segments.front().instructions.front().opcode = Opcode::scan;
  CHECK(serialize(plan)[8] == 21);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  plan.framework.kernels.scan_memory_efficiency = 0.65;
  CHECK(serialize(plan)[8] == 22);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("a plan with frozen weights in NF4 is version 22, one with NVFP4 is not") {
  Plan plan = two_stage_plan();
  plan.buffers.front().dtype = Dtype::fp4;
  plan.buffers.front().scale_block = 16;
  CHECK(serialize(plan)[8] < 22);
  plan.buffers.front().scale_block = nf4_block;
  CHECK(serialize(plan)[8] == 22);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("a plan whose nodes' or GPUs' rows are weighted on their way back is version 23") {
  const auto plan = [](const char* dispatcher) {
    return compile(job_from(
        "simrun: 1\n"
        "model: {model_type: mixtral, num_hidden_layers: 1, hidden_size: 64, intermediate_size: 128, "
        "num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 512, num_local_experts: 8, "
        "num_experts_per_tok: 2}\n"
        "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 2, precision: bf16}\n"
        "parallelism: {expert_model_parallel_size: 2}\n"
        "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 2}\n",
        {{"moe.token_dispatcher", dispatcher}}));
  };
  CHECK(serialize(plan("alltoall"))[8] < 22);
  const Plan weighted = plan("deepep");
  CHECK(serialize(weighted)[8] == 23);
  CHECK(parse_plan(serialize(weighted), "some.plan") == weighted);
}

TEST_CASE("a plan with a gate of attention's output is version 24") {
  const Plan gated = compile(job_from(
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 1, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, "
      "attention_output_gate: true}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n"));
  CHECK(serialize(gated)[8] == 24);
  CHECK(parse_plan(serialize(gated), "some.plan") == gated);
}

TEST_CASE("a plan whose Adafactor tells parts of matrices is version 23") {
  Plan plan = two_stage_plan();
  Instruction& update = plan.segments.front().instructions.front();
  update.phase = Phase::optimizer;
  update.function = Function::adafactor;
  update.constants.assign(7, 0);
  append_parameters(update.constants, {{.matrices = 1, .rows = 2, .columns = 3}});
  CHECK(serialize(plan)[8] == 23);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  update.constants = {0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0};
  CHECK(serialize(plan)[8] < 23);
}

TEST_CASE("exchanges that slow kernels are version 12, a rate for batched products 13, for norms 14") {
  Plan plan = two_stage_plan();
  plan.framework = framework_of_version_17();
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

TEST_CASE("a plan whose experts' products are issued one by one is version 24") {
  Plan plan = two_stage_plan();
  plan.framework.kernels.expert_dispatch_s = 2e-5;
  CHECK(serialize(plan)[8] < 24);  // it has no experts
  plan.dimension_names.push_back("experts");
  CHECK(serialize(plan)[8] == 24);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("a plan whose experts' rows are added slower than memory is version 25") {
  Plan plan = two_stage_plan();
  plan.framework.kernels.scatter_operations = 340;
  plan.framework.kernels.fused_permute = false;
  CHECK(serialize(plan)[8] < 25);  // it has no experts
  plan.dimension_names.push_back("experts");
  CHECK(serialize(plan)[8] == 25);
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

}  // namespace simrun
