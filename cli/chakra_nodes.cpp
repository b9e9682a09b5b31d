#include "cli/chakra_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <tuple>

#include "schedules/extent_tables.h"
#include "schedules/instruction_flops.h"
#include "schedules/measured_comparison.h"
#include "sim/exchange_groups.h"

namespace simrun {
namespace {

std::int64_t bytes_of(const Plan& plan, const std::vector<Index>& buffers) {
  std::int64_t bytes = 0;
  for (const Index buffer : buffers) bytes += plan.buffers[buffer].stored_bytes();
  return bytes;
}

std::int64_t collective_number(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_reduce: return chakra_all_reduce;
    case Opcode::all_gather: return chakra_all_gather;
    case Opcode::reduce_scatter: return chakra_reduce_scatter;
    case Opcode::all_to_all: return chakra_all_to_all;
    case Opcode::broadcast: return chakra_broadcast;
    default: return -1;
  }
}

bool is_timed(const Instruction& of) { return of.opcode != Opcode::free && of.opcode != Opcode::init; }

// Numbers of transfers, equal at both ends: by channel, instance and ends; inside a pipeline rank, where they
// meet in the order of issue, by their number among the rank's sends or receives.
class Tags {
 public:
  using Key = std::tuple<Index, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  std::int64_t of(const Key& key) {
    return static_cast<std::int64_t>(numbers_.try_emplace(key, numbers_.size()).first->second);
  }

 private:
  std::map<Key, std::size_t> numbers_;
};

// One pipeline rank's program as nodes.
class RankNodes {
 public:
  RankNodes(const Plan& plan, const RankTimeline& times, const std::vector<std::vector<Index>>& views,
            Tags& tags)
      : plan_(plan),
        rank_(times.pipeline_rank),
        views_(views),
        tags_(tags),
        last_of_stream_(plan.streams.size(), 0) {
    for (const Lane& lane : times.lanes)
      for (const Interval& interval : lane.intervals)
        intervals_[{interval.entry, interval.instruction}] = &interval;
  }

  void build(std::vector<ChakraNode>& nodes, std::vector<Index>& communications) {
    const Program& program = plan_.programs[static_cast<std::size_t>(rank_)];
    for (Index e = 0; e < program.entries.size(); ++e) {
      entry_ = e;
      const Entry& entry = program.entries[e];
      if (entry.steps == Steps::first_only) continue;
      const std::vector<Instruction>& instructions = plan_.segments[entry.segment].instructions;
      for (Index i = 0; i < instructions.size(); ++i) {
        if (!is_timed(instructions[i])) continue;
        bound_ = Binding{};
        bound_.microbatch = -1;
        if (instructions[i].binding < entry.binding_count)
          bound_ = program.bindings[entry.first_binding + instructions[i].binding];
        nodes.push_back(node(i, instructions[i]));
        communications.push_back(instructions[i].communication);
      }
    }
  }

 private:
  // The instance of a buffer that this entry means.
  using Instance = std::tuple<Index, std::int64_t, std::int32_t, std::uint8_t>;
  Instance instance(Index buffer) const {
    switch (plan_.buffers[buffer].scope) {
      case Scope::microbatch: return {buffer, bound_.microbatch, bound_.slice, 0};
      case Scope::pass: return {buffer, -2 - std::int64_t{entry_}, 0, binding_};
      default: return {buffer, -1, 0, 0};
    }
  }

  ChakraNode node(Index number, const Instruction& of) {
    binding_ = of.binding;
    ChakraNode node;
    node.id = ++issued_;  // from 1: 0 is none
    node.name = to_string(of.opcode);
    if (!of.label.empty()) node.name += " " + of.label;
    node.phase = to_string(of.phase);
    node.stream = of.stream;
    if (const auto at = intervals_.find({entry_, number}); at != intervals_.end()) {
      constexpr Picoseconds nanosecond = 1000;
      node.start_ns = at->second->start / nanosecond;
      node.duration_ns = (at->second->start + at->second->duration) / nanosecond - node.start_ns;
    }
    describe(of, node);
    depend(of, node);
    return node;
  }

