#include "schedules/context_parallel.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/plan_frame.h"
#include "tests/context_jobs.h"

// Context parallelism: what each cp_comm_type sends, how the work is shared out, what is kept.
namespace simrun {
namespace {

using Bytes = std::int64_t;

struct Sent {
  int times = 0;
  Bytes bytes = 0;  // that a rank sends
  bool operator==(const Sent&) const = default;
};

Bytes bytes_of_all(const Plan& plan, const std::vector<Index>& buffers) {
  Bytes bytes = 0;
  for (const Index buffer : buffers) bytes += plan.buffers[buffer].bytes();
  return bytes;
}

// What a rank sends to others of its context-parallel group in one pass, by opcode. Of n ranks a ring or
// pairwise collective sends (n - 1) / n of its larger side.
std::map<Opcode, Sent> sent(const Plan& plan, PassKind pass, Bytes ranks = 4) {
  std::map<Opcode, Sent> sent;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != pass) continue;
    for (const Instruction& what : segment.instructions) {
      if (!is_communication(what.opcode) || what.opcode == Opcode::recv) continue;
      if (plan.streams[what.stream].traffic != Traffic::context || what.phase == Phase::reduction) continue;
      Bytes bytes = bytes_of_all(plan, what.opcode == Opcode::all_gather ? what.outputs : what.inputs);
      if (what.opcode != Opcode::send) bytes = bytes / ranks * (ranks - 1);
      Sent& of = sent[what.opcode];
      ++of.times;
      of.bytes += bytes;
    }
    return sent;
  }
  return sent;
}

constexpr Bytes block = 2 << 20;  // keys and values of a rank's tokens

SequencePart part(bool zigzag, std::int32_t offset) {
  SequencePart part;
  part.axes = {0};
  part.zigzag = zigzag;
  part.key_offset = offset;
  return part;
}

using Work = std::vector<std::int64_t>;

}  // namespace

TEST_CASE(
    "ring attention sends 2 (cp - 1) / cp of the sequence's keys and values forward, twice that backward") {
  const Plan plan = compile(context_job("p2p"));
  // 2 x 3/4 x 4,096 x 8 x 64 x 2 B = 6,291,456 = 3 blocks.
  CHECK(sent(plan, PassKind::forward) == std::map<Opcode, Sent>{{Opcode::send, {3, 3 * block}}});
  // k, v in steps 0, 1, 2 and their gradients in steps 1, 2, 3: four transfers of 1 + 2 + 2 + 1 blocks.
  CHECK(sent(plan, PassKind::backward) == std::map<Opcode, Sent>{{Opcode::send, {4, 6 * block}}});
}

TEST_CASE("all-gathered keys and values: gathered forward and again backward, their gradients scattered") {
  const Plan plan = compile(context_job("all_gather"));
  CHECK(sent(plan, PassKind::forward) == std::map<Opcode, Sent>{{Opcode::all_gather, {1, 3 * block}}});
  CHECK(sent(plan, PassKind::backward) == std::map<Opcode, Sent>{{Opcode::all_gather, {1, 3 * block}},
                                                                 {Opcode::reduce_scatter, {1, 3 * block}}});
}

TEST_CASE("Ulysses exchanges q, k, v and the context: 4 s h / cp (cp - 1) / cp elements for equal heads") {
  const Plan plan = compile(context_job("a2a"));
  // Of 1,024 tokens 16 + 8 + 8 heads of 64 go out and 16 come back: 3/4 x 1,024 x 48 x 64 x 2 B = 4,718,592.
  const std::map<Opcode, Sent> both{{Opcode::all_to_all, {2, 4718592}}};
  CHECK(sent(plan, PassKind::forward) == both);
  CHECK(sent(plan, PassKind::backward) == both);  // nothing is exchanged twice: what arrived is kept
  // The kernel sees the whole sequence of 8 / 4 key-value heads.
  for (const Instruction& what : plan.segments.front().instructions)
    if (what.opcode == Opcode::attention) {
      CHECK(plan.buffers[what.inputs[0]].elements() == 4096 * 2 * 4 * 64);
      CHECK(what.work_table == -1);
    }
}

TEST_CASE("hybrid: heads over the 2 inner ranks, a ring of the 2 outer ones") {
  const Plan plan = compile(context_job("a2a+p2p"));
  // All-to-all of half of the above's bytes: 1/2 x 1,024 x 48 x 64 x 2 B. A ring of two sends one block,
  // which is of 2,048 tokens and half the heads.
  std::map<Opcode, Sent> forward = sent(plan, PassKind::forward, 2);
  CHECK(forward[Opcode::all_to_all] == Sent{2, 3145728});
  CHECK(forward[Opcode::send] == Sent{1, block});
  CHECK(sent(plan, PassKind::backward, 2)[Opcode::send] == Sent{2, 2 * block});
  for (const Communication& communication : plan.communications)
    if (!communication.peer.axes.empty()) CHECK(communication.peer.axes == std::vector<std::uint8_t>{2});
}

