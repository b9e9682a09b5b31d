// framework.memory.cross_entropy_chunks: head and loss in parts of a microbatch's tokens.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "schedules/compile.h"
#include "sim/framework_buffers.h"
#include "sim/held_memory.h"
#include "sim/kernel_cost.h"
#include "tests/jobs.h"
#include "tests/sim/shapes.h"

namespace simrun {
namespace {

HeldMemory held_of(const Plan& plan) { return held_memory(plan, plan.programs.front(), 0); }

std::int64_t part_of(const HeldMemory& held, const std::string& name) {
  for (const HeldPart& part : held.parts)
    if (part.name == name) return part.bytes;
  return 0;
}

std::set<std::string> chunked_buffers(const Job& job) {
  const Plan plan = compile(job);
  std::set<std::string> names;
  for (const Index buffer : framework_buffers(plan).logits) names.insert(plan.buffers[buffer].name);
  return names;
}

std::string gemma2(const std::string& rest) {
  return "simrun: 1\nframework: {memory: {allocator: caching, cross_entropy_chunks: 8}}\n"
         "model: {from: gemma2-2b}\n"
         "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
         "parallelism: {tensor_model_parallel_size: 2}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n" +
         rest;
}

}  // namespace

TEST_CASE("a cross entropy in two chunks holds half of the logits and of their copies") {
  const auto held = [](const char* chunks) {
    return held_of(
        compile(job_from(small_gpt(4, 1, 1, 1), {{"framework.memory.allocator", "caching"},
                                                 {"training.precision", "bf16"},
                                                 {"training.micro_batch_size", "16"},
                                                 {"training.global_batch_size", "128"},
                                                 {"model.vocab_size", "65536"},
                                                 {"recompute", "{granularity: full}"},
                                                 {"framework.memory.loss_copies", "2"},
                                                 {"framework.memory.cross_entropy_chunks", chunks}})));
  };
  // 16 x 512 tokens of 65,536 fp32 logits, and two copies of them.
  const std::int64_t logits = std::int64_t{4} * 16 * 512 * 65536;
  const HeldMemory whole = held("1"), halves = held("2");
  CHECK(part_of(whole, "loss") == 2 * logits);
  CHECK(part_of(halves, "loss") == logits);
  CHECK(whole.allocated_bytes - halves.allocated_bytes == 3 * logits / 2);
  // In more chunks something else is the most; never more than in fewer.
  CHECK(held("8").allocated_bytes < halves.allocated_bytes);
  CHECK(held("64").allocated_bytes <= held("8").allocated_bytes);
}

TEST_CASE("chunks are of the head's logits, what is made of them, and the gradients of those") {
  CHECK(chunked_buffers(job_from(gemma2(""))) ==
        std::set<std::string>{"logits", "logits_fp32", "logits_soft_cap", "logits_soft_cap_grad",
                              "logits_fp32_grad"});
  // All logits on every tensor-parallel rank: gathered ones, and of their gradient a rank's part, are others.
  const std::string gathered =
      "layout: [{scope: logits_fp32, replicate: [vocab]}, {scope: logits_soft_cap, replicate: [vocab]},\n"
      "  {scope: logits_max, replicate: [vocab]}, {scope: cross_entropy, replicate: [vocab]},\n"
      "  {scope: loss, replicate: [vocab]}]\n";
  const std::set<std::string> names = chunked_buffers(job_from(gemma2(gathered)));
  CHECK(names.contains("logits"));
  CHECK(names.contains("logits_converted"));
  for (const std::string& name : names) CHECK(name.starts_with("logits"));
}

TEST_CASE("the heads of further tokens are chunked as well") {
  const std::set<std::string> names = chunked_buffers(
      job_from("simrun: 1\nframework: {memory: {allocator: caching, cross_entropy_chunks: 8}}\n"
               "model: {from: deepseek-v3, num_hidden_layers: 4, num_nextn_predict_layers: 1}\n"
               "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n"));
  CHECK(names.contains("logits"));
  CHECK(names.contains("mtp_logits"));
}

// 1e6 logits: 2 B each as the head wrote them, 4 B each once they are cast.
TEST_CASE("a loss that is compiled reads logits as the head wrote them, and nothing casts them") {
  Shapes shapes(plain_gpu());
  shapes.plan.job.precision = Dtype::bf16;
  const Index half = shapes.buffer(Dtype::bf16, {{"tokens", 1000}, {"vocab", 1000}});
  const Index wide = shapes.buffer(Dtype::fp32, {{"tokens", 1000}, {"vocab", 1000}});
  const Index row = shapes.buffer(Dtype::fp32, {{"tokens", 1000}});
  const Instruction cast = Shapes::does(Opcode::map, Function::cast, {half}, {wide}),
                    largest = Shapes::does(Opcode::reduce, Function::max, {wide}, {row}),
                    loss = Shapes::does(Opcode::cross_entropy, Function::none, {wide}, {row}),
                    gradient = Shapes::does(Opcode::cross_entropy_backward, Function::none, {wide}, {half});
  const auto microseconds = [&](const Instruction& what) {
    return static_cast<double>(kernel_time(shapes.plan, what)) * 1e-6;
  };
  CHECK(microseconds(cast) == Approx(6));
  CHECK(microseconds(largest) == Approx(4.004));
  CHECK(microseconds(gradient) == Approx(6));
  shapes.plan.framework.memory.logits = LogitsTensors::half;
  CHECK(microseconds(cast) == 0);
  CHECK(kernel_launches(shapes.plan, cast) == 0);
  CHECK(microseconds(largest) == Approx(2.004));
  CHECK(microseconds(loss) == Approx(2.004));
  CHECK(microseconds(gradient) == Approx(4));
  shapes.plan.job.precision = Dtype::fp8;  // of the operands of linear layers, not of the logits
  CHECK(microseconds(largest) == Approx(2.004));
  CHECK(microseconds(gradient) == Approx(4));
  // Of another tensor it says nothing.
  const Index rows = shapes.buffer(Dtype::fp32, {{"tokens", 1000}, {"hidden", 1000}});
  CHECK(microseconds(Shapes::does(Opcode::reduce, Function::max, {rows}, {row})) == Approx(4.004));
}

}  // namespace simrun
