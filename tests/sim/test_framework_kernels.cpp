// What a framework's kernels cost beyond the device's model.
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/plan_file.h"
#include "sim/attention_cost.h"
#include "sim/collective_cost.h"
#include "sim/kernel_cost.h"
#include "sim/row_kernels.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/shapes.h"

namespace simrun {

TEST_CASE("rows that begin at no multiple of 16 bytes cost a product half its rate") {
  const Gpu gpu = plain_gpu();
  // Ten tiles of 256 x 128 with K = 872 + 128: 655.36 us at 1e11 FLOP/s each.
  GemmShape shape{.m = 2560, .n = 128, .k = 872};
  CHECK(gemm_seconds(gpu, shape) == Approx(655.36e-6));
  shape.unaligned = true;
  CHECK(gemm_seconds(gpu, shape) == Approx(2 * 655.36e-6));
  // A batch of them leaves the tensor cores: 0.9 x 1e11 of 1e12 FLOP/s.
  shape.batch = 10;
  shape.m = 256;
  CHECK(gemm_seconds(gpu, shape) == Approx(655.36e-6 / 0.09));
}

TEST_CASE("a framework's products batched over experts run at its share of a single product's rate") {
  const auto seconds = [](std::int64_t experts) {
    Shapes shapes(plain_gpu());
    shapes.plan.framework.kernels.batched_gemm_efficiency = 0.5;
    const Index a = shapes.buffer(Dtype::bf16, {{"experts", experts}, {"capacity", 2560}, {"hidden", 872}});
    const Index b = shapes.buffer(Dtype::bf16, {{"experts", experts}, {"hidden", 872}, {"ffn", 128}});
    const Index d = shapes.buffer(Dtype::bf16, {{"experts", experts}, {"capacity", 2560}, {"ffn", 128}});
    return to_seconds(kernel_time(shapes.plan, Shapes::does(Opcode::gemm, Function::none, {a, b}, {d})));
  };
  CHECK(seconds(1) == Approx(655.36e-6));          // one expert is no batch
  CHECK(seconds(4) == Approx(4 * 2 * 655.36e-6));  // as many waves each, at half the rate
}

TEST_CASE("a product is aligned by the rows of its matrices, not by their single dimensions") {
  Shapes shapes(plain_gpu());
  const auto is_unaligned = [&](std::int64_t heads, std::int64_t head_dim, std::int64_t tokens) {
    const Index x = shapes.buffer(Dtype::bf16, {{"sequence", tokens}, {"hidden", 64}});
    const Index w = shapes.buffer(Dtype::bf16, {{"hidden", 64}, {"kv_heads", heads}, {"head_dim", head_dim}});
    const Index y =
        shapes.buffer(Dtype::bf16, {{"sequence", tokens}, {"kv_heads", heads}, {"head_dim", head_dim}});
    return gemm_shape(shapes.plan, Shapes::does(Opcode::gemm, Function::none, {x, w}, {y})).unaligned;
  };
  CHECK_FALSE(is_unaligned(8, 3, 7));  // rows of 24 elements = 48 B; 7 tokens are rows, not their length
  CHECK(is_unaligned(4, 3, 64));       // 12 elements = 24 B
}

TEST_CASE("what a framework does not fuse runs as PyTorch's operators") {
  Shapes shapes(plain_gpu());
  const Index x = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {"hidden", 1000}});
  const Index weight = shapes.buffer(Dtype::bf16, {{"hidden", 1000}});
  const Index mask = shapes.buffer(Dtype::uint8, {{"tokens", 1000}, {"hidden", 1000}});
  const auto microseconds = [&](const Instruction& what) {
    return static_cast<double>(kernel_time(shapes.plan, what)) * 1e-6;
  };
  const Instruction norm = Shapes::does(Opcode::norm, Function::rms_norm, {x, weight}, {x});
  Instruction add = Shapes::does(Opcode::map, Function::add, {x, weight, x}, {x, mask});
  add.dropout = 0.1F;
  CHECK(microseconds(norm) == Approx(4.002));  // 1e6 elements x 4 B at 1 TB/s, and the weights
  CHECK(microseconds(add) == Approx(7.002));   // two read, one written, a mask
  shapes.plan.framework.kernels.fused_norm = shapes.plan.framework.kernels.fused_residual = false;
  CHECK(microseconds(norm) == Approx(36));  // 6 + 8 + 4 + 8 + 6 + 4 B
  CHECK(kernel_launches(shapes.plan, norm) == 6);
  CHECK(microseconds(add) == Approx(4 + 6 + 5));  // bias, residual, dropout
  shapes.plan.cluster.gpu.kernels.random_numbers = 1e12;
  CHECK(microseconds(add) == Approx(4 + 6 + 5 + 1));
}

