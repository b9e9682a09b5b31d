#include "backend/cuda/nccl_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/pipeline_schedule.h"
#include "tests/backend/tiny_jobs.h"
#include "tests/context_jobs.h"

// The calls of NCCL that a plan becomes fit together: members call alike, what is sent is received, and no
// order of arrival makes ranks wait for each other.
namespace simrun {
namespace {

using cuda::NcclCall;
using cuda::NcclCommunicator;
using cuda::NcclGroupOfCalls;
using cuda::NcclKind;

bool is_transfer(NcclKind kind) { return kind == NcclKind::send || kind == NcclKind::recv; }

// Ranks that come to their groups of calls one after the other, each group complete before the next begins:
// the strictest that NCCL may be (one stream, rendezvous, no buffers).
class Rendezvous {
 public:
  explicit Rendezvous(std::vector<std::vector<NcclGroupOfCalls>> ranks)
      : ranks_(std::move(ranks)), at_(ranks_.size(), 0) {}

  // Empty, or who cannot go on.
  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::vector<std::size_t> together = ready(rank);
        for (const std::size_t member : together) ++at_[member];
        moved |= !together.empty();
        if (!fault_.empty()) return fault_;
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (at_[rank] < ranks_[rank].size())
        return "rank " + std::to_string(rank) + " waits at its call " + std::to_string(at_[rank]);
    return "";
  }

 private:
  const NcclGroupOfCalls* front(std::size_t rank) const {
    return at_[rank] < ranks_[rank].size() ? &ranks_[rank][at_[rank]] : nullptr;
  }
  // The ranks whose next groups complete one another, with this one; none: it has to wait.
  std::vector<std::size_t> ready(std::size_t rank) {
    std::set<std::size_t> together{rank};
    for (std::vector<std::size_t> open{rank}; !open.empty();) {
      const std::size_t of = open.back();
      open.pop_back();
      const NcclGroupOfCalls* group = front(of);
      if (group == nullptr || group->communicator != front(rank)->communicator) return {};
      for (const std::size_t partner : partners(*group))
        if (together.insert(partner).second) open.push_back(partner);
    }
    if (front(rank) == nullptr) return {};
    check_alike(together);
    return {together.begin(), together.end()};
  }
  static std::vector<std::size_t> partners(const NcclGroupOfCalls& group) {
    const std::vector<std::int64_t>& ranks = group.communicator.ranks;
    std::vector<std::size_t> result;
    for (const NcclCall& call : group.calls) {
      if (is_transfer(call.kind))
        result.push_back(static_cast<std::size_t>(ranks.at(static_cast<std::size_t>(call.peer))));
      else
        for (const std::int64_t member : ranks) result.push_back(static_cast<std::size_t>(member));
    }
    return result;
  }
  // Collectives in the same order; of each pair what one sends the other receives, in order.
  void check_alike(const std::set<std::size_t>& together) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::pair<Dtype, std::int64_t>>> sent,
        received;
    std::vector<NcclCall> collectives;
    for (const std::size_t rank : together) {
      const NcclGroupOfCalls& group = *front(rank);
      std::vector<NcclCall> own;
      for (const NcclCall& call : group.calls) {
        if (!is_transfer(call.kind)) {
          own.push_back(call);
          continue;
        }
        const auto self = static_cast<std::int64_t>(rank);
        const std::int64_t peer = group.communicator.ranks[static_cast<std::size_t>(call.peer)];
        if (call.kind == NcclKind::send)
          sent[{self, peer}].emplace_back(call.dtype, call.count);
        else
          received[{peer, self}].emplace_back(call.dtype, call.count);
      }
      if (rank == *together.begin()) collectives = own;
      if (group.tag != front(*together.begin())->tag)
        fault_ = "rank " + std::to_string(rank) + " is elsewhere";
      if (own != collectives) fault_ = "rank " + std::to_string(rank) + " calls another collective";
    }
    if (sent != received) fault_ = "what is sent is not what is received";
  }

  std::vector<std::vector<NcclGroupOfCalls>> ranks_;
  std::vector<std::size_t> at_;
  std::string fault_;
};

struct Counted {
  std::int64_t calls[5] = {};
  std::int64_t of(NcclKind kind) const { return calls[static_cast<int>(kind)]; }
};

Counted check_calls(const Plan& plan) {
  REQUIRE(lint(plan) == std::vector<std::string>{});
  const std::vector<NcclCommunicator> communicators = cuda::nccl_communicators(plan);
  Counted counted;
  for (const std::int64_t step : {0, 1}) {
    std::vector<std::vector<NcclGroupOfCalls>> ranks;
    for (const RankPlace& place : ranks_of(plan)) {
      ranks.push_back(cuda::nccl_calls(plan, place, step));
      for (const NcclGroupOfCalls& group : ranks.back()) {
        CHECK(std::count(communicators.begin(), communicators.end(), group.communicator) == 1);
        CHECK(std::count(group.communicator.ranks.begin(), group.communicator.ranks.end(), place.rank) == 1);
        for (const NcclCall& call : group.calls) ++counted.calls[static_cast<int>(call.kind)];
      }
    }
    CHECK(Rendezvous(std::move(ranks)).run() == "");
  }
  CHECK(counted.of(NcclKind::send) == counted.of(NcclKind::recv));
  return counted;
}

}  // namespace

