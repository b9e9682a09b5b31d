// --export chakra: execution traces, read back by the schema and by simrun's own import.
#include <chakra.pb.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cli/chakra_nodes.h"
#include "configs/load_job.h"
#include "schedules/compile.h"
#include "sim/exchange_groups.h"
#include "sim/simulate.h"
#include "tests/cli/run_simrun.h"
#include "traces/imported_run.h"
#include "traces/read_chakra.h"

namespace simrun {
namespace {

namespace chakra = ChakraProtoMsg;

using Overrides = std::vector<Override>;

struct Exported {
  Plan plan;
  Timeline timeline;
  ChakraTraces traces;
};
Exported exported(const std::string& job, Overrides overrides = {}) {
  LoadOptions load{std::move(overrides), {SIMRUN_SOURCE_DIR "/configs"}};
  Exported of;
  of.plan = compile(load_job(SIMRUN_SOURCE_DIR "/configs/jobs/" + job + ".yaml", load).job);
  of.timeline = simulate(of.plan, {.detail = Detail::instructions});
  of.traces = chakra_traces(of.plan, of.timeline);
  return of;
}

std::vector<chakra::Node> read_back(const std::string& bytes) {
  std::vector<chakra::Node> nodes;
  bool is_first = true;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      length |= static_cast<std::size_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) break;
    }
    const std::string message = bytes.substr(at, length);
    at += length;
    if (is_first) {
      chakra::GlobalMetadata metadata;
      REQUIRE(metadata.ParseFromString(message));
      is_first = false;
      continue;
    }
    REQUIRE(nodes.emplace_back().ParseFromString(message));
  }
  return nodes;
}

std::int64_t number_of(const chakra::Node& node, const std::string& name) {
  for (const chakra::AttributeProto& of : node.attr())
    if (of.name() == name) return of.value_case() == of.kInt32Val ? of.int32_val() : of.int64_val();
  return -1;
}

// How many nodes of a type have so many bytes.
std::int64_t count(const std::vector<chakra::Node>& nodes, chakra::NodeType type, std::int64_t bytes) {
  return std::count_if(nodes.begin(), nodes.end(), [&](const chakra::Node& node) {
    return node.type() == type && number_of(node, "comm_size") == bytes;
  });
}

TEST_CASE("chakra: what a rank sends and reduces is what a pencil says") {
  const Exported of = exported("tiny-4xa100");
  const auto nodes = [&](std::int32_t rank) {
    return read_back(chakra_trace(0, of.timeline.step / 1000, nodes_of(of.plan, of.traces, rank, 0)));
  };
  // Two layers of a stage x (2 forward + 2 backward) x 4 microbatches = 32 sums of 128 x 2 x 256 numbers of
  // 2 bytes over tensor parallel; 4 more behind the embedding of the first, and of the last the inputs'
  // gradients of the head.
  const std::int64_t activation = 128 * 2 * 256 * 2;
  for (const std::int32_t rank : {0, 1}) {
    CHECK(count(nodes(rank), chakra::COMM_COLL_NODE, activation) == 36);
    // Every microbatch goes on once and its gradient comes back once.
    CHECK(count(nodes(rank), chakra::COMM_SEND_NODE, activation) == 4);
    CHECK(count(nodes(rank), chakra::COMM_RECV_NODE, activation) == 4);
  }
  // Tied embeddings: 1024 / 2 rows of 256 fp32 gradients, summed over both stages.
  CHECK(count(nodes(0), chakra::COMM_COLL_NODE, 512 * 256 * 4) == 1);
  // Groups: two of tensor parallel, two of the first and last stage, and all GPUs (the gradients' norm).
  const std::set<std::vector<std::int64_t>> groups(of.traces.groups.begin(), of.traces.groups.end());
  CHECK(groups == std::set<std::vector<std::int64_t>>{{0, 1}, {2, 3}, {0, 2}, {1, 3}, {0, 1, 2, 3}});
  CHECK(chakra_groups_json(of.traces).find(": [0, 1, 2, 3]") != std::string::npos);
}

// Of all GPUs' nodes: what ASTRA-sim needs to come to an end.
struct Exchanges {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> sent, received;  // bytes
  std::map<std::string, std::set<std::vector<std::pair<std::int64_t, std::int64_t>>>> collectives;
};

