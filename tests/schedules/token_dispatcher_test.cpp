#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/compile.h"
#include "schedules/layout_report.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"

// What every way of sending tokens to their experts moves, by pencil.
namespace simrun {
namespace {

// 32 experts on 2 nodes of 8 GPUs, two on each; all 16 of a token are on one node, so it goes to one node, to
// 8 GPUs there and to 16 experts. A GPU has 1,024 tokens of 1,024 elements of 2 bytes: 2 MiB.
Job two_nodes(const std::string& dispatcher, std::vector<Override> overrides = {}) {
  overrides.insert(overrides.begin(), {"moe.token_dispatcher", dispatcher});
  return job_from(
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 2, hidden_size: 1024, num_attention_heads: 16, vocab_size: "
      "51200, "
      "position_embedding_type: rope, num_experts: 32, moe_router_topk: 16, moe_ffn_hidden_size: 512, "
      "moe_router_num_groups: 2, moe_router_group_topk: 1}\n"
      "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "parallelism: {expert_model_parallel_size: 16}\n"
      "cluster: {from: dgx_h100, nodes: 2}\n",
      overrides);
}

constexpr std::int64_t tokens_bytes = std::int64_t{2} << 20;

// Exchanges of a pass over experts' ranks: (opcode, ranks, bytes of the whole buffer on one GPU) -> how many.
using Exchange = std::tuple<Opcode, std::int64_t, std::int64_t>;
std::map<Exchange, int> exchanges(const Plan& plan, PassKind kind) {
  std::map<Exchange, int> result;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != kind) continue;
    for (const Instruction& what : segment.instructions) {
      if (!is_communication(what.opcode) || plan.streams[what.stream].traffic != Traffic::expert) continue;
      std::int64_t ranks = 1;
      for (const std::uint8_t axis : plan.communications[what.communication].group.axes)
        ranks *= plan.stages[0].meshes[0].axes[axis].size;
      const Buffer& buffer =
          plan.buffers[what.opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0]];
      ++result[{what.opcode, ranks, buffer.elements() * bytes_of(buffer.dtype)}];
    }
    break;
  }
  return result;
}

const std::string causes(const Plan& plan) {
  std::string all;
  for (const Communication& communication : plan.communications) all += communication.cause + "\n";
  return all;
}

}  // namespace

TEST_CASE("alltoall: a copy of every token for every expert, whatever limits its nodes") {
  for (const char* limit : {"1", "2"}) {
    const Plan plan = compile(two_nodes("alltoall", {{"moe.node_limit", limit}}));
    const std::map<Exchange, int> two_per_layer{{{Opcode::all_to_all, 16, 16 * tokens_bytes}, 4}};
    CHECK(exchanges(plan, PassKind::forward) == two_per_layer);
    CHECK(exchanges(plan, PassKind::backward) == two_per_layer);
  }
}

TEST_CASE("deepep: a token once to each of its nodes, there once to each of its GPUs, and back") {
  const Plan plan = compile(two_nodes("deepep"));
  CHECK(lint(plan).empty());
  // Per layer there and back: over 2 nodes 1 copy, over 8 GPUs of a node 8, and none for 16 experts.
  const std::map<Exchange, int> both{{{Opcode::all_to_all, 2, tokens_bytes}, 4},
                                     {{Opcode::all_to_all, 8, 8 * tokens_bytes}, 4}};
  CHECK(exchanges(plan, PassKind::forward) == both);
  CHECK(exchanges(plan, PassKind::backward) == both);
  CHECK(causes(plan).find("ep_outer") != std::string::npos);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

// 16 probabilities of 4 bytes beside 1,024 elements of 2; gradients are of 2 bytes both.
TEST_CASE("deepep: probabilities travel with their rows, and their gradients back, in the same exchanges") {
  const Plan plan = compile(two_nodes("deepep"));
  const auto beside = [&](PassKind kind) {
    std::vector<double> shares;
    for (const Segment& segment : plan.segments) {
      if (segment.kind != kind) continue;
      for (const Instruction& what : segment.instructions)
        if (what.opcode == Opcode::all_to_all && what.inputs.size() == 2) {
          const auto bytes = [&](std::size_t i) {
            return static_cast<double>(plan.buffers[what.inputs[i]].stored_bytes());
          };
          shares.push_back(bytes(1) / bytes(0));
        }
      break;
    }
    return shares;
  };
  // There over nodes and in them, in each of two layers; what comes back is summed and has none.
  CHECK(beside(PassKind::forward) == std::vector<double>(4, 64.0 / 2048));
  CHECK(beside(PassKind::backward) == std::vector<double>(4, 32.0 / 2048));
}

// Else every expert's output, topk rows of a token, would be kept for the gradients of its probabilities.
TEST_CASE("deepep: experts' rows are weighted in front of their second product, with a bias behind it") {
  const auto operands_of_unpermute = [](const Plan& plan) {
    std::set<std::size_t> counts;
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions)
        if (what.label == "unpermute" && what.opcode == Opcode::scatter) counts.insert(what.inputs.size());
    return counts;
  };
  const auto weighs = [](const Plan& plan, Function function) {
    return std::ranges::any_of(plan.segments, [&](const Segment& segment) {
      return std::ranges::any_of(segment.instructions,
                                 [&](const Instruction& what) { return what.function == function; });
    });
  };
  const auto plan_of = [](const char* model) {
    return compile(
        job_from(std::string("simrun: 1\nmodel: {from: ") + model +
                 ", num_hidden_layers: 2}\n"
                 "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
                 "moe: {token_dispatcher: deepep}\nparallelism: {expert_model_parallel_size: 8}\n"
                 "cluster: {from: dgx_h100, nodes: 1}\n"));
  };
  const Plan plan = plan_of("mixtral-8x7b"), biased = plan_of("gpt-oss-20b");
  CHECK(operands_of_unpermute(plan) == std::set<std::size_t>{1});
  CHECK(weighs(plan, Function::weigh_rows));
  CHECK(weighs(plan, Function::weigh_rows_backward));
  CHECK(operands_of_unpermute(biased) == std::set<std::size_t>{3});
  CHECK_FALSE(weighs(biased, Function::weigh_rows));
}