// A million elements: 20 operations each take longer than 2 B that are read and written.
TEST_CASE(
    "a bias of queries, keys and values that no product adds takes a kernel, of copied heads' rows as well") {
  Gpu gpu = plain_gpu();
  gpu.special_functions = 0.25e12;
  for (const char* dimension : {"qkv", "qkv_rows"}) {
    Shapes shapes(gpu);
    shapes.plan.framework.kernels.broadcast_operations = 20;
    const Index x = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {"hidden", 500}});
    const Index weight = shapes.buffer(Dtype::bf16, {{"hidden", 500}, {dimension, 1000}});
    const Index bias = shapes.buffer(Dtype::bf16, {{dimension, 1000}});
    const Index y = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {dimension, 1000}});
    const Instruction product = Shapes::does(Opcode::gemm, Function::none, {x, weight, bias}, {y});
    const Picoseconds fused = kernel_time(shapes.plan, product);
    shapes.plan.framework.kernels.fused_qkv_bias = false;
    CHECK(static_cast<double>(kernel_time(shapes.plan, product) - fused) * 1e-6 == Approx(20));
  }
}

TEST_CASE(
    "PyTorch's operators whose operands do not lie alike take the integer operations of their indices") {
  Gpu gpu = plain_gpu();
  gpu.special_functions = 0.25e12;  // a quarter of its integer operations: 1 ps each
  Shapes shapes(gpu);
  FrameworkKernels& framework = shapes.plan.framework.kernels;
  framework.fused_norm = framework.fused_residual = framework.fused_weight_gradient = false;
  framework.fused_cross_entropy = false;
  framework.broadcast_operations = 20;
  framework.broadcast_operations_fp32 = 40;
  const auto microseconds = [&](const Instruction& what) {
    return static_cast<double>(kernel_time(shapes.plan, what)) * 1e-6;
  };
  const Index x = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {"hidden", 1000}});
  const Index weight = shapes.buffer(Dtype::bf16, {{"hidden", 1000}});
  // x 1 / root has a number per row, x weight one per column: 6 + 8 + 4 B, 40 operations, 6 B, 20 operations.
  CHECK(microseconds(Shapes::does(Opcode::norm, Function::rms_norm, {x, weight}, {x})) ==
        Approx(6 + 8 + 4 + 40 + 6 + 20));
  // The bias is of all rows, the residual lies as its sum does.
  CHECK(microseconds(Shapes::does(Opcode::map, Function::add, {x, weight, x}, {x})) == Approx(20 + 6));
  // A million logits: less the largest of the row, exponentials, their sum, divided by it.
  const Index logits = shapes.buffer(Dtype::fp32, {{"tokens", 1000}, {"vocab", 1000}});
  CHECK(microseconds(Shapes::does(Opcode::cross_entropy, Function::none, {logits}, {logits})) ==
        Approx(40 + 8 + 4 + 40));
  // Rope of 500,000 queries and as many keys: x cosines, half negated, joined, x sines, sum.
  framework.fused_rope = false;
  const Index qkv = shapes.buffer(Dtype::bf16, {{"tokens", 500}, {"qkv", 3}, {"hidden", 1000}});
  CHECK(microseconds(Shapes::does(Opcode::map, Function::rope, {qkv}, {qkv})) == Approx(20 + 2 + 4 + 20 + 6));
  const Index dy = shapes.buffer(Dtype::bf16, {{"tokens", 872}, {"ffn", 128}});
  const Index in = shapes.buffer(Dtype::bf16, {{"tokens", 872}, {"hidden", 2560}});
  const Index main = shapes.buffer(Dtype::fp32, {{"hidden", 2560}, {"ffn", 128}});
  Instruction product = Shapes::does(Opcode::gemm, Function::none, {in, dy}, {main});
  product.accumulate = true;
  // A bf16 gradient added to an fp32 one: one wave of tiles, 2560 x 128 x 40 operations.
  CHECK(microseconds(product) == Approx(655.36 + 13.1072));
}

