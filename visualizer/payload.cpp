#include "visualizer/payload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

#include "schedules/measured_comparison.h"
#include "visualizer/bound_chunks.h"
#include "visualizer/columns.h"
#include "visualizer/rank_columns.h"

namespace simrun {

namespace {

using Column = std::vector<std::int64_t>;

constexpr std::int64_t largest = std::int64_t{1} << 52;  // what a column may hold

class StringTable {
 public:
  std::int64_t index(const std::string& text) {
    const auto [place, is_new] = places_.try_emplace(text, static_cast<std::int64_t>(strings_.size()));
    if (is_new) strings_.push_back(text);
    return place->second;
  }
  std::vector<std::string> take() { return std::move(strings_); }

 private:
  std::map<std::string, std::int64_t> places_;
  std::vector<std::string> strings_;
};

const Buffer& buffer(const Plan& plan, Index index) { return plan.buffers[index]; }

// Size of a buffer with a view's own extent counted, whoever owns the bytes.
std::int64_t touched_bytes(const Buffer& touched) { return touched.stored_bytes(); }

// Communication: what this rank hands over, or takes if it only receives. Compute: all that is read and
// written.
std::int64_t bytes_of(const Plan& plan, const Instruction& instruction) {
  std::int64_t in = 0, out = 0;
  for (const Index index : instruction.inputs) in += touched_bytes(buffer(plan, index));
  for (const Index index : instruction.outputs) out += touched_bytes(buffer(plan, index));
  if (is_communication(instruction.opcode)) return std::min(std::max(in, out), largest);
  return std::min(in + out, largest);
}

// A matrix product [M,K] x [K,N] -> [M,N] has 2 M K N FLOPs, and M K N is the square root of the product of
// the three sizes, however the operands are transposed.
std::int64_t flops_of(const Plan& plan, const Instruction& instruction) {
  if (instruction.opcode != Opcode::gemm || instruction.inputs.size() < 2 || instruction.outputs.empty())
    return 0;
  const auto elements = [&](Index index) { return static_cast<double>(buffer(plan, index).elements()); };
  const double product =
      elements(instruction.inputs[0]) * elements(instruction.inputs[1]) * elements(instruction.outputs[0]);
  return static_cast<std::int64_t>(std::min(2 * std::sqrt(product), static_cast<double>(largest)));
}

std::string what(const Instruction& instruction) {
  const std::string name = to_string(instruction.opcode);
  return instruction.function == Function::none ? name : name + " " + to_string(instruction.function);
}

// "0:1,2": a collective's group is over axes 1 and 2 of the first mesh; "" where no group takes part.
std::string group_text(const Communication* exchange) {
  if (exchange == nullptr || exchange->group.axes.empty() || exchange->peer.pipeline_rank >= 0) return "";
  return fmt::format("{}:{}", exchange->group.mesh, fmt::join(exchange->group.axes, ","));
}

// A PassKind; behind them, of a measured step, what nobody knows the phase of.
std::int64_t kind_on_page(const Segment& segment) {
  const bool is_unassigned = segment.chunk == no_index && segment.name == unassigned_segment;
  return is_unassigned ? pass_kind_count : static_cast<std::int64_t>(segment.kind);
}

void add_segments(const Plan& plan, ColumnWriter& columns, StringTable& strings) {
  const BoundChunks bound(plan);
  Column kind, name, count;
  std::array<Column, 2> chunk_index, stage;  // by binding
  for (Index s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    kind.push_back(kind_on_page(segment));
    name.push_back(strings.index(segment.name));
    for (std::uint8_t b = 0; b < 2; ++b) {
      const Index chunk = bound.of(s, b);
      chunk_index[b].push_back(chunk == no_index ? -1 : plan.chunks[chunk].index);
      stage[b].push_back(chunk == no_index ? -1 : plan.chunks[chunk].stage);
    }
    count.push_back(static_cast<std::int64_t>(segment.instructions.size()));
  }
  for (const Column& column : {kind, name, chunk_index[0], stage[0], chunk_index[1], stage[1], count})
    columns.add(column);
}

void add_instructions(const Plan& plan, ColumnWriter& columns, StringTable& strings) {
  Column whats, label, cause, phase, layer, stream, bytes, flops, channel, binding, group;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions) {
      const Communication* const exchange = instruction.communication < plan.communications.size()
                                                ? &plan.communications[instruction.communication]
                                                : nullptr;
      whats.push_back(strings.index(what(instruction)));
      label.push_back(strings.index(instruction.label));
      cause.push_back(strings.index(exchange == nullptr ? "" : exchange->cause));
      phase.push_back(static_cast<std::int64_t>(instruction.phase));
      layer.push_back(instruction.layer);
      stream.push_back(instruction.stream);
      bytes.push_back(bytes_of(plan, instruction));
      flops.push_back(flops_of(plan, instruction));
      const bool between_ranks = exchange != nullptr && exchange->channel != no_index;
      channel.push_back(between_ranks ? std::int64_t{exchange->channel} : -1);
      binding.push_back(instruction.binding);
      group.push_back(strings.index(group_text(exchange)));
    }
  for (const Column& column :
       {whats, label, cause, phase, layer, stream, bytes, flops, channel, binding, group})
    columns.add(column);
}

void add_link(const LinkTimeline& link, ColumnWriter& columns) {
  Column use;
  for (const float share : link.utilisation)
    use.push_back(std::lround(static_cast<double>(share) * use_steps));
  columns.add_differences(use);
}

void add_path(const Timeline& timeline, const CriticalPath& path, ColumnWriter& columns) {
  std::vector<std::int64_t> drawn;  // by rank of the timeline
  std::int64_t count = 0;
  for (const RankTimeline& rank : timeline.ranks) drawn.push_back(is_drawn(rank) ? count++ : -1);
  Column rank, lane, box;
  for (const CriticalStep& step : path.steps) {
    rank.push_back(drawn.at(step.rank));
    lane.push_back(step.lane);
    box.push_back(step.interval);
  }
  for (const Column& column : {rank, lane, box}) columns.add_differences(column);
}

}  // namespace

bool is_drawn(const RankTimeline& rank) {
  return !rank.lanes.empty() || !rank.passes.empty() || !rank.memory.empty();
}

bool is_drawn(const LinkTimeline& link) { return !link.utilisation.empty(); }

PagePayload page_payload(const Plan& plan, const Timeline& timeline, const CriticalPath& path) {
  ColumnWriter columns;
  StringTable strings;
  add_segments(plan, columns, strings);
  add_instructions(plan, columns, strings);
  for (const RankTimeline& rank : timeline.ranks)
    if (is_drawn(rank)) add_rank_columns(plan, rank, columns);
  for (const LinkTimeline& link : timeline.links)
    if (is_drawn(link)) add_link(link, columns);
  add_path(timeline, path, columns);
  return {columns.bytes(), strings.take()};
}

}  // namespace simrun