TEST_CASE("deepep: the GPUs of an exchange between nodes have the same number on theirs") {
  const Plan plan = compile(two_nodes("deepep"));
  int exchanges_between_nodes = 0;
  for (const Communication& communication : plan.communications) {
    if (communication.cause.rfind("dispatch:", 0) != 0) continue;
    ++exchanges_between_nodes;
    const Mesh& mesh = plan.stages[0].meshes[communication.group.mesh];
    std::int64_t stride = 1;
    for (std::size_t axis = 0; axis < communication.group.axes.front(); ++axis)
      stride *= mesh.axes[axis].size;
    CHECK(stride == 8);
  }
  CHECK(exchanges_between_nodes > 0);
}

TEST_CASE("deepep: experts on one node have no exchange between nodes; one per node none inside") {
  // ep 8: 4 experts on a GPU, 16 of 32 of them: a GPU is missed by (C(12,16) = 0 of) one group, so all 4 of
  // the group's GPUs are reached.
  const Plan inside = compile(two_nodes("deepep", {{"parallelism.expert_model_parallel_size", "8"}}));
  CHECK(lint(inside).empty());
  CHECK(exchanges(inside, PassKind::forward) ==
        std::map<Exchange, int>{{{Opcode::all_to_all, 8, 4 * tokens_bytes}, 4}});
  // A node's 8 GPUs split each expert of its 16: its ranks' tokens go once to a node and are gathered there.
  const Plan between = compile(two_nodes("deepep", {{"parallelism.expert_model_parallel_size", "2"},
                                                    {"parallelism.expert_tensor_parallel_size", "8"}}));
  CHECK(lint(between).empty());
  CHECK(exchanges(between, PassKind::forward) ==
        std::map<Exchange, int>{{{Opcode::all_to_all, 2, tokens_bytes}, 4},
                                {{Opcode::all_gather, 8, 8 * tokens_bytes}, 2},
                                {{Opcode::reduce_scatter, 8, 8 * tokens_bytes}, 2}});
}

TEST_CASE("deepep with one expert-parallel rank is the plan of alltoall") {
  const auto instructions = [](const char* dispatcher) {
    const Plan plan = compile(two_nodes(dispatcher, {{"parallelism.expert_model_parallel_size", "1"}}));
    return plan.segments;
  };
  CHECK(instructions("deepep") == instructions("alltoall"));
}