TEST_CASE("PyTorch's own norm is slower than memory and reads twice for the gradient of the weight") {
  Shapes shapes(plain_gpu());
  const Index x = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {"hidden", 1000}});
  const Index weight = shapes.buffer(Dtype::bf16, {{"hidden", 1000}});
  const Instruction forward = Shapes::does(Opcode::norm, Function::layer_norm, {x, weight}, {x});
  const Instruction backward =
      Shapes::does(Opcode::norm_backward, Function::layer_norm, {x, x, weight}, {x, weight});
  const auto microseconds = [&](const Instruction& what) {
    return static_cast<double>(kernel_time(shapes.plan, what)) * 1e-6;
  };
  CHECK(microseconds(forward) == Approx(4.002));   // 1e6 elements x 4 B at 1 TB/s, and the weights
  CHECK(microseconds(backward) == Approx(6.004));  // read: input and gradient; written: gradient
  shapes.plan.framework.kernels.norm_efficiency = 0.5;
  CHECK(microseconds(forward) == Approx(4.002 / 0.5));
  CHECK(microseconds(backward) == Approx((6.004 + 4) / 0.5));
  CHECK(kernel_launches(shapes.plan, backward) == 2);
}

TEST_CASE("a weight gradient that the product does not add itself is read and added behind it") {
  Shapes shapes(plain_gpu());
  const Index x = shapes.buffer(Dtype::bf16, {{"tokens", 872}, {"hidden", 2560}});
  const Index dy = shapes.buffer(Dtype::bf16, {{"tokens", 872}, {"ffn", 128}});
  const Index main = shapes.buffer(Dtype::fp32, {{"hidden", 2560}, {"ffn", 128}});
  Instruction product = Shapes::does(Opcode::gemm, Function::none, {x, dy}, {main});
  product.accumulate = true;
  const Picoseconds fused = kernel_time(shapes.plan, product);
  CHECK(fused == 655'360'000);  // one wave of tiles
  shapes.plan.framework.kernels.fused_weight_gradient = false;
  // 2560 x 128 elements x (2 + 4 + 4) B at 1 TB/s = 3.2768 us
  CHECK(kernel_time(shapes.plan, product) - fused == 3'276'800);
  CHECK(kernel_launches(shapes.plan, product) == 2);
}

TEST_CASE("FlashAttention runs at its own share of the peak, less under a mask and for narrow heads") {
  Shapes shapes(plain_gpu());
  const auto time_of = [&](Opcode opcode, std::int64_t head_dim, bool causal, float dropout) {
    const Index qkv = shapes.buffer(
        Dtype::bf16, {{"batch", 5}, {"sequence", 1280}, {"kv_heads", 1}, {"qkv", 3}, {"head_dim", head_dim}});
    const Index context = shapes.buffer(
        Dtype::bf16,
        {{"batch", 5}, {"sequence", 1280}, {"kv_heads", 1}, {"group", 1}, {"head_dim", head_dim}});
    const bool backward = opcode == Opcode::attention_backward;
    Instruction what = backward ? Shapes::does(opcode, Function::flash, {context, qkv}, {qkv})
                                : Shapes::does(opcode, Function::flash, {qkv}, {context});
    what.causal.on = causal;
    what.dropout = dropout;
    return attention_seconds(shapes.plan, what);
  };
  const auto forward = [&](std::int64_t head_dim, bool causal, float dropout = 0) {
    return time_of(Opcode::attention, head_dim, causal, dropout);
  };
  shapes.plan.framework.kernels.flash_attention = 2;
  shapes.plan.cluster.gpu.kernels.flash[1] = {
      .forward = 0.5, .backward = 0.4, .narrow = 0.8, .masked_keys = 320};
  // 4 x 5 x 1280 x 1280 x 128 FLOPs at 0.5e12; 50 blocks of rows fill ten SMs five times.
  CHECK(forward(128, false) == Approx(4.0 * 5 * 1280 * 1280 * 128 / 0.5e12));
  CHECK(forward(64, false) == Approx(4.0 * 5 * 1280 * 1280 * 64 / 0.4e12));
  // 640 keys on average: 640 / (640 + 320) of the rate, for half of the scores.
  CHECK(forward(128, true) == Approx(forward(128, false) / 2 * 1.5));
  // Dropout draws a number for each score that is computed, half of 5 x 1280 x 1280 under the mask.
  shapes.plan.cluster.gpu.kernels.random_numbers = 1e12;
  CHECK(forward(128, false, 0.1F) - forward(128, false) == Approx(5.0 * 1280 * 1280 / 1e12));
  CHECK(forward(128, true, 0.1F) - forward(128, true) == Approx(5.0 * 1280 * 1280 / 2 / 1e12));
  const double backward = time_of(Opcode::attention_backward, 128, false, 0);
  CHECK(time_of(Opcode::attention_backward, 128, false, 0.1F) - backward == Approx(5.0 * 1280 * 1280 / 1e12));
}

