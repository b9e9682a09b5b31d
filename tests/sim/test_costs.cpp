#include <catch2/catch.hpp>

#include "sim/collective_cost.h"
#include "sim/durations.h"
#include "sim/kernel_cost.h"
#include "tests/sim/plan_builder.h"

namespace simrun {

namespace {

// Ten SMs of 1e11 FLOP/s each; memory out of the way unless a test asks for it.
Gpu ten_sms() {
  Gpu gpu;
  gpu.name = "ten_sms";
  gpu.peak_flops[Dtype::bf16] = 1e12;
  gpu.vector_flops = 1e11;
  gpu.sm_count = 10;
  gpu.memory_bandwidth = 1e18;
  gpu.matmul_efficiency = gpu.memory_efficiency = 1;
  return gpu;
}

// Two nodes of four: 100 GB/s within, 10 GB/s per GPU between; 1 us and 5 us per hop.
Cluster two_nodes() {
  Cluster cluster;
  cluster.nodes = 2;
  cluster.gpus_per_node = 4;
  cluster.gpu = ten_sms();
  cluster.intra_node = {125e9, 1e-6, 0.8};
  cluster.inter_node = {12.5e9, 5e-6, 0.8};
  return cluster;
}

Index add_buffer(Plan& plan, Dtype dtype, std::vector<std::pair<const char*, std::int64_t>> dims) {
  Buffer buffer;
  buffer.dtype = dtype;
  for (const auto& [name, extent] : dims) {
    std::uint16_t at = 0;
    while (at < plan.dimension_names.size() && plan.dimension_names[at] != name) ++at;
    if (at == plan.dimension_names.size()) plan.dimension_names.push_back(name);
    buffer.dims.push_back({at, -1, extent});
  }
  plan.buffers.push_back(buffer);
  return static_cast<Index>(plan.buffers.size() - 1);
}

Instruction instruction(Opcode opcode, std::vector<Index> inputs, std::vector<Index> outputs) {
  Instruction i;
  i.opcode = opcode;
  i.inputs = std::move(inputs);
  i.outputs = std::move(outputs);
  return i;
}

}  // namespace

TEST_CASE("a GEMM takes whole waves of tiles") {
  const Gpu gpu = ten_sms();
  // 10 tiles of 256x128, one per SM: 2 x 256 x 128 x (872 + 128 of prologue) FLOPs / 1e11 = 655.36 us
  CHECK(gemm_seconds(gpu, {.m = 2560, .n = 128, .k = 872}) == Approx(655.36e-6));
  // One row more: 11 tiles of 256x128 would take two waves, 1310.72 us. 41 x 2 tiles of 64x64 take nine waves
  // of 2 x 64 x 64 x 1000 / (1e11 x 32/48 x 101.33/85.33) = 103.48 us.
  CHECK(gemm_seconds(gpu, {.m = 2561, .n = 128, .k = 872}) == Approx(931.3e-6).epsilon(1e-3));
  // A batch is more tiles: two waves of 256x128.
  CHECK(gemm_seconds(gpu, {.batch = 2, .m = 2560, .n = 128, .k = 872}) == Approx(1310.72e-6));
}

TEST_CASE("few tiles with a long K are split over the SMs") {
  const Gpu gpu = ten_sms();
  // One tile of 256x128 alone: 2 x 32768 x 81920 / 1e11 = 53.7 ms on one of ten SMs. Sixteen splits in two
  // waves: 2 x 2 x 32768 x (5120 + 128) / 1e11 = 6.88 ms; 64x64 tiles in eight parts with two splits are a
  // little slower or faster, never 8 times.
  const double seconds = gemm_seconds(gpu, {.m = 256, .n = 128, .k = 81920});
  CHECK(seconds < 7.0e-3);
  CHECK(seconds > 5.4e-3);  // all ten SMs busy all the time
}

TEST_CASE("a GEMM is never faster than its bytes") {
  Gpu gpu = ten_sms();
  gpu.memory_bandwidth = 1e9;
  const GemmShape shape{.m = 2560, .n = 128, .k = 872};
  // (2560 x 872 + 872 x 128 + 2560 x 128) x 2 B = 5,343,232 B at 1 GB/s
  CHECK(gemm_seconds(gpu, shape) == Approx(5343232e-9));
  GemmShape accumulating = shape;
  accumulating.accumulate = true;
  accumulating.output = Dtype::fp32;
  // D is read and written as fp32: (2,232,320 + 111,616) x 2 + 327,680 x 4 x 2 = 7,309,312
  CHECK(gemm_seconds(gpu, accumulating) == Approx(7309312e-9));
}

TEST_CASE("the kinds of a GEMM's dimensions follow from their names") {
  Plan plan;
  plan.cluster.gpu = ten_sms();
  const Index x = add_buffer(plan, Dtype::bf16, {{"batch", 2}, {"sequence", 64}, {"hidden", 32}});
  const Index w = add_buffer(plan, Dtype::bf16, {{"hidden", 32}, {"ffn", 128}});
  const Index y = add_buffer(plan, Dtype::bf16, {{"batch", 2}, {"sequence", 64}, {"ffn", 128}});
  const Index dw = add_buffer(plan, Dtype::fp32, {{"hidden", 32}, {"ffn", 128}});
  CHECK(gemm_shape(plan, instruction(Opcode::gemm, {x, w}, {y})) ==
        GemmShape{.batch = 1, .m = 128, .n = 128, .k = 32});
  CHECK(gemm_shape(plan, instruction(Opcode::gemm, {y, w}, {x})) ==
        GemmShape{.batch = 1, .m = 128, .n = 32, .k = 128});
  CHECK(gemm_shape(plan, instruction(Opcode::gemm, {x, y}, {dw})) ==
        GemmShape{.batch = 1, .m = 32, .n = 128, .k = 128, .output = Dtype::fp32});
}

TEST_CASE("attention counts what its kernels execute") {
  Plan plan;
  plan.cluster.gpu = ten_sms();
  const Index qkv = add_buffer(
      plan, Dtype::bf16, {{"batch", 2}, {"sequence", 256}, {"kv_heads", 2}, {"qkv", 6}, {"head_dim", 64}});
  const Index context = add_buffer(
      plan, Dtype::bf16, {{"batch", 2}, {"sequence", 256}, {"kv_heads", 2}, {"group", 4}, {"head_dim", 64}});
  Instruction flash = instruction(Opcode::attention, {qkv}, {context});
  flash.function = Function::flash;
  CHECK(attention_shape(plan, flash) == AttentionShape{2, 8, 256, 256, 64, Dtype::bf16});
  // 4 x 2 batch x 8 heads x 256 x 256 x 64
  const double full = 268435456;
  CHECK(kernel_work(plan, flash).flops == full);
  CHECK(kernel_work(plan, flash).bytes == 2 * 256 * 2 * (6 + 4) * 64 * 2);
  flash.causal = true;
  CHECK(kernel_work(plan, flash).flops == full / 2);
  Instruction backward = instruction(Opcode::attention_backward, {context, qkv}, {qkv});
  backward.function = Function::flash;
  CHECK(kernel_work(plan, backward).flops == 2.5 * full);
  Instruction unfused = flash;
  unfused.function = Function::unfused;
  CHECK(kernel_work(plan, unfused).flops == full);
  // Dropout adds a kernel over the 2 x 8 x 256 x 256 scores: 2 B in, 2 B out, 1 B of mask.
  const double without = kernel_work(plan, unfused).bytes;
  unfused.dropout = 0.1F;
  CHECK(kernel_work(plan, unfused).bytes - without == 5.0 * 1048576);
  // In fp32 scores are 4 bytes, the mask is still 1.
  plan.buffers[qkv].dtype = plan.buffers[context].dtype = Dtype::fp32;
  const double wide = kernel_work(plan, unfused).bytes;
  unfused.dropout = 0;
  CHECK(wide - kernel_work(plan, unfused).bytes == 9.0 * 1048576);
  plan.buffers[qkv].dtype = plan.buffers[context].dtype = Dtype::bf16;
  unfused.dropout = 0.1F;
  backward.function = Function::unfused;
  CHECK(kernel_work(plan, backward).flops == 2 * full);
  CHECK(kernel_time(plan, backward) > kernel_time(plan, unfused));
}

TEST_CASE("kernels that move bytes take bytes / bandwidth and a launch") {
  Plan plan;
  plan.cluster.gpu = ten_sms();
  plan.cluster.gpu.memory_bandwidth = 1e12;
  plan.cluster.gpu.memory_efficiency = 0.5;
  plan.cluster.gpu.kernel_launch_s = 2e-6;
  const Index x = add_buffer(plan, Dtype::bf16, {{"tokens", 1000}, {"hidden", 500}});
  const Index tokens = add_buffer(plan, Dtype::int64, {{"tokens", 1000}});
  const Index table = add_buffer(plan, Dtype::bf16, {{"vocab", 100000}, {"hidden", 500}});
  // 1 MB in, 1 MB out at 0.5 TB/s = 4 us, + 2 us
  CHECK(kernel_time(plan, instruction(Opcode::map, {x}, {x})) == 6'000'000);
  // 1 MB of rows read, 1 MB written, 8 kB of indices; not the table's 100 MB
  CHECK(kernel_time(plan, instruction(Opcode::gather, {table, tokens}, {x})) == 6'016'000);
  Instruction scatter = instruction(Opcode::scatter, {x, tokens}, {table});
  scatter.accumulate = true;
  // 1 MB of values, rows read and written, indices: 3.008 MB
  CHECK(kernel_time(plan, scatter) == 8'016'000);
  CHECK(kernel_time(plan, instruction(Opcode::init, {}, {table})) == 0);
  CHECK(kernel_time(plan, instruction(Opcode::free, {table}, {})) == 0);
}

TEST_CASE("ring collectives within a node") {
  const Cluster cluster = two_nodes();
  const GroupShape four{4, 1, 4};
  // 3/4 x 100 MB / 100 GB/s = 750 us, + 3 hops of 1 us
  CHECK(collective_seconds(cluster, Opcode::all_gather, four, 100e6) == Approx(753e-6));
  CHECK(collective_seconds(cluster, Opcode::reduce_scatter, four, 100e6) == Approx(753e-6));
  CHECK(collective_seconds(cluster, Opcode::all_reduce, four, 100e6) == Approx(1506e-6));
  CHECK(collective_seconds(cluster, Opcode::broadcast, four, 100e6) == Approx(1003e-6));
  CHECK(collective_seconds(cluster, Opcode::all_to_all, four, 100e6) == Approx(753e-6));
  CHECK(collective_seconds(cluster, Opcode::all_reduce, {1, 1, 1}, 100e6) == 0);
}

TEST_CASE("collectives across nodes take the cheaper of one ring and two levels") {
  const Cluster cluster = two_nodes();
  const GroupShape eight{8, 2, 4};
  // Ring: B = min(100, 4 x 10) = 40 GB/s: 7/8 x 100 MB / 40 GB/s = 2187.5 us, + 2 crossings of 5 us and 5
  // hops of 1 us. Two levels: 750 us + 3 us within; 1/2 x 25 MB / 10 GB/s = 1250 us + 5 us between; 2008 us.
  CHECK(collective_seconds(cluster, Opcode::all_gather, eight, 100e6) == Approx(2008e-6));
  CHECK(collective_seconds(cluster, Opcode::all_reduce, eight, 100e6) == Approx(4016e-6));
  // Small: two levels have 3 + 5 = 8 us of hops, the ring 15 us.
  CHECK(collective_seconds(cluster, Opcode::all_gather, eight, 0) == Approx(8e-6));
  // One per node: 1/2 x 100 MB / 10 GB/s + one hop
  CHECK(collective_seconds(cluster, Opcode::reduce_scatter, {2, 2, 1}, 100e6) == Approx(5005e-6));
  // All-to-all: 4/8 of 100 MB leaves the node at 10 GB/s; 3 hops within and 4 between.
  CHECK(collective_seconds(cluster, Opcode::all_to_all, eight, 100e6) == Approx(5023e-6));
}

TEST_CASE("groups and transfers lie where the mesh puts them") {
  Plan plan;
  plan.cluster = two_nodes();
  // Stage 0: devices 0-3; stage 1: 4-7, the other node. tp = 2 fastest, dp = 2.
  for (int r = 0; r < 2; ++r) plan.stages.push_back({{{4 * r, 4}}, {{"dense", {{"tp", 2}, {"dp", 2}}}}});
  CHECK(group_shapes(plan, 0, {0, {0}, {}}) == std::vector<GroupShape>{{2, 1, 2}});
  CHECK(group_shapes(plan, 0, {0, {0, 1}, {}}) == std::vector<GroupShape>{{4, 1, 4}});
  CHECK(group_shapes(plan, 0, {0, {}, {0, 1}}) == std::vector<GroupShape>{{2, 2, 1}});
  CHECK(group_shapes(plan, 0, {0, {0, 1}, {0, 1}}) == std::vector<GroupShape>{{8, 2, 4}});
  Communication down;
  down.peer.pipeline_rank = 1;
  CHECK(crosses_nodes(plan, 0, down));
  Communication ring;
  ring.peer.axis = 1;
  ring.peer.offset = 1;
  ring.peer.wrap = true;
  CHECK_FALSE(crosses_nodes(plan, 0, ring));
  plan.cluster.gpus_per_node = 2;
  CHECK(crosses_nodes(plan, 0, ring));  // dp strides over tp pairs: 0 <-> 2
  ring.peer.axis = 0;
  CHECK_FALSE(crosses_nodes(plan, 0, ring));
  // Ranges need not be contiguous: dp pairs 0, 2 and 1, 3 are now on the nodes of 0-1 and 6-7.
  plan.stages[0].devices = {{0, 2}, {6, 2}};
  CHECK(group_shapes(plan, 0, {0, {1}, {}}) == std::vector<GroupShape>{{2, 2, 1}});
  // 1 MB over 10 GB/s + 5 us, over 100 GB/s + 1 us
  CHECK(transfer_seconds(plan.cluster, true, 1e6) == Approx(105e-6));
  CHECK(transfer_seconds(plan.cluster, false, 1e6) == Approx(11e-6));
}

TEST_CASE("durations are those of the cost functions") {
  PlanBuilder b(2);
  const std::uint8_t tp = b.stream("tp", Traffic::tensor);
  const Index x = b.token();
  const std::vector<Instruction> instructions = {b.compute(5, {}, {x}),
                                                 b.compute(6, {}, {x}),
                                                 b.compute(5, {x}, {}),
                                                 b.all_reduce(tp, 12, {x}, {x}),
                                                 b.send(tp, 9, x, 1, 0),
                                                 b.recv(tp, 9, x, 0, 0),
                                                 b.all_reduce_stages(tp, 8, {0, 1}, 3, {x}, {x})};
  Durations durations(b.plan);
  const std::vector<Picoseconds> expected = {5, 6, 5, 12, 9, 9, 8};
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < instructions.size(); ++i)
      CHECK(durations.of(0, instructions[i]) == expected[i]);
}

}  // namespace simrun