void check_nodes(const std::vector<ChakraNode>& nodes, Exchanges& all) {
  std::map<std::uint64_t, const ChakraNode*> by_id;
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> of_group;
  int late = 0;
  for (const ChakraNode& node : nodes) {
    for (const auto* dependencies : {&node.control, &node.data})
      for (const std::uint64_t id : *dependencies) {
        REQUIRE(by_id.contains(id));  // it stands before: no cycle
        const ChakraNode& before = *by_id.at(id);
        late += before.start_ns + before.duration_ns > node.start_ns ? 1 : 0;
      }
    CHECK(by_id.emplace(node.id, &node).second);
    const std::tuple end(node.from, node.to, node.tag);
    if (node.kind == ChakraKind::send) CHECK(all.sent.emplace(end, node.bytes).second);
    if (node.kind == ChakraKind::receive) CHECK(all.received.emplace(end, node.bytes).second);
    if (node.kind == ChakraKind::collective) of_group[node.group].emplace_back(node.collective, node.bytes);
  }
  CHECK(late == 0);  // what it waits for was over when it began
  for (const auto& [group, sequence] : of_group) all.collectives[group].insert(sequence);
}

TEST_CASE("chakra: ends of exchanges agree, and nodes begin behind what they wait for") {
  const auto [job, overrides] = GENERATE(table<const char*, Overrides>(
      {{"tiny-4xa100", {}},
       {"tiny-4xa100", {{"parallelism.pipeline_schedule", "zb_h1"}}},
       {"tiny-4xa100", {{"parallelism.virtual_pipeline_model_parallel_size", "2"}}},
       {"tiny-4xa100",
        {{"parallelism.tensor_model_parallel_size", "1"}, {"parallelism.context_parallel_size", "2"}}},
       {"tiny-gpt-8ranks", {{"parallelism.pipeline_schedule", "dualpipe"}, {"optimizer.zero_stage", "0"}}},
       {"tiny-gpt-8ranks", {{"optimizer.zero_stage", "3"}}},
       {"tiny-moe-8ranks", {}},
       {"tiny-moe-8ranks", {{"moe.load_imbalance", "1.5"}}}}));
  CAPTURE(job, overrides.empty() ? "" : overrides.front().key + "=" + overrides.front().value);
  const Exported of = exported(job, overrides);
  Exchanges all;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(of.plan.programs.size()); ++rank)
    for (std::int64_t local = 0; local < device_count(of.plan, rank); ++local)
      check_nodes(nodes_of(of.plan, of.traces, rank, local), all);
  CHECK(all.sent == all.received);
  CHECK(!all.collectives.empty());
  for (const auto& [group, sequences] : all.collectives) {
    CAPTURE(group);
    CHECK(sequences.size() == 1);  // all members call the same collectives in the same order
  }
}

TEST_CASE("chakra: simrun reads its own traces back, to the nanosecond of the Timeline") {
  const Exported of = exported("tiny-4xa100");
  const RankTimeline& rank = of.timeline.ranks.front();
  const std::string written = chakra_trace(0, of.timeline.step / 1000, nodes_of(of.plan, of.traces, 0, 0));
  ByteSource bytes(written, "tiny.0.et");
  const RecordedTrace trace = read_chakra_trace(bytes);
  CHECK(trace.rank == 0);
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> read;  // ends by stream
  for (const TracedKernel& kernel : trace.kernels)
    read[trace.streams[kernel.stream].name].emplace_back(kernel.start_ns,
                                                         kernel.start_ns + kernel.duration_ns);
  std::size_t compared = 0;
  for (const Lane& lane : rank.lanes) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ends;
    for (const Interval& interval : lane.intervals) {
      const std::int64_t start = interval.start / 1000, end = (interval.start + interval.duration) / 1000;
      if (end > start) ends.emplace_back(start, end);
    }
    CHECK(read["stream " + std::to_string(lane.stream)] == ends);
    compared += ends.size();
  }
  CHECK(compared > 200);
}