TEST_CASE("short kernels take as long as the host needs to issue them") {
  PlanBuilder builder(1);
  const Index a = builder.token();
  std::vector<Instruction> chain;
  for (int i = 0; i < 10; ++i) chain.push_back(builder.compute(1'000'000, {a}, {a}));  // 1 us
  builder.entry(0, builder.segment(PassKind::forward, chain));
  CHECK(simulate(builder.plan).step == 10'000'000);
  builder.plan.framework.kernels.host_dispatch_s = 5e-6;
  CHECK(simulate(builder.plan).step == 50'000'000);  // 10 x 5 us
  // The host issues ahead of a long kernel: 60 us of kernels, 11 x 5 us of the host.
  chain.insert(chain.begin(), builder.compute(50'000'000, {}, {a}));
  PlanBuilder ahead(1);
  const Index b = ahead.token();
  std::vector<Instruction> longer{ahead.compute(50'000'000, {}, {b})};
  for (int i = 0; i < 10; ++i) longer.push_back(ahead.compute(1'000'000, {b}, {b}));
  ahead.entry(0, ahead.segment(PassKind::forward, longer));
  ahead.plan.framework.kernels.host_dispatch_s = 5e-6;
  CHECK(simulate(ahead.plan).step == 60'000'000);
}

TEST_CASE("what slows a framework's passes stretches them, unless the host does more") {
  PlanBuilder builder(1);
  const Index a = builder.token();
  builder.entry(0, builder.segment(PassKind::forward, {builder.compute(40'000'000, {}, {a}),
                                                       builder.compute(10'000'000, {a}, {a})}));
  builder.plan.framework.kernels.compute_slowdown = 1.1;
  CHECK(simulate(builder.plan).step == 55'000'000);  // 1.1 x 50 us
  builder.plan.framework.kernels.host_dispatch_s = 30e-6;
  CHECK(simulate(builder.plan).step == 60'000'000);  // 2 x 30 us
}

TEST_CASE(
    "exchanges among data-parallel ranks slow the kernels that run beside them, by their share of the pass") {
  const auto step = [](Picoseconds exchange, Traffic traffic, double slowdown) {
    PlanBuilder builder(1);
    const Index a = builder.token(), b = builder.token();
    const std::uint8_t stream = builder.stream("beside", traffic);
    builder.entry(0, builder.segment(PassKind::forward, {builder.all_reduce(stream, exchange, {}, {b}),
                                                         builder.compute(40'000'000, {}, {a}),
                                                         builder.compute(60'000'000, {a}, {a})}));
    builder.plan.framework.kernels.overlap_slowdown = slowdown;
    return simulate(builder.plan).step;
  };
  CHECK(step(50'000'000, Traffic::data, 1) == 100'000'000);
  CHECK(step(50'000'000, Traffic::data, 1.2) == 110'000'000);  // half of the time: 1 + 0.2 / 2
  CHECK(step(0, Traffic::data, 1.2) == 100'000'000);
  CHECK(step(50'000'000, Traffic::tensor, 1.2) == 100'000'000);  // compute waits for those
  CHECK(step(200'000'000, Traffic::data, 1.2) == 200'000'000);   // beside all kernels, 120 us
}

