#include <catch2/catch.hpp>

#include "backend/execute.h"
#include "schedules/adafactor_parameters.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/matrix_job_check.h"

// Adafactor of matrices and vectors of which ranks have parts. GPT's key biases have no gradient but what
// rounding leaves, which adafactor divides by its own size: they agree to 1e-5 only, and all else of Llama's
// to 1e-10.
namespace simrun {
namespace {

const std::string adafactor = "name: adafactor, weight_decay: 0.01";
constexpr double rounding = 1e-5;

// Their sinks are divided by heads, and Mamba's vectors by groups.
const char* const gpt_oss =
    "model: {model_type: gpt_oss, num_hidden_layers: 1, hidden_size: 24, intermediate_size: 16, "
    "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 6, vocab_size: 50, num_local_experts: 4, "
    "num_experts_per_tok: 2, sliding_window: 4}\n";

const char* const mamba =
    "model: {model_type: gpt, num_layers: 4, hybrid_override_pattern: \"M-M*\", hidden_size: 24, "
    "ffn_hidden_size: 40, num_attention_heads: 4, num_query_groups: 4, vocab_size: 50, mamba_num_heads: 8, "
    "mamba_head_dim: 6, mamba_state_dim: 5, mamba_num_groups: 4, normalization: RMSNorm, "
    "position_embedding_type: none, disable_bias_linear: true, attention_dropout: 0, hidden_dropout: 0}\n";
const char* const six_heads =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 36, intermediate_size: 42, "
    "num_attention_heads: 6, num_key_value_heads: 3, vocab_size: 50, max_position_embeddings: 12}\n";

Plan plan_of(const MatrixJob& job) {
  return compile(tiny_job({.model = job.model,
                           .parallelism = job.parallelism(),
                           .optimizer = job.optimizer(adafactor),
                           .gpus = job.gpus()}));
}

}  // namespace

TEST_CASE("adafactor adds up its means over the dimension that tensor-parallel ranks divide") {
  for (const bool sequence : {false, true})
    for (const int tp : {2, 4}) {
      check_matrix_jobs(adafactor, {{.model = tiny_llama, .tp = tp, .sequence_parallel = sequence}});
      check_matrix_jobs(adafactor, {{.model = tiny_gpt, .tp = tp, .sequence_parallel = sequence}}, rounding);
    }
}

TEST_CASE("adafactor's means are those of whole matrices under every ZeRO stage") {
  for (const int zero : {1, 2, 3}) {
    check_matrix_jobs(adafactor,
                      {{.model = tiny_llama, .dp = 2, .zero = zero},
                       {.model = tiny_llama, .dp = 4, .zero = zero},
                       {.model = tiny_llama, .tp = 2, .dp = 2, .zero = zero, .sequence_parallel = true},
                       {.model = tiny_llama, .pp = 2, .dp = 2, .zero = zero}});
    check_matrix_jobs(adafactor, {{.model = tiny_gpt, .dp = 4, .zero = zero}}, rounding);
  }
}

TEST_CASE("adafactor is the same on every small layout of tensor, data and pipeline parallelism", "[long]") {
  check_matrix_jobs(adafactor, small_layouts(tiny_llama));
  check_matrix_jobs(adafactor, small_layouts(tiny_gpt), rounding);
}

TEST_CASE(
    "adafactor is the same in buckets of any size, with overlap, and where replicas have equal shards") {
  check_matrix_jobs(
      adafactor,
      {{.model = tiny_llama, .dp = 8, .zero = 1, .further = ", bucket_size: 3000"},
       {.model = tiny_llama, .tp = 2, .dp = 4, .zero = 1, .further = ", bucket_size: 700"},
       {.model = tiny_llama,
        .dp = 2,
        .zero = 1,
        .further = ", overlap_grad_reduce: true, overlap_param_gather: true"},
       {.model = tiny_llama, .dp = 4, .zero = 2, .further = ", num_distributed_optimizer_instances: 2"}});
}

TEST_CASE("adafactor updates experts alone, whichever ranks have parts of them", "[long]") {
  check_expert_matrices(adafactor);
}

TEST_CASE(
    "adafactor clips a vector by the whole, also where context-parallel ranks divide its heads or groups") {
  for (const char* model : {gpt_oss, mamba})
    for (const char* zero : {"0", "1"}) {
      CAPTURE(model, zero);
      const Execution reference =
          checked_run(compile(tiny_job({.model = model, .optimizer = "{" + adafactor + "}"})),
                      ExecutionDevice::cpu_f64, 3);
      const Plan plan = compile(tiny_job({.model = model,
                                          .parallelism = "{context_parallel_size: 2, cp_comm_type: a2a}",
                                          .optimizer = "{" + adafactor + ", zero_stage: " + zero + "}",
                                          .gpus = 4}));
      const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 3);
      check_equal(run, reference, rounding);
      check_memory(plan, run, false);
    }
}

