#include <catch2/catch.hpp>

#include "sim/attention_cost.h"
#include "sim/collective_cost.h"
#include "sim/durations.h"
#include "sim/exchange_groups.h"
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
  flash.causal.on = true;
  CHECK(kernel_work(plan, flash).flops == full / 2);
  // A window of 64 of 256: 64 x 64 / 2 + 192 x 64 = 14336 scores of 65536, a share of 0.21875.
  flash.causal.window = 64;
  CHECK(kernel_work(plan, flash).flops == 0.21875 * full);
  flash.causal.window = 256;  // and one that is no shorter than the sequence hides nothing
  CHECK(kernel_work(plan, flash).flops == full / 2);
  // Chunks of 96: two and a rest of 64, (2 x 96 x 96 + 64 x 64) / 2 = 11264 scores of 65536.
  flash.causal = {true, 96, true};
  CHECK(kernel_work(plan, flash).flops == 0.171875 * full);
  flash.causal = {true, 64};
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

TEST_CASE("groups and transfers lie where the mesh puts them") {
  using Instances = std::vector<std::vector<std::int64_t>>;
  Plan plan;
  plan.cluster = two_nodes();
  // Stage 0: devices 0-3; stage 1: 4-7, the other node. tp = 2 fastest, dp = 2.
  for (int r = 0; r < 2; ++r) plan.stages.push_back({{{4 * r, 4}}, {{"dense", {{"tp", 2}, {"dp", 2}}}}});
  CHECK(group_instances(plan, 0, {0, {0}, {}}) == Instances{{0, 1}, {2, 3}});
  CHECK(group_instances(plan, 1, {0, {1}, {}}) == Instances{{4, 6}, {5, 7}});
  CHECK(group_instances(plan, 0, {0, {0, 1}, {}}) == Instances{{0, 1, 2, 3}});
  CHECK(group_instances(plan, 0, {0, {}, {0, 1}}) == Instances{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(group_instances(plan, 0, {0, {0, 1}, {1, 0}}) == Instances{{0, 1, 2, 3, 4, 5, 6, 7}});
  CHECK(instance_of_devices(plan, 1, {0, {1}, {}}) == std::vector<Index>{0, 1, 0, 1});
  CHECK(instance_of_devices(plan, 1, {0, {}, {0, 1}}) == std::vector<Index>{0, 1, 2, 3});
  // Ranges need not be contiguous: dp pairs are now 0, 6 and 1, 7.
  plan.stages[0].devices = {{6, 2}, {0, 2}};
  CHECK(group_instances(plan, 0, {0, {1}, {}}) == Instances{{0, 6}, {1, 7}});
  CHECK(device_count(plan, 0) == 4);
  CHECK(device_at(plan, 0, 1) == 7);
  CHECK(device_at(plan, 0, 2) == 0);
}

TEST_CASE("a transfer's other end has the same coordinates, or is a step along an axis, or in a map") {
  Plan plan;
  plan.cluster = two_nodes();
  plan.stages.push_back({{{0, 4}}, {{"dense", {{"tp", 2}, {"dp", 2}}}}});
  plan.stages.push_back({{{4, 3}}, {{"dense", {{"tp", 3}}}}});
  const auto peers = [&](const Communication& communication) {
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < 4; ++i) found.push_back(peer_of(plan, 0, communication, i));
    return found;
  };
  Communication down;
  down.peer.pipeline_rank = 1;
  CHECK(peers(down) == std::vector<std::int64_t>{4, 5, 6, -1});  // stage 1 has only three
  down.peer.coordinate_map = {2, 0, -1};
  CHECK(peers(down) == std::vector<std::int64_t>{6, 4, -1, -1});
  Communication ring;
  ring.peer.axes = {1};
  ring.peer.offset = 1;
  CHECK(peers(ring) == std::vector<std::int64_t>{2, 3, -1, -1});
  ring.peer.wrap = true;
  CHECK(peers(ring) == std::vector<std::int64_t>{2, 3, 0, 1});
  // Two axes as one, the first outermost: ranks in the order 0, 2, 1, 3.
  ring.peer.axes = {0, 1};
  CHECK(peers(ring) == std::vector<std::int64_t>{2, 3, 1, 0});
  ring.peer.offset = -1;
  CHECK(peers(ring) == std::vector<std::int64_t>{3, 2, 0, 1});
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
                                                 b.recv(tp, 9, x, 1, 0),
                                                 b.all_reduce_stages(tp, 8, {0, 1}, 3, {x}, {x})};
  Durations durations(b.plan);
  const std::vector<Picoseconds> expected = {5, 6, 5, 12, 9, 9, 8};
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < instructions.size(); ++i)
      CHECK(durations.of(0, instructions[i]) == expected[i]);
}