TEST_CASE("allgather: every rank of an expert group gets all its tokens once, and sums are scattered") {
  const Plan plan = compile(two_nodes("allgather"));
  CHECK(lint(plan).empty());
  // Of 16 ranks' tokens, and 16 probabilities and indices of 4 bytes of each; backward the sums' gradients
  // are gathered, those of tokens and of probabilities scattered.
  constexpr std::int64_t routing = std::int64_t{16} * 1024 * 16 * 4;
  CHECK(exchanges(plan, PassKind::forward) ==
        std::map<Exchange, int>{{{Opcode::all_gather, 16, 16 * tokens_bytes}, 2},
                                {{Opcode::all_gather, 16, routing}, 4},
                                {{Opcode::reduce_scatter, 16, 16 * tokens_bytes}, 2}});
  const std::map<Exchange, int> backward = exchanges(plan, PassKind::backward);
  CHECK(backward.at({Opcode::all_gather, 16, 16 * tokens_bytes}) == 2);
  CHECK(backward.at({Opcode::reduce_scatter, 16, 16 * tokens_bytes}) == 2);
  CHECK(backward.size() == 3);  // and the probabilities' gradients, in bf16 as all are
  CHECK(backward.at({Opcode::reduce_scatter, 16, routing / 2}) == 2);
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("allgather: with expert tensor parallelism the group is expert x expert tensor, once") {
  // tp 4 with sequence parallelism: a rank has 256 tokens; etp 2 x ep 8 ranks together 4,096, 8 MiB.
  const Plan plan = compile(two_nodes("allgather", {{"parallelism.tensor_model_parallel_size", "4"},
                                                    {"parallelism.sequence_parallel", "true"},
                                                    {"parallelism.expert_model_parallel_size", "8"},
                                                    {"parallelism.expert_tensor_parallel_size", "2"}}));
  CHECK(lint(plan).empty());
  constexpr std::int64_t gathered = 4 * tokens_bytes;
  std::map<Exchange, int> forward = exchanges(plan, PassKind::forward);
  CHECK(forward[{Opcode::all_gather, 16, gathered}] == 2);
  CHECK(forward[{Opcode::reduce_scatter, 16, gathered}] == 2);
  for (const PassKind kind : {PassKind::forward, PassKind::backward})
    for (const auto& [exchange, count] : exchanges(plan, kind))
      CHECK(std::get<0>(exchange) != Opcode::all_reduce);
}

TEST_CASE("every dispatcher compiles and lints over every split of ranks, even and uneven") {
  struct Split {
    const char *tp, *cp, *ep, *etp;
  };
  for (const char* dispatcher : {"alltoall", "allgather", "deepep"})
    for (const Split& split : std::vector<Split>{{"1", "1", "16", "1"},
                                                 {"2", "1", "16", "1"},
                                                 {"8", "1", "16", "1"},
                                                 {"2", "2", "8", "1"},
                                                 {"4", "1", "4", "2"},
                                                 {"2", "1", "2", "8"},
                                                 {"8", "1", "4", "4"},
                                                 {"1", "4", "8", "2"}})
      for (const char* zero : {"0", "1", "3"})
        for (const char* load : {"load_imbalance", "zipf"}) {
          CAPTURE(dispatcher, split.tp, split.cp, split.ep, split.etp, zero, load);
          const Plan plan =
              compile(two_nodes(dispatcher, {{"parallelism.tensor_model_parallel_size", split.tp},
                                             {"parallelism.sequence_parallel", "true"},
                                             {"parallelism.context_parallel_size", split.cp},
                                             {"parallelism.expert_model_parallel_size", split.ep},
                                             {"parallelism.expert_tensor_parallel_size", split.etp},
                                             {std::string("moe.") + load, "1.5"},
                                             {"optimizer.zero_stage", zero}}));
          CHECK(lint(plan).empty());
        }
}

TEST_CASE("deepep: the first node's load is the mean of its GPUs'") {
  // The busiest of 16 GPUs has 1.75 of the mean, each other 14.25 / 15 = 0.95: the nodes 1.05 and 0.95.
  const Plan plan = compile(two_nodes("deepep", {{"moe.load_imbalance", "1.75"}}));
  std::set<std::vector<std::int64_t>> tables;
  for (const ExtentTable& table : plan.extent_tables) tables.insert(table.values);
  // 16 x 1,024 tokens, once to a node: 512 rows per expert, of which each of a node's 8 GPUs takes in 64.
  CHECK(tables.contains({67, 61}));
}

TEST_CASE("deepep: a busy GPU gets a token once, so at most all tokens, however many go to its experts") {
  // 8 of 16 experts, two on each of 8 GPUs: one is missed by C(14,8) / C(16,8) = 7/30 of the tokens. Twice
  // the mean load would be 46/30 of them.
  const Job job = two_nodes("deepep", {{"model.num_experts", "16"},
                                       {"model.moe_router_topk", "8"},
                                       {"model.moe_router_num_groups", "1"},
                                       {"parallelism.expert_model_parallel_size", "8"},
                                       {"moe.load_imbalance", "2"}});
  const Plan plan = compile(job);
  CHECK(lint(plan).empty());
  std::int64_t most = 0;
  for (const Buffer& buffer : plan.buffers)
    for (const BufferDim& dim : buffer.dims)
      if (dim.table >= 0 && plan.dimension_names[dim.name] == "gpu_rows")
        most = std::max(most, dim.extent * buffer.dims[0].extent);
  // 8 GPUs' 1,024 tokens, but for whole rows per expert.
  CHECK(static_cast<double>(most) == Approx(8 * 1024).epsilon(0.01));
}

TEST_CASE("--print-layout tells both exchanges of deepep apart") {
  const LayoutReport report = layout_report(two_nodes("deepep"));
  std::map<std::string, int> axes;
  for (const LayoutPart& part : report.parts)
    for (const OperatorLayout& row : part.operators)
      for (const LayoutTransfer& transfer : row.transfers)
        if (transfer.operation == "all_to_all") ++axes[transfer.axes];
  CHECK(axes == std::map<std::string, int>{{"ep_inner", 4}, {"ep_outer", 4}});
}

}  // namespace simrun