TEST_CASE("where compute waits for collectives, or lends them multiprocessors, they slow no kernel further") {
  const auto step = [](const Override& more, const char* slowdown) {
    const std::vector<Override> overrides{
        {"optimizer.zero_stage", "3"}, more, {"framework.kernels.overlap_slowdown", slowdown}};
    return simulate(compile(preset_job("llama3-8b-8xh100", overrides))).step;
  };
  for (const Override& more :
       {Override{"framework.kernels.blocking_collectives", "true"},
        Override{"cluster.communication", "blocking"}, Override{"cluster.gpu.communication_sms", "20"}})
    CHECK(step(more, "1.5") == step(more, "1"));
  const Override overlapped{"cluster.communication", "overlapped"};
  CHECK(step(overlapped, "1.5") > step(overlapped, "1"));
}

TEST_CASE("waiting for tensor-parallel sums costs what would have run beside them") {
  const auto step = [](const char* blocking) {
    return simulate(compile(job_from(small_gpt(4, 8, 1, 1),
                                     {{"framework.kernels.blocking_tensor_parallel", blocking}})))
        .step;
  };
  CHECK(step("true") > step("false"));
}

TEST_CASE("waiting for every collective costs what would have run beside those of data parallelism") {
  const auto step = [](const char* zero_stage, const char* blocking) {
    return simulate(compile(preset_job("llama3-8b-8xh100",
                                       {{"optimizer.zero_stage", zero_stage},
                                        {"framework.kernels.blocking_collectives", blocking}})))
        .step;
  };
  for (const char* zero_stage : {"1", "3"}) CHECK(step(zero_stage, "true") > step(zero_stage, "false"));
  const auto pipeline = [](const char* blocking) {  // 8 stages of one rank
    const Timeline timeline = simulate(
        compile(job_from(small_gpt(8, 1, 8, 1), {{"framework.kernels.blocking_collectives", blocking}})));
    return static_cast<double>(timeline.step);
  };
  CHECK(pipeline("true") < 1.01 * pipeline("false"));
}

TEST_CASE("a job that names no framework is priced without the coefficients of real runs") {
  CHECK(compile(job_from(small_gpt(4, 2, 1, 1))).cluster.gpu.kernels == GpuKernels{});
  const Plan named = compile(job_from(small_gpt(4, 2, 1, 1), {{"framework", "megatron_2022"}}));
  CHECK(named.cluster.gpu.kernels != GpuKernels{});
  const Plan again = parse_plan(serialize(named), "named.plan");
  CHECK(again.framework == named.framework);
  CHECK(again.cluster == named.cluster);
}

TEST_CASE("ranks that hold parts of a sequence run their framework's kernels as well") {
  const auto step = [](const char* framework) {
    return simulate(compile(preset_job("llama3-8b-8xh100", {{"framework", framework},
                                                            {"parallelism.context_parallel_size", "2"}})))
        .step;
  };
  CHECK(step("nemo_2024") > step("nemo"));  // FlashAttention 2 and 3
}

TEST_CASE("where stages wait for transfers, tensor-parallel ranks send parts of what all of them have") {
  const auto sent = [](const char* blocking, const char* whole = "false") {
    const Plan plan =
        compile(job_from(small_gpt(4, 2, 2, 1), {{"framework.kernels.blocking_pipeline", blocking},
                                                 {"framework.kernels.whole_pipeline_transfers", whole}}));
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions)
        if (what.opcode == Opcode::send) return communicated_bytes(plan, what);
    return 0.0;
  };
  CHECK(sent("false") == 2 * 512 * 1024 * 2);  // micro batch x tokens x hidden x fp16
  CHECK(sent("true") == 2 * 512 * 1024 * 2 / 2);
  CHECK(sent("true", "true") == sent("false"));
}

TEST_CASE("where stages wait for transfers, a ring of context-parallel ranks does not wait for its sends") {
  const auto step = [](const char* blocking) {
    return simulate(compile(preset_job("llama3-8b-8xh100", {{"framework.kernels.blocking_pipeline", blocking},
                                                            {"parallelism.context_parallel_size", "2"}})))
        .step;
  };
  CHECK(step("true") == step("false"));
}