  void describe(const Instruction& of, ChakraNode& node) {
    const std::int64_t in = bytes_of(plan_, of.inputs), out = bytes_of(plan_, of.outputs);
    node.collective = collective_number(of.opcode);
    if (node.collective >= 0) {
      node.kind = ChakraKind::collective;
      node.bytes = in;
    } else if (of.opcode == Opcode::send || of.opcode == Opcode::recv) {
      node.kind = of.opcode == Opcode::send ? ChakraKind::send : ChakraKind::receive;
      node.bytes = of.opcode == Opcode::send ? in : out;
      node.tag = tag_of(of);
    } else if (of.opcode == Opcode::copy && plan_.streams[of.stream].traffic == Traffic::offload) {
      const bool to_device =
          !of.outputs.empty() && plan_.buffers[of.outputs.front()].space == MemorySpace::device;
      node.kind = to_device ? ChakraKind::load : ChakraKind::store;
      node.bytes = in;
    } else {
      node.bytes = in + out;
      const std::size_t operands = of.opcode == Opcode::attention ? 1 : 2;  // of a product
      if (of.inputs.size() >= operands && !of.outputs.empty())
        node.flops = static_cast<std::int64_t>(std::min(instruction_flops(plan_, of), 9e18));
    }
    share(of, node);
  }

  // What of it is done at all in this microbatch, where a table says: of an exchange by the GPU that has
  // most, as both ends must agree; of a kernel by the first.
  void share(const Instruction& of, ChakraNode& node) const {
    if (of.work_table < 0) return;
    const std::int32_t microbatch = std::max(bound_.microbatch, 0);
    std::int64_t part = work_at(plan_, of, {rank_, 0, microbatch});
    const bool is_exchange = node.kind == ChakraKind::collective || node.kind == ChakraKind::send ||
                             node.kind == ChakraKind::receive;
    const std::int64_t gpus = is_exchange ? device_count(plan_, rank_) : 1;
    for (std::int64_t gpu = 1; gpu < gpus; ++gpu)
      part = std::max(part, work_at(plan_, of, {rank_, gpu, microbatch}));
    node.bytes = static_cast<std::int64_t>(static_cast<double>(node.bytes) * static_cast<double>(part) /
                                           static_cast<double>(whole_work));
  }

  std::int64_t tag_of(const Instruction& of) {
    const Communication& with = plan_.communications[of.communication];
    const bool sends = of.opcode == Opcode::send;
    if (with.channel == no_index)
      return tags_.of({no_index, sends ? sends_++ : receives_++, 0, rank_, rank_});
    const std::int32_t other = with.peer.pipeline_rank < 0 ? rank_ : with.peer.pipeline_rank;
    return tags_.of(
        {with.channel, bound_.microbatch, bound_.slice, sends ? rank_ : other, sends ? other : rank_});
  }

  void depend(const Instruction& of, ChakraNode& node) {
    std::set<std::uint64_t> control{last_of_stream_[of.stream], last_of_stream_[compute_stream]}, data;
    for (const std::vector<Index>* buffers : {&of.inputs, &of.waits_for})
      for (const Index buffer : *buffers) add_writers(buffer, of.stream, data);
    if (of.accumulate)
      for (const Index buffer : of.outputs) add_writers(buffer, of.stream, data);
    for (const std::uint64_t id : control) data.erase(id);
    control.erase(0);
    node.control.assign(control.begin(), control.end());
    node.data.assign(data.begin(), data.end());
    for (const Index buffer : of.outputs) writers_[instance(buffer)][of.stream] = node.id;
    last_of_stream_[of.stream] = node.id;
  }

  // Of the buffer, of what it is a view of, and of its views. Compute issued before is waited for anyway.
  void add_writers(Index buffer, std::uint8_t stream, std::set<std::uint64_t>& data) const {
    for (Index up = buffer; up != no_index; up = plan_.buffers[up].parent) add_writers_of(up, stream, data);
    std::vector<Index> below = views_[buffer];
    while (!below.empty()) {
      const Index view = below.back();
      below.pop_back();
      add_writers_of(view, stream, data);
      below.insert(below.end(), views_[view].begin(), views_[view].end());
    }
  }
  void add_writers_of(Index buffer, std::uint8_t stream, std::set<std::uint64_t>& data) const {
    const auto found = writers_.find(instance(buffer));
    if (found == writers_.end()) return;
    for (const auto& [by, id] : found->second)
      if (by != stream && by != compute_stream) data.insert(id);
  }