TEST_CASE("NCCL: two data-parallel ranks call one all-reduce over all gradients, alike") {
  const Plan plan = compile(tiny_job({.gpus = 2}));
  CHECK(cuda::nccl_communicators(plan) ==
        std::vector<NcclCommunicator>{{NcclCommunicator::Use::collectives, {0, 1}}});
  const std::vector<NcclGroupOfCalls> calls = cuda::nccl_calls(plan, ranks_of(plan)[1], 0);
  std::int64_t largest = 0, parameters = 0;
  for (const NcclGroupOfCalls& group : calls)
    for (const NcclCall& call : group.calls) {
      CHECK(call.kind == NcclKind::all_reduce);
      largest = std::max(largest, call.count);
    }
  for (const Chunk& chunk : plan.chunks) parameters += chunk.parameters;
  CHECK(largest == parameters + (128 - 50) * 24);  // the vocabulary is padded to 128 rows of 24
}

TEST_CASE("NCCL: pipeline ranks have a communicator per edge and direction") {
  const Plan plan = compile(tiny_job({.parallelism = "{pipeline_model_parallel_size: 2}", .gpus = 2}));
  const std::vector<NcclCommunicator> communicators = cuda::nccl_communicators(plan);
  const auto has = [&](NcclCommunicator::Use use, std::vector<std::int64_t> ranks) {
    return std::count(communicators.begin(), communicators.end(), NcclCommunicator{use, std::move(ranks)});
  };
  CHECK(has(NcclCommunicator::Use::edge, {0, 1}) == 1);
  CHECK(has(NcclCommunicator::Use::edge, {1, 0}) == 1);
  // 8 microbatches forward and 8 backward, two steps.
  CHECK(check_calls(plan).of(NcclKind::send) == 32);
}

TEST_CASE("NCCL: shards of ZeRO are gathered and scattered by NCCL's own collectives") {
  for (const char* stage : {"1", "2", "3"}) {
    CAPTURE(stage);
    const Counted counted = check_calls(compile(
        tiny_job({.model = tiny_llama, .optimizer = "{zero_stage: " + std::string(stage) + "}", .gpus = 4})));
    CHECK(counted.of(NcclKind::all_gather) > 0);
    CHECK(counted.of(NcclKind::reduce_scatter) > 0);
    CHECK(counted.of(NcclKind::send) == 0);
  }
}

TEST_CASE("NCCL: sequence-parallel gathers and scatters along the sequence are NCCL's own") {
  const Counted counted = check_calls(compile(
      tiny_job({.parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}", .gpus = 2})));
  CHECK(counted.of(NcclKind::all_gather) > 0);
  CHECK(counted.of(NcclKind::reduce_scatter) > 0);
  CHECK(counted.of(NcclKind::send) == 0);
}

TEST_CASE("NCCL: every schedule's calls meet, at every sharding of the optimizer") {
  int plans = 0;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.name == "seq1f1b" || entry.name == "pipedream") continue;
    for (const int virtual_stages : {1, 2})
      for (const char* zero : {"0", "1"}) {
        CAPTURE(entry.name, virtual_stages, zero);
        PipelineShape shape;
        shape.ranks = 2;
        shape.virtual_stages = virtual_stages;
        shape.microbatches = 4;
        if (!entry.refusal(shape).empty()) continue;
        Plan plan;
        try {
          plan = compile(
              tiny_job({.parallelism = "{pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2, "
                                       "pipeline_schedule: " +
                                       entry.name + ", virtual_pipeline_model_parallel_size: " +
                                       std::to_string(virtual_stages) + "}",
                        .optimizer = "{zero_stage: " + std::string(zero) + "}",
                        .gpus = 8}));
        } catch (const std::exception&) {
          continue;  // not with this placement
        }
        check_calls(plan);
        ++plans;
      }
  }
  CHECK(plans >= 20);
}

TEST_CASE("NCCL: the calls of context and expert parallelism meet; rings are one group per step") {
  for (const char* type : context_types) {
    CAPTURE(type);
    check_calls(compile(context_job(type)));
  }
  const std::string mixtral =
      "simrun: 1\n"
      "model: {model_type: mixtral, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, "
      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 8, "
      "num_experts_per_tok: 2}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  for (const char* ep : {"2", "8"}) {
    CAPTURE(ep);
    check_calls(compile(job_from(mixtral, {{"parallelism.expert_model_parallel_size", ep}})));
  }
}

TEST_CASE("NCCL: ranks that would wait for each other are noticed, and counts that differ") {
  const NcclCommunicator forward{NcclCommunicator::Use::edge, {0, 1}},
      backward{NcclCommunicator::Use::edge, {1, 0}};
  const auto one = [](const NcclCommunicator& on, NcclKind kind, int peer, std::int64_t count) {
    return NcclGroupOfCalls{on, {{kind, Dtype::fp32, count, peer, Reduction::sum}}, 0, 0, {}};
  };
  const auto run = [&](std::int64_t received) {
    return Rendezvous({{one(forward, NcclKind::send, 1, 8), one(backward, NcclKind::recv, 0, 8)},
                       {one(forward, NcclKind::recv, 0, received), one(backward, NcclKind::send, 1, 8)}})
        .run();
  };
  CHECK(run(8) == "");
  CHECK(run(9) == "what is sent is not what is received");
  CHECK(Rendezvous({{one(forward, NcclKind::send, 1, 8), one(backward, NcclKind::recv, 0, 8)},
                    {one(backward, NcclKind::send, 1, 8), one(forward, NcclKind::recv, 0, 8)}})
            .run() == "rank 0 waits at its call 0");
}

}  // namespace simrun