namespace {

// Two stages of `per_stage` GPUs on nodes of four; links of 1 B/ps without latency, between nodes a tenth of
// that.
Plan two_stages(std::int64_t nodes, std::int64_t per_stage, std::vector<Axis> axes) {
  Plan plan;
  plan.cluster.nodes = nodes;
  plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 4;
  plan.cluster.intra_node = {1e12, 0, 1};
  plan.cluster.inter_node = {1e11, 0, 1};
  plan.dimension_names = {"bytes"};
  for (int r = 0; r < 2; ++r) plan.stages.push_back({{{r * per_stage, per_stage}}, {{"dense", axes}}});
  return plan;
}

Instruction communicate(Plan& plan, Opcode opcode, std::int64_t bytes, const Communication& communication) {
  const Index buffer = add_buffer(plan, Dtype::uint8, {{"bytes", bytes}});
  Instruction what = instruction(opcode, {buffer}, {buffer});
  what.communication = static_cast<Index>(plan.communications.size());
  plan.communications.push_back(communication);
  return what;
}

}  // namespace

TEST_CASE("all instances of a collective run at once and share NICs") {
  Plan plan = two_stages(2, 8, {{"tp", 4}, {"dp", 2}});
  plan.stages.pop_back();
  Communication over_dp;
  over_dp.group.axes = {1};
  const Instruction reduce = communicate(plan, Opcode::all_reduce, 1000, over_dp);
  // Four pairs over the nodes, each GPU with its own NIC: 2 x 1/2 x 1000 B at 0.1 B/ps
  Durations own(plan);
  CHECK(own.of(0, reduce) == 10'000);
  CHECK(own.uniform());
  // One NIC for all four.
  plan.cluster.nics_per_node = 1;
  Durations shared(plan);
  CHECK(shared.of(0, reduce) == 40'000);
  CHECK(shared.instance_time(0, reduce, {5, 1000}) == 40'000);
  CHECK(shared.uniform());  // alone they are alike
  CHECK(communication_time(plan, 0, reduce) == 40'000);
}

TEST_CASE("pairs of one transfer of which some cross nodes differ, and no GPU stands for its stage") {
  Plan plan = two_stages(2, 3, {{"tp", 3}});  // devices 0-2 and 3-5: only 0 -> 3 stays on its node
  Communication down;
  down.peer.pipeline_rank = 1;
  down.channel = 0;
  const Instruction send = communicate(plan, Opcode::send, 1000, down);
  Durations durations(plan);
  CHECK(durations.of(0, send) == 10'000);
  CHECK(durations.instance_time(0, send, {0, 1000}) == 1'000);
  CHECK(durations.instance_time(0, send, {1, 1000}) == 10'000);
  CHECK_FALSE(durations.uniform());
  Communication up;
  up.peer.pipeline_rank = 0;
  const Instruction recv = communicate(plan, Opcode::recv, 1000, up);
  CHECK(durations.instance_time(1, recv, {0, 1000}) == 1'000);
  CHECK(durations.instance_time(1, recv, {2, 1000}) == 10'000);
}

TEST_CASE("collectives of which some cross nodes differ by instance") {
  Plan plan = two_stages(2, 6, {{"tp", 2}, {"dp", 3}});  // pairs 0 1, 2 3, 4 5 of one stage of six
  plan.stages.pop_back();
  plan.stages[0].devices = {{0, 3}, {4, 3}};  // 0 1, 2 4, 5 6
  Communication over_tp;
  over_tp.group.axes = {0};
  const Instruction gather = communicate(plan, Opcode::all_gather, 1000, over_tp);
  Durations durations(plan);
  CHECK(durations.of(0, gather) == 5'000);  // 1/2 x 1000 B at 0.1 B/ps
  for (const std::int64_t i : {0, 1, 4, 5}) CHECK(durations.instance_time(0, gather, {i, 1000}) == 500);
  for (const std::int64_t i : {2, 3}) CHECK(durations.instance_time(0, gather, {i, 1000}) == 5'000);
  CHECK_FALSE(durations.uniform());
}

TEST_CASE("a group over pipeline ranks has one time on all of them") {
  Plan plan = two_stages(4, 8, {{"tp", 4}, {"dp", 2}});
  Communication ends;
  ends.group.pipeline_ranks = {0, 1};
  ends.channel = 0;
  const Instruction reduce = communicate(plan, Opcode::all_reduce, 1000, ends);
  Durations durations(plan);
  CHECK(durations.of(0, reduce) == 10'000);
  CHECK(durations.of(1, reduce) == 10'000);
  CHECK(durations.instance_time(1, reduce, {7, 1000}) == 10'000);
  CHECK(durations.uniform());
}

TEST_CASE("the cheaper of ring and two levels depends on the bytes, priced once for each") {
  Plan plan = two_stages(2, 8, {{"tp", 8}});
  plan.stages.pop_back();
  plan.cluster.intra_node = {1.2e11, 1e-6, 1};
  plan.cluster.inter_node = {1e11, 1e-3, 1};
  Communication all;
  all.group.axes = {0};
  const Topology topology(plan.cluster);
  Durations durations(plan);
  std::vector<std::int64_t> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1'000'000}, std::int64_t{10'000'000'000}}) {
    const Instruction gather = communicate(plan, Opcode::all_gather, bytes, all);
    const auto size = static_cast<double>(bytes);
    const ExchangeFlows flows = collective_flows(topology, plan.cluster, Opcode::all_gather, devices, size);
    CHECK(Durations(plan).of(0, gather) == to_picoseconds(lockstep_seconds(topology, {&flows, 1}, size)));
    // Two levels have one slow hop, the ring two, but the ring is faster on many bytes.
    CHECK(flows.size() == (bytes > 1'000'000'000 ? 1 : 2));
  }
}

TEST_CASE("a job's collectives take the algorithm and protocol of their own size") {
  Plan plan = two_stages(2, 8, {{"tp", 8}});
  plan.stages.pop_back();
  plan.cluster.intra_node = {1.2e11, 1e-6, 1};
  plan.cluster.inter_node = {1e11, 5e-6, 1};
  using enum CollectiveAlgorithm;
  plan.cluster.collectives.paces = {
      {{ring, CollectiveProtocol::ll}, {.base_s = 1e-6, .network_s = 6e-6, .efficiency = 0.25}},
      {{ring, CollectiveProtocol::simple}, {.base_s = 9e-6, .network_s = 14e-6}},
      {{tree, CollectiveProtocol::ll}, {.base_s = 1e-6, .network_s = 7e-6, .efficiency = 0.2}}};
  Communication all;
  all.group.axes = {0};
  const Topology topology(plan.cluster);
  Durations durations(plan);
  const std::vector<std::int64_t> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<CollectiveChoice> taken;
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{2'000'000}, std::int64_t{10'000'000'000}}) {
    const Instruction reduce = communicate(plan, Opcode::all_reduce, bytes, all);
    const auto size = static_cast<double>(bytes);
    const TunedCollective tuned = tuned_collective(topology, plan.cluster, Opcode::all_reduce, devices, size);
    taken.push_back(tuned.choice);
    CHECK(Durations(plan).of(0, reduce) ==
          to_picoseconds(lockstep_seconds(topology, {&tuned.flows, 1}, size)));
  }
  CHECK(taken.front().algorithm == tree);
  CHECK(taken.back() == CollectiveChoice{ring, CollectiveProtocol::simple});
}

}  // namespace simrun
