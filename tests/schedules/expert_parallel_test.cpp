#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "schedules/expert_tables.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Mixtral's layers, two of them, on one node: 8 experts, 2 per token. A rank has 4,096 / tp tokens of 4,096
// hidden elements, so 2 x 4,096 / tp routed rows.
Job mixtral(const std::vector<Override>& overrides) {
  return job_from(
      "simrun: 1\n"
      "model: {from: mixtral-8x7b, num_hidden_layers: 2}\n"
      "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "parallelism: {tensor_model_parallel_size: 2, sequence_parallel: true, expert_model_parallel_size: 4, "
      "expert_tensor_parallel_size: 1}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n",
      overrides);
}

struct Exchanges {
  int count = 0;
  std::int64_t bytes = 0;  // that one GPU has of all of them
};

// Exchanges of a pass that are on the expert-parallel stream.
std::map<Opcode, Exchanges> expert_exchanges(const Plan& plan, PassKind kind) {
  std::map<Opcode, Exchanges> result;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != kind) continue;
    for (const Instruction& what : segment.instructions) {
      if (!is_communication(what.opcode) || plan.streams[what.stream].traffic != Traffic::expert) continue;
      const Buffer& buffer =
          plan.buffers[what.opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0]];
      Exchanges& of = result[what.opcode];
      ++of.count;
      of.bytes += buffer.elements() * bytes_of(buffer.dtype);
    }
    break;
  }
  return result;
}

TEST_CASE("experts: two all-to-alls per layer forward, two backward, of the routed rows each") {
  const Plan plan = compile(mixtral({}));
  CHECK(lint(plan).empty());
  // 2 layers x (dispatch + combine); 2 x 2,048 rows x 4,096 x 2 B = 32 MiB each.
  for (const PassKind kind : {PassKind::forward, PassKind::backward}) {
    const std::map<Opcode, Exchanges> exchanges = expert_exchanges(plan, kind);
    REQUIRE(exchanges.size() == 1);
    CHECK(exchanges.at(Opcode::all_to_all).count == 4);
    CHECK(exchanges.at(Opcode::all_to_all).bytes == 4 * (std::int64_t{32} << 20));
  }
}

TEST_CASE("experts: expert tensor parallelism gathers what arrived and scatters what it made") {
  const Plan plan = compile(mixtral({{"parallelism.expert_tensor_parallel_size", "2"}}));
  CHECK(lint(plan).empty());
  std::map<Opcode, Exchanges> forward = expert_exchanges(plan, PassKind::forward);
  CHECK(forward[Opcode::all_to_all].count == 4);
  CHECK(forward[Opcode::all_gather].count == 2);
  CHECK(forward[Opcode::reduce_scatter].count == 2);
  CHECK(forward[Opcode::all_gather].bytes == 2 * (std::int64_t{64} << 20));  // of two ranks' rows
}

TEST_CASE("experts: their gradients are summed over edp, all others over dp") {
  const auto groups = [](const Plan& plan) {
    std::vector<std::string> causes;
    for (const Communication& c : plan.communications)
      if (c.cause.rfind("gradients: partial sum over", 0) == 0) causes.push_back(c.cause);
    return causes;
  };
  // tp 2 x dp 4 = ep 4 x edp 2.
  const std::vector<std::string> causes = groups(compile(mixtral({})));
  const auto has = [&](const std::string& cause) {
    return std::find(causes.begin(), causes.end(), cause) != causes.end();
  };
  CHECK(has("gradients: partial sum over dp (batch is split)"));
  CHECK(has("gradients: partial sum over edp (batch is split)"));
  // With ep 8 every expert has one copy: nothing to sum.
  for (const std::string& cause : groups(compile(mixtral({{"parallelism.expert_model_parallel_size", "8"}}))))
    CHECK(cause.find("edp") == std::string::npos);
}

TEST_CASE("experts: a rank holds its share of them, whatever the groups span") {
  // 8 experts of 3 x 4,096 x 14,336 x 2 layers in bf16: 5.64 GB on one rank, 1/ep of it on each of ep.
  const auto expert_weights = [](const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.category == Category::weights && buffer.parent != no_index &&
          plan.dimension_names[buffer.dims[0].name] == "experts")
        bytes += buffer.elements() * bytes_of(buffer.dtype);
    return bytes;
  };
  constexpr std::int64_t all = std::int64_t{2} * 8 * 3 * 4096 * 14336 * 2;
  for (const std::int64_t ep : {1, 2, 4, 8})
    CHECK(expert_weights(compile(
              mixtral({{"parallelism.expert_model_parallel_size", std::to_string(ep)}}))) == all / ep);
}

TEST_CASE("experts: every split of ranks compiles and lints with every ZeRO stage and overlap") {
  for (const char* tp : {"1", "2", "4"})
    for (const char* ep : {"1", "2", "8"})
      for (const char* etp : {"1", "2"})
        for (const char* zero : {"0", "1", "3"}) {
          if (std::string(ep) == "8" && std::string(etp) == "2") continue;  // 16 of 8 ranks
          CAPTURE(tp, ep, etp, zero);
          std::vector<Override> overrides{{"parallelism.tensor_model_parallel_size", tp},
                                          {"parallelism.expert_model_parallel_size", ep},
                                          {"parallelism.expert_tensor_parallel_size", etp},
                                          {"optimizer.zero_stage", zero},
                                          {"moe.load_imbalance", "1.5"}};
          if (std::string(zero) == "1") overrides.push_back({"optimizer.overlap_grad_reduce", "true"});
          CHECK(lint(compile(mixtral(overrides))).empty());
        }
}

TEST_CASE("expert loads: a factor is the first rank's, Zipf falls with the expert, a mean of one always") {
  CHECK(expert_loads(mixtral({}), 4) == std::vector<double>{1, 1, 1, 1});
  CHECK(expert_loads(mixtral({{"moe.load_imbalance", "1.75"}}), 4) ==
        std::vector<double>{1.75, 0.75, 0.75, 0.75});
  // Zipf 1 over 8 experts on 2 ranks: (1 + 1/2 + 1/3 + 1/4) / (sum to 1/8 = 2.717857) x 2.
  const std::vector<double> zipf = expert_loads(mixtral({{"moe.zipf", "1"}}), 2);
  CHECK(zipf[0] == Approx(1.533071));
  CHECK(zipf[0] + zipf[1] == Approx(2));
  // A capacity drops and pads: all ranks have the same rows.
  CHECK(expert_loads(mixtral({{"moe.load_imbalance", "1.75"}, {"moe.capacity_factor", "1"}}), 4) ==
        std::vector<double>{1, 1, 1, 1});
}

}  // namespace
}  // namespace simrun