  const Plan& plan_;
  std::int32_t rank_;
  const std::vector<std::vector<Index>>& views_;
  Tags& tags_;
  std::map<std::pair<Index, Index>, const Interval*> intervals_;
  std::map<Instance, std::map<std::uint8_t, std::uint64_t>> writers_;  // by stream: the last
  std::vector<std::uint64_t> last_of_stream_;
  Index entry_ = 0;
  Binding bound_;
  std::uint8_t binding_ = 0;
  std::uint64_t issued_ = 0;
  std::int32_t sends_ = 0, receives_ = 0;
};

// The communicators of all collectives, in the order in which nodes first name them.
void number_groups(const Plan& plan, ChakraTraces& traces) {
  std::map<std::vector<std::int64_t>, std::size_t> numbers;
  traces.group_of_gpu.resize(plan.programs.size());
  for (std::size_t r = 0; r < plan.programs.size(); ++r)
    for (std::size_t n = 0; n < traces.of_pipeline_rank[r].size(); ++n) {
      if (traces.of_pipeline_rank[r][n].kind != ChakraKind::collective) continue;
      const Index communication = traces.communications[r][n];
      const auto [of_gpu, is_new] = traces.group_of_gpu[r].try_emplace(communication);
      if (!is_new) continue;
      const Group& group = plan.communications[communication].group;
      const auto rank = static_cast<std::int32_t>(r);
      std::vector<std::size_t> number_of_instance;
      for (const auto& members : group_instances(plan, rank, group)) {
        const auto [known, is_first] = numbers.try_emplace(members, numbers.size());
        if (is_first) traces.groups.push_back(members);
        number_of_instance.push_back(known->second);
      }
      for (const Index instance : instance_of_devices(plan, rank, group))
        of_gpu->second.push_back(number_of_instance[instance]);
    }
}

}  // namespace

ChakraTraces chakra_traces(const Plan& plan, const Timeline& timeline) {
  for (const Communication& of : plan.communications)
    if (!of.servers.members.empty())
      throw std::invalid_argument("Chakra's traces have no nodes for parameter servers");
  std::vector<std::vector<Index>> views(plan.buffers.size());
  for (Index b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].parent != no_index) views[plan.buffers[b].parent].push_back(b);
  ChakraTraces traces;
  traces.of_pipeline_rank.resize(plan.programs.size());
  traces.communications.resize(plan.programs.size());
  Tags tags;
  std::set<std::int32_t> done;
  for (const RankTimeline& rank : timeline.ranks) {
    if (rank.lanes.empty() || !done.insert(rank.pipeline_rank).second) continue;
    const auto at = static_cast<std::size_t>(rank.pipeline_rank);
    RankNodes(plan, rank, views, tags).build(traces.of_pipeline_rank[at], traces.communications[at]);
  }
  if (done.size() != plan.programs.size())
    throw std::invalid_argument("the timeline has no instructions of every pipeline rank");
  number_groups(plan, traces);
  return traces;
}

std::vector<ChakraNode> nodes_of(const Plan& plan, const ChakraTraces& traces, std::int32_t pipeline_rank,
                                 std::int64_t local_index) {
  const auto at = static_cast<std::size_t>(pipeline_rank);
  const std::int64_t device = device_at(plan, pipeline_rank, local_index);
  std::vector<ChakraNode> nodes = traces.of_pipeline_rank[at];
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    ChakraNode& node = nodes[n];
    const Index number = traces.communications[at][n];
    if (node.kind == ChakraKind::send || node.kind == ChakraKind::receive) {
      const std::int64_t peer = peer_of(plan, pipeline_rank, plan.communications[number], local_index);
      node.from = node.kind == ChakraKind::send ? device : peer;
      node.to = node.kind == ChakraKind::send ? peer : device;
    } else if (node.kind == ChakraKind::collective) {
      node.group = std::to_string(traces.group_of_gpu[at].at(number)[static_cast<std::size_t>(local_index)]);
    }
  }
  // The end of an axis has no partner: nothing is sent.
  std::erase_if(nodes, [](const ChakraNode& of) { return of.from < 0 || of.to < 0; });
  return nodes;
}

std::string chakra_groups_json(const ChakraTraces& traces) {
  std::string json = "{";
  for (std::size_t g = 0; g < traces.groups.size(); ++g)
    json += fmt::format("{}\n  \"{}\": [{}]", g == 0 ? "" : ",", g, fmt::join(traces.groups[g], ", "));
  return json + "\n}\n";
}

}  // namespace simrun