TEST_CASE("a causal mask leaves ranks of a contiguous ring unequal work, of a zigzag one equal") {
  const CausalMask causal{true, 0};
  CHECK(block_work(causal, 4096, part(false, 0), 4) == Work{500000, 500000, 500000, 500000});
  CHECK(block_work(causal, 4096, part(false, 1), 4) == Work{0, 1000000, 1000000, 1000000});
  CHECK(block_work(causal, 4096, part(false, 3), 4) == Work{0, 0, 0, 1000000});
  // Of two half-blocks each, with r > b: all queries and the first half of the keys; r < b: the second half
  // of the queries and all keys.
  for (const int offset : {0, 1, 2, 3})
    CHECK(block_work(causal, 4096, part(true, offset), 4) == Work{500000, 500000, 500000, 500000});
  // Of the last rank of n: 1/2 + n - 1 blocks, of a mean of (n / 2 + n (n - 1) / 2) / n = n / 2: 2 - 1 / n.
  for (const std::int64_t n : {2, 4, 8}) {
    Work sum(static_cast<std::size_t>(n), 0);
    for (std::int32_t offset = 0; offset < n; ++offset) {
      const Work work = block_work(causal, 4096, part(false, offset), n);
      for (std::size_t r = 0; r < sum.size(); ++r) sum[r] += work[r];
    }
    const std::int64_t all = std::accumulate(sum.begin(), sum.end(), std::int64_t{0});
    CHECK(all == n * n * 500000);
    CHECK(sum.back() * n * n == all * (2 * n - 1));
  }
}

TEST_CASE("a sliding window of one block reaches half of the block before its own") {
  const CausalMask window{true, 1024};
  CHECK(block_work(window, 4096, part(false, 0), 4) == Work{500000, 500000, 500000, 500000});
  CHECK(block_work(window, 4096, part(false, 1), 4) == Work{0, 500000, 500000, 500000});
  CHECK(block_work(window, 4096, part(false, 2), 4) == Work{0, 0, 0, 0});
  // Over all ranks and blocks: w / s (1 - w / 2s) = 1/4 x 7/8 of the matrix's 16 blocks, for either layout.
  for (const bool zigzag : {false, true}) {
    std::int64_t all = 0;
    for (std::int32_t offset = 0; offset < 4; ++offset)
      for (const std::int64_t work : block_work(window, 4096, part(zigzag, offset), 4)) all += work;
    CHECK(all == 3500000);
  }
}

TEST_CASE("chunks of a block and a half: ranks have what is before their tokens in the chunk") {
  // Chunks of 1536 of 4096: [0, 1536), [1536, 3072), [3072, 4096). Of blocks of 1024 tokens the second has
  // its first half in the first chunk and its second half in the second.
  const CausalMask chunks{true, 1536, true};
  // Of its own block: the whole triangle, two of a quarter of it each, the whole one, the whole one.
  CHECK(block_work(chunks, 4096, part(false, 0), 4) == Work{500000, 250000, 500000, 500000});
  // Of the one before it: nothing, half of the queries times all keys, all queries times half of the keys,
  // and nothing of another chunk.
  CHECK(block_work(chunks, 4096, part(false, 1), 4) == Work{0, 500000, 500000, 0});
  CHECK(block_work(chunks, 4096, part(false, 2), 4) == Work{0, 0, 0, 0});
  // Over all ranks and blocks: (2 x 1536^2 + 1024^2) / 2 scores of 1024^2 each.
  for (const bool zigzag : {false, true}) {
    std::int64_t all = 0;
    for (std::int32_t offset = 0; offset < 4; ++offset)
      for (const std::int64_t work : block_work(chunks, 4096, part(zigzag, offset), 4)) all += work;
    CHECK(all == 2750000);
  }
}

TEST_CASE("context parallelism computes what one rank would: hardware FLOPs do not change") {
  const double alone = compile(context_job("p2p", {}, 1)).job.hardware_flops_per_step;
  for (const char* type : context_types)
    for (const char* layout : {"zigzag", "contiguous"}) {
      CAPTURE(type, layout);
      const Plan plan = compile(context_job(type, {{"parallelism.context_parallel_layout", layout}}));
      CHECK(plan.job.hardware_flops_per_step == Approx(alone).epsilon(1e-12));
      CHECK(plan.job.model_flops_per_step == Approx(alone).epsilon(1e-12));
    }
}

TEST_CASE("context parallel 2 halves what waits for the backward pass") {
  const auto kept = [](const Plan& plan) {
    Bytes bytes = 0;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope == Scope::microbatch && buffer.dtype != Dtype::int64) bytes += buffer.bytes();
    return bytes;
  };
  const Bytes alone = kept(compile(context_job("p2p", {}, 1)));
  for (const char* type : {"p2p", "all_gather"}) {
    CAPTURE(type);
    CHECK(2 * kept(compile(context_job(type, {}, 2))) == alone);
  }
  // The context is kept as attention's backward reads it and as the projection's does: 2,048 x 16 x 64 x 2 B
  // more.
  CHECK(2 * (kept(compile(context_job("a2a", {}, 2))) - 4194304) == alone);
}