TEST_CASE("adafactor of three tensor-parallel ranks is that of one") {
  check_matrix_jobs(adafactor,
                    {{.model = six_heads, .tp = 3}, {.model = six_heads, .tp = 3, .dp = 2, .zero = 2}});
}

// Fifty words are padded to 128 rows on one rank, and to 256 on two.
TEST_CASE("rows of padding count neither in adafactor's means nor in the norms of its updates") {
  const Plan plan = plan_of({.model = tiny_llama, .tp = 2});
  bool found = false;
  for (const Buffer& buffer : plan.buffers)
    found = found || (buffer.category == Category::weights && buffer.parameter != no_index &&
                      buffer.dims.front().extent == 128);
  CHECK(found);
  check_matrix_jobs(adafactor, {{.model = tiny_llama, .tp = 2}});
}

// What is summed over ranks is needed: without it the parameters are others.
TEST_CASE("every all-reduce of adafactor's is needed for the result") {
  for (const char* label : {"adafactor row sums", "adafactor column sums", "adafactor update norms"}) {
    CAPTURE(label);
    Plan plan = plan_of({.model = tiny_llama, .dp = 2, .zero = 1});
    const Execution whole = checked_run(plan, ExecutionDevice::cpu_f64, 2);
    std::size_t left_out = 0;
    for (Segment& segment : plan.segments)
      left_out += std::erase_if(segment.instructions, [&](const Instruction& what) {
        return what.opcode == Opcode::all_reduce && what.label == label;
      });
    CHECK(left_out > 0);
    const Execution partly = checked_run(plan, ExecutionDevice::cpu_f64, 2);
    CHECK(compare(whole.parameters, partly.parameters, 1e-6).first != "");
  }
}

// Version 22 had four numbers of a parameter, which say nothing of parts.
TEST_CASE("adafactor of an earlier simrun's plan runs on whole matrices, and of parts is refused") {
  const auto as_version_22 = [](Plan plan) {
    for (Segment& segment : plan.segments)
      for (Instruction& what : segment.instructions) {
        if (!tells_parts(what)) continue;
        const std::vector<FactoredParameter> parameters = factored_parameters(what);
        what.constants.resize(7);
        for (const FactoredParameter& of : parameters)
          for (const std::int64_t number : {of.matrices, of.rows, of.columns, std::int64_t{of.columns_first}})
            what.constants.push_back(static_cast<double>(number));
      }
    return plan;
  };
  const Plan whole = plan_of({.model = tiny_llama, .dp = 2});
  const Execution now = checked_run(whole, ExecutionDevice::cpu_f64, 2);
  const Execution before = checked_run(as_version_22(whole), ExecutionDevice::cpu_f64, 2);
  CHECK(compare(before.gradients, now.gradients, 1e-10).first == "");
  // Padding of the table counted in its norm: its rows' updates are clipped less.
  CHECK(compare(before.parameters, now.parameters, 0.02).first == "");
  for (const MatrixJob& job :
       {MatrixJob{.model = tiny_llama, .tp = 2}, MatrixJob{.model = tiny_llama, .dp = 2, .zero = 1}}) {
    const std::vector<std::string> said =
        execution_refusals(as_version_22(plan_of(job)), ExecutionDevice::cpu_f64);
    REQUIRE(!said.empty());
    CHECK(said.front().find("compile the job again") != std::string::npos);
  }
}

}  // namespace simrun