TEST_CASE(
    "rows of experts that are not permuted by one kernel are selected, copied, weighted and scattered") {
  Shapes shapes(plain_gpu());
  Plan& plan = shapes.plan;
  const Index tokens = shapes.buffer(Dtype::bf16, {{"batch", 1}, {"sequence", 500}, {"hidden", 1000}});
  const Index choice = shapes.buffer(Dtype::int32, {{"batch", 1}, {"sequence", 500}, {"topk", 2}});
  const Index weight = shapes.buffer(Dtype::fp32, {{"batch", 1}, {"sequence", 500}, {"topk", 2}});
  const Index rows = shapes.buffer(Dtype::bf16, {{"experts", 8}, {"capacity", 125}, {"hidden", 1000}});
  const auto microseconds = [&](Opcode opcode, Function function, std::vector<Index> inputs,
                                std::vector<Index> outputs) {
    return static_cast<double>(kernel_time(plan, Shapes::does(opcode, function, inputs, outputs))) / 1e6;
  };
  const auto passes = [&] {
    return std::vector{
        microseconds(Opcode::gather, Function::dispatch, {tokens, choice}, {rows}),
        microseconds(Opcode::scatter, Function::dispatch, {rows, choice}, {tokens}),
        microseconds(Opcode::gather, Function::combine, {rows, weight, choice}, {tokens}),
        microseconds(Opcode::scatter, Function::combine, {tokens, rows, weight, choice}, {rows, weight})};
  };
  // Rows are 2 MB, 2 us of 1 TB/s; tokens 1 MB; indices and probabilities 4 kB each.
  CHECK(passes()[0] == Approx(4 + 0.004));
  plan.framework.kernels.fused_permute = false;
  CHECK(passes() == std::vector<double>{4, 1 + 6, 4 + 1 + 6, 4 + 4 + 6 + 2});
  // Four experts of a rank: rows come by rank, and are copied.
  plan.job.expert_parallel = 2;
  CHECK(passes() == std::vector<double>{8, 11, 15, 20});
  // Where all tokens are gathered, rows are of the rank's experts alone, and in their order.
  plan.buffers[rows].split = {"ep", "", ""};
  CHECK(passes()[0] == 4);
  plan.buffers[rows].split.clear();
  plan.job.expert_parallel = 8;
  CHECK(passes()[0] == 4);
  // A million elements are added one by one, 10 operations of 1 ps each, where they have two bytes.
  plan.framework.kernels.scatter_operations = 10;
  plan.cluster.gpu.special_functions = 0.25e12;
  CHECK(passes() == std::vector<double>{4, 1 + 10, 4 + 1 + 10, 4 + 4 + 6 + 2});
  plan.buffers[rows].dtype = plan.buffers[tokens].dtype = Dtype::fp32;
  CHECK(passes()[1] == 2 + 12);
}

TEST_CASE("a product's time grows with its extents by whole tiles and keeps above FLOPs and bytes") {
  const Gpu gpu = plain_gpu();
  const std::int64_t sizes[] = {256, 512, 1024, 4096};
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes) {
        const GemmShape shape{.m = m, .n = n, .k = k};
        const double seconds = gemm_seconds(gpu, shape);
        CHECK(seconds >= gemm_flops(shape) / 1e12);
        CHECK(seconds >= gemm_bytes(shape) / 1e12);
        for (const GemmShape& larger :
             {GemmShape{.m = 2 * m, .n = n, .k = k}, GemmShape{.m = m, .n = 2 * n, .k = k},
              GemmShape{.m = m, .n = n, .k = 2 * k}})
          CHECK(gemm_seconds(gpu, larger) >= seconds);
      }
}

TEST_CASE("products without tensor cores keep their clock under the power limit") {
  Gpu gpu = plain_gpu();
  gpu.peak_flops[Dtype::fp32] = 1e11;
  gpu.kernels.sustained = 0.5;
  CHECK(matmul_flops_per_second(gpu, Dtype::bf16) == 0.5e12);
  CHECK(matmul_flops_per_second(gpu, Dtype::fp32) == 1e11);
}

}  // namespace simrun