TEST_CASE("sequence over tp and cp at once: norms on a quarter, products on a half, gathers over tp alone") {
  const Plan plan = compile(context_job(
      "p2p", {{"parallelism.tensor_model_parallel_size", "2"}, {"parallelism.sequence_parallel", "true"}},
      2));
  CHECK(lint(plan).empty());
  std::map<std::string, std::int64_t> tokens;
  for (const Instruction& what : plan.segments.front().instructions)
    if (!what.outputs.empty() && what.stream == compute_stream)
      for (const BufferDim& dim : plan.buffers[what.outputs[0]].dims)
        if (plan.dimension_names[dim.name] == "sequence") tokens[what.label] = dim.extent;
  for (const char* quarter : {"input_norm", "attention_add", "mlp_norm", "mlp_add", "final_norm"})
    CHECK(tokens[quarter] == 1024);
  for (const char* half : {"qkv", "rope", "core_attention", "fc1", "fc2", "logits"})
    CHECK(tokens[half] == 2048);
}

TEST_CASE("buffers say over which axes a sequence is dealt out in zigzag blocks, and which cut these") {
  // How the sequence is split, wherever it is. Tokens and labels are read whole.
  const auto splits = [](const Job& job) {
    const Plan plan = compile(job);
    std::set<std::string> found;
    for (const Buffer& buffer : plan.buffers)
      for (std::size_t d = 0; d < buffer.split.size(); ++d)
        if (buffer.dtype != Dtype::int64 && plan.dimension_names[buffer.dims[d].name] == "sequence")
          found.insert(buffer.split[d]);
    return found;
  };
  using Splits = std::set<std::string>;
  const std::vector<Override> sequence_parallel{{"parallelism.tensor_model_parallel_size", "2"},
                                                {"parallelism.sequence_parallel", "true"}};
  CHECK(splits(context_job("p2p")) == Splits{"cp:zigzag"});
  CHECK(splits(context_job("p2p", {{"parallelism.context_parallel_layout", "contiguous"}})) == Splits{"cp"});
  CHECK(splits(context_job("all_gather", sequence_parallel, 2)) == Splits{"cp:zigzag", "cp:zigzag,tp"});
  // Whole where heads are exchanged; of a hybrid the outer ranks deal, the inner ones cut.
  CHECK(splits(context_job("a2a")) == Splits{"", "cp"});
  CHECK(splits(context_job("a2a+p2p")) == Splits{"cp1:zigzag", "cp1:zigzag,cp0"});
}

TEST_CASE("a ring goes around a group that experts cut in two, its axes as one") {
  Job job = context_job("p2p");
  job.parallelism.expert_model_parallel_size = 2;  // cp 4 becomes cp1 2 x cp0 2
  const Plan plan = compile(job);
  CHECK(lint(plan).empty());
  int rings = 0;
  for (const Communication& communication : plan.communications)
    if (!communication.peer.axes.empty()) {
      ++rings;
      CHECK(communication.peer.axes == std::vector<std::uint8_t>{2, 1});
    }
  CHECK(rings > 0);
}

TEST_CASE("every way of context parallelism compiles to a plan without findings, with everything else") {
  const std::string type = GENERATE(values<std::string>({"p2p", "all_gather", "a2a", "a2a+p2p"}));
  const std::string layout = GENERATE(values<std::string>({"zigzag", "contiguous"}));
  const std::string recompute = GENERATE(values<std::string>({"none", "selective", "full"}));
  const std::string zero = GENERATE(values<std::string>({"0", "1", "3"}));
  const int tp = GENERATE(1, 2);
  const int pp = GENERATE(1, 2);
  CAPTURE(type, layout, recompute, zero, tp, pp);
  const std::vector<Override> overrides{{"parallelism.context_parallel_layout", layout},
                                        {"parallelism.tensor_model_parallel_size", std::to_string(tp)},
                                        {"parallelism.sequence_parallel", tp > 1 ? "true" : "false"},
                                        {"parallelism.pipeline_model_parallel_size", std::to_string(pp)},
                                        {"model.num_hidden_layers", std::to_string(pp)},
                                        {"recompute.granularity", recompute},
                                        {"optimizer.zero_stage", zero},
                                        {"cluster.nodes", "2"}};
  const std::vector<std::string> findings = lint(compile(context_job(type, overrides)));
  CHECK(findings.empty());
}

TEST_CASE("recomputing attention sends its keys and values around once more") {
  const Plan plan = compile(context_job("p2p", {{"recompute.granularity", "selective"}}));
  CHECK(sent(plan, PassKind::backward)[Opcode::send] == Sent{7, 9 * block});  // 3 + 6
}

TEST_CASE("lint: a ring whose ends do not fit each other is found") {
  Plan plan = compile(context_job("p2p"));
  REQUIRE(lint(plan).empty());
  for (Instruction& what : plan.segments.front().instructions)
    if (what.opcode == Opcode::recv) {
      what.stream = stream_named(plan.streams, "cp_out");
      break;
    }
  const std::vector<std::string> findings = lint(plan);
  REQUIRE(!findings.empty());
  CHECK(findings.front().find("are both on stream 'cp_out'") != std::string::npos);
}

}  // namespace simrun
