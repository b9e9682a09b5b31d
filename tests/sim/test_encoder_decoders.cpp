#include <catch2/catch.hpp>

#include "models/flops.h"
#include "models/model_graph.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/attention_cost.h"
#include "sim/conv_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::string text(const std::string& model, const std::string& parallelism, int gpus,
                 const std::string& more = "") {
  return "simrun: 1\nmodel: " + model +
         "\ntraining: {seq_length: 256, decoder_seq_length: 64, micro_batch_size: 1, global_batch_size: 16, "
         "precision: bf16" +
         more + "}\nparallelism: " + parallelism +
         "\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n";
}

void runs(const std::string& job) {
  CAPTURE(job);
  const Plan plan = compile(job_from(job));
  CHECK(lint(plan).empty());
  const Summary summary = summarize(plan, simulate(plan));
  CHECK(summary.step_time_s > 0);
  CHECK(summary.mfu > 0);
  CHECK(summary.mfu < 1);
}

const Instruction& first_of(const Plan& plan, Opcode opcode, const std::string& label) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.opcode == opcode && instruction.label == label) return instruction;
  FAIL("no instruction " << label);
  return plan.segments.front().instructions.front();
}

TEST_CASE("T5 and M6 compile, lint and run over data-, tensor- and pipeline-parallel ranks") {
  const std::string split = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}";
  const std::string sequence =
      "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}";
  for (const char* model :
       {"{from: t5-small, num_layers: 2}", "{from: t5-base, num_layers: 2}",
        "{from: t5-large, num_layers: 2}", "{from: models/t5-3b.yaml, num_layers: 2}",
        "{from: models/t5-11b.yaml, num_layers: 2}", "{from: models/m6-10b.yaml, encoder_num_layers: 2}"}) {
    runs(text(model, "{}", 1));
    runs(text(model, "{}", 2));
    runs(text(model, split, 4));
    runs(text(model, sequence, 4));
    runs(text(model, split, 4, ", attention: unfused"));
  }
  runs(text("{from: t5-small}", "{pipeline_model_parallel_size: 4}", 4) + "recompute: {granularity: full}\n");
  runs(text("{from: t5-small, feed_forward_proj: gated-gelu, tie_word_embeddings: false}",
            "{pipeline_model_parallel_size: 4}", 4) +
       "optimizer: {zero_stage: 1}\n");
}

TEST_CASE("GNMT compiles, lints and runs over data- and pipeline-parallel ranks") {
  for (const char* model : {"{from: models/gnmt.yaml}", "{from: models/gnmt-4.yaml}"}) {
    runs(text(model, "{}", 1));
    runs(text(model, "{}", 2));
    runs(text(model, "{pipeline_model_parallel_size: 2}", 4));
    runs(text(model, "{pipeline_model_parallel_size: 4}", 4));
    runs(text(model, "{tensor_model_parallel_size: 2}", 2));
  }
}

TEST_CASE("T5's FLOPs are those of three attentions and two stacks, by hand") {
  const Graph graph = build_graph(job_from(text("{from: t5-small}", "{}", 1)));
  const double d = 512, ff = 2048, s = 256, t = 64, v = 32128, layers = 6;
  const double encoder = layers * s * (4 * d * d + 2 * d * ff + 2 * s * d);
  // Keys and values of cross attention are of the source's rows, queries and projection of the target's.
  const double decoder = layers * (t * (4 * d * d + 2 * d * ff + 2 * t * d) +  // self attention and MLP
                                   t * 2 * d * d + s * 2 * d * d + 2 * t * s * d);
  CHECK(model_flops(graph) == Approx(6 * (encoder + decoder + t * d * v)).epsilon(1e-12));
}

TEST_CASE("cross attention is priced on the source's length: 64 queries see 256 keys") {
  const Plan plan = compile(job_from(text("{from: t5-small}", "{}", 1)));
  const AttentionShape cross = attention_shape(plan, first_of(plan, Opcode::attention, "cross_attention"));
  CHECK(cross.sequence == 64);
  CHECK(cross.key_sequence == 256);
  CHECK(cross.heads == 8);
  const AttentionShape back =
      attention_shape(plan, first_of(plan, Opcode::attention_backward, "cross_attention"));
  CHECK(back == cross);
  CHECK(plan.job.hardware_flops_per_step == Approx(plan.job.model_flops_per_step).epsilon(0.01));
  CHECK(plan.job.tokens_per_step == 16 * (256 + 64));
}

TEST_CASE("an LSTM runs its positions one after another, each with its launches") {
  const Plan plan = compile(job_from(text("{from: models/gnmt.yaml}", "{}", 1)));
  const Instruction& lstm = first_of(plan, Opcode::lstm, "lstm");
  // 256 positions x 1 sequence x 4096 x 1024 multiply-adds.
  CHECK(kernel_work(plan, lstm).flops == 2.0 * 256 * 4096 * 1024);
  const double launches = 256 * 2 * plan.cluster.gpu.kernel_launch_s;
  CHECK(static_cast<double>(kernel_time(plan, lstm)) * 1e-12 > launches);
  // The backward pass begins with the decoder: 64 positions.
  CHECK(kernel_work(plan, first_of(plan, Opcode::lstm_backward, "lstm")).flops == 2.0 * 64 * 4096 * 1024);
  CHECK(plan.job.hardware_flops_per_step == Approx(plan.job.model_flops_per_step).epsilon(0.001));
}

}  // namespace
}  // namespace simrun