TEST_CASE("chakra: the schema's own times are the Timeline's in whole microseconds") {
  const Exported of = exported("tiny-4xa100");
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> read;  // ends by stream
  for (const chakra::Node& node :
       read_back(chakra_trace(0, of.timeline.step / 1000, nodes_of(of.plan, of.traces, 0, 0)))) {
    const auto start = static_cast<std::int64_t>(node.start_time_micros()),
               duration = static_cast<std::int64_t>(node.duration_micros());
    if (duration > 0) read[number_of(node, "stream")].emplace_back(start, start + duration);
  }
  for (const Lane& lane : of.timeline.ranks.front().lanes) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ends;
    for (const Interval& interval : lane.intervals) {
      const std::int64_t start = interval.start / 1'000'000,
                         end = (interval.start + interval.duration) / 1'000'000;
      if (end > start) ends.emplace_back(start, end);
    }
    CHECK(read[lane.stream] == ends);
  }
}

TEST_CASE("chakra: fields have the schema's numbers") {
  // schema/protobuf/et_def.proto of github.com/mlcommons/chakra, commit 6dc63e14
  CHECK(chakra::GlobalMetadata::kVersionFieldNumber == 1);
  CHECK(chakra::GlobalMetadata::kAttrFieldNumber == 2);
  CHECK(chakra::Node::kIdFieldNumber == 1);
  CHECK(chakra::Node::kNameFieldNumber == 2);
  CHECK(chakra::Node::kTypeFieldNumber == 3);
  CHECK(chakra::Node::kCtrlDepsFieldNumber == 4);
  CHECK(chakra::Node::kDataDepsFieldNumber == 5);
  CHECK(chakra::Node::kStartTimeMicrosFieldNumber == 6);
  CHECK(chakra::Node::kDurationMicrosFieldNumber == 7);
  CHECK(chakra::Node::kAttrFieldNumber == 10);
  CHECK(chakra::AttributeProto::kNameFieldNumber == 1);
  CHECK(chakra::AttributeProto::kInt32ValFieldNumber == 7);
  CHECK(chakra::AttributeProto::kInt64ValFieldNumber == 9);
  CHECK(chakra::AttributeProto::kBoolValFieldNumber == 27);
  CHECK(chakra::AttributeProto::kStringValFieldNumber == 29);
  CHECK(chakra::COMP_NODE == 4);
  CHECK(chakra::COMM_SEND_NODE == 5);
  CHECK(chakra::COMM_COLL_NODE == 7);
  CHECK(chakra::ALL_TO_ALL == 6);
  CHECK(chakra::REDUCE_SCATTER == 7);
  chakra::Node node;  // as that schema writes it: field 1 a varint, field 2 bytes, field 6 a varint
  node.set_id(3);
  node.set_name("f");
  node.set_start_time_micros(300);
  CHECK(node.SerializeAsString() == std::string("\x08\x03\x12\x01"
                                                "f\x30\xac\x02",
                                                8));
}

TEST_CASE("--export chakra writes a folder whole or not at all") {
  const Scratch scratch;
  const std::string folder = scratch.file("traces");
  const Ran ran = run_simrun(tiny + " --export chakra -o " + folder);
  CHECK(ran.code == 0);
  CHECK(ran.output.starts_with("wrote 4 traces and 5 communicators to " + folder));
  const Ran imported = run_simrun("--import-trace " + folder);
  CHECK(imported.code == 0);
  CHECK(imported.output.starts_with("imported 4 files (simrun trace), ranks 0-3"));
  const Ran again = run_simrun(tiny + " --export chakra -o " + folder);
  CHECK(again.code == 2);
  CHECK(again.output.find("this is there already") != std::string::npos);
  CHECK(run_simrun(tiny + " --export chakra").output.find("-o FOLDER names it") != std::string::npos);
  const Ran large = run_simrun(tiny + " --set training.global_batch_size=40000 --export chakra -o " +
                               scratch.file("large"));
  CHECK(large.code == 2);
  CHECK(large.output.find("nodes, more than 4000000") != std::string::npos);
  const Ran servers =
      run_simrun(SIMRUN_SOURCE_DIR "/configs/jobs/vgg16-parameter-server-32xa100.yaml --export chakra -o " +
                 scratch.file("vgg"));
  CHECK(servers.code == 2);
  CHECK(servers.output.find("no nodes for parameter servers") != std::string::npos);
  CHECK(scratch.files() == 1);  // the first folder alone
}

}  // namespace
}  // namespace simrun
