#include "tests/sim/unfolded_plan.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "schedules/extent_tables.h"
#include "sim/exchange_groups.h"

namespace simrun {
namespace {

class Unfolding {
 public:
  explicit Unfolding(const Plan& plan) : plan_(plan) {
    std::int32_t gpus = 0;
    for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
      first_gpu_.push_back(gpus);
      gpus += static_cast<std::int32_t>(device_count(plan, static_cast<std::int32_t>(rank)));
    }
  }

  Plan run() {
    out_.job = plan_.job;
    out_.cluster = plan_.cluster;
    out_.dimension_names = plan_.dimension_names;
    out_.streams = plan_.streams;
    for (const Program& program : plan_.programs)
      for (std::int64_t i = 0; i < device_count(plan_, program.pipeline_rank); ++i) add_gpu(program, i);
    return std::move(out_);
  }

 private:
  // A GPU of the folded plan, and where its copies begin in the unfolded one.
  struct Gpu {
    std::int32_t rank = 0;
    std::int64_t local = 0;
    Index buffers = 0;
    std::int32_t tables = 0;
  };

  // Its number in the unfolded plan.
  std::int32_t number_of(std::int32_t rank, std::int64_t device) const {
    return first_gpu_.at(static_cast<std::size_t>(rank)) +
           static_cast<std::int32_t>(local_index(plan_, rank, device));
  }

  void add_gpu(const Program& program, std::int64_t local) {
    const std::int32_t rank = program.pipeline_rank;
    const Gpu gpu{rank, local, static_cast<Index>(out_.buffers.size()),
                  static_cast<std::int32_t>(out_.extent_tables.size())};
    const auto number = static_cast<std::int32_t>(out_.stages.size());
    StageDevices stage = plan_.stages[static_cast<std::size_t>(rank)];
    stage.devices = {{device_at(plan_, rank, local), 1}};
    for (Mesh& mesh : stage.meshes)
      for (Axis& axis : mesh.axes) axis.size = 1;
    out_.stages.push_back(std::move(stage));
    for (const ExtentTable& table : plan_.extent_tables) add_table(table, gpu);
    for (Buffer buffer : plan_.buffers) {
      if (buffer.parent != no_index) buffer.parent += gpu.buffers;
      for (BufferDim& dim : buffer.dims)
        if (dim.table >= 0) dim.table += gpu.tables;
      buffer.split.clear();
      out_.buffers.push_back(std::move(buffer));
    }
    chunk_of_.assign(plan_.chunks.size(), no_index);
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      if (plan_.chunks[c].pipeline_rank != rank) continue;
      chunk_of_[c] = static_cast<Index>(out_.chunks.size());
      out_.chunks.push_back(plan_.chunks[c]);
      out_.chunks.back().pipeline_rank = number;
      out_.chunks.back().stage =
          plan_.chunks[c].stage * static_cast<std::int32_t>(plan_.ranks()) + static_cast<std::int32_t>(local);
    }
    add_program(program, gpu, number);
  }

  // The values that this GPU finds in it.
  void add_table(const ExtentTable& table, const Gpu& gpu) {
    ExtentTable own = table;
    own.axes.clear();
    own.values.clear();
    const std::int64_t rows = table.values.empty() || table_coordinates(plan_, table, gpu.rank) == 0
                                  ? 0
                                  : table_rows(plan_, table, gpu.rank);
    for (std::int64_t row = 0; row < rows; ++row)
      own.values.push_back(table_value(plan_, table, {gpu.rank, gpu.local, static_cast<std::int32_t>(row)}));
    out_.extent_tables.push_back(std::move(own));
  }

  void add_program(const Program& program, const Gpu& gpu, std::int32_t number) {
    Program own = program;
    own.pipeline_rank = number;
    for (Binding& binding : own.bindings) binding.chunk = chunk_of_.at(binding.chunk);
    for (Index e = 0; e < own.entries.size(); ++e) {
      Segment segment = plan_.segments[own.entries[e].segment];
      if (segment.chunk != no_index) segment.chunk = chunk_of_.at(segment.chunk);
      std::map<std::tuple<std::vector<std::uint8_t>, std::int32_t, Opcode>, Index> ring_steps;
      for (Index i = 0; i < segment.instructions.size(); ++i) {
        Instruction& what = segment.instructions[i];
        for (std::vector<Index>* list : {&what.inputs, &what.outputs, &what.waits_for})
          for (Index& buffer : *list) buffer += gpu.buffers;
        if (what.work_table >= 0) what.work_table += gpu.tables;
        if (!is_communication(what.opcode)) continue;
        const Communication& folded = plan_.communications[what.communication];
        const bool transfer = what.opcode == Opcode::send || what.opcode == Opcode::recv;
        Index nth = i;
        if (transfer) {
          const std::int32_t steps = what.opcode == Opcode::recv ? -folded.peer.offset : folded.peer.offset;
          nth = ring_steps[{folded.peer.axes, steps, what.opcode}]++;
        }
        out_.communications.push_back(transfer ? own_transfer(folded, what, gpu, {e, nth})
                                               : own_collective(folded, gpu, {e, nth}));
        what.communication = static_cast<Index>(out_.communications.size() - 1);
      }
      own.entries[e].segment = static_cast<Index>(out_.segments.size());
      out_.segments.push_back(std::move(segment));
    }
    out_.programs.push_back(std::move(own));
  }

  // Which exchange of a program: its entry, and its number there.
  struct Occurrence {
    Index entry = 0, nth = 0;
  };
  // Exchanges between stages are one by the folded channel, whatever the entry; inside a stage by the entry.
  Index channel(const Communication& folded, const Gpu& gpu, const Occurrence& place,
                std::vector<std::int64_t> ends) {
    if (folded.channel == no_index)
      ends.insert(ends.end(), {gpu.rank, place.entry, place.nth});
    else
      ends.push_back(folded.channel);
    return channels_.try_emplace(std::move(ends), static_cast<Index>(channels_.size())).first->second;
  }

  Communication own_transfer(const Communication& folded, const Instruction& what, const Gpu& gpu,
                             const Occurrence& place) {
    const std::int32_t other = folded.peer.pipeline_rank >= 0 ? folded.peer.pipeline_rank : gpu.rank;
    const std::int64_t peer = peer_of(plan_, gpu.rank, folded, gpu.local);
    if (peer < 0) throw std::invalid_argument("a GPU without a partner: " + what.label);
    Communication own;
    own.cause = folded.cause;
    own.peer.pipeline_rank = number_of(other, peer);
    const std::int64_t self = number_of(gpu.rank, device_at(plan_, gpu.rank, gpu.local));
    const bool sends = what.opcode == Opcode::send;
    const std::int32_t steps = sends ? folded.peer.offset : -folded.peer.offset;
    std::vector<std::int64_t> ends{sends ? self : own.peer.pipeline_rank,
                                   sends ? own.peer.pipeline_rank : self, -1, steps};
    ends.insert(ends.end(), folded.peer.axes.begin(), folded.peer.axes.end());
    own.channel = channel(folded, gpu, place, std::move(ends));
    return own;
  }

  Communication own_collective(const Communication& folded, const Gpu& gpu, const Occurrence& place) {
    Communication own;
    own.cause = folded.cause;
    own.reduction = folded.reduction;
    const Index instance =
        instance_of_devices(plan_, gpu.rank, folded.group).at(static_cast<std::size_t>(gpu.local));
    const std::vector<std::int64_t> members = group_instances(plan_, gpu.rank, folded.group).at(instance);
    std::vector<std::int32_t> ranks = folded.group.pipeline_ranks;
    if (ranks.empty()) ranks = {gpu.rank};
    for (const std::int64_t device : members)
      for (const std::int32_t rank : ranks)
        if (local_index(plan_, rank, device) != no_index)
          own.group.pipeline_ranks.push_back(number_of(rank, device));
    std::vector<std::int64_t> ends(own.group.pipeline_ranks.begin(), own.group.pipeline_ranks.end());
    own.channel = channel(folded, gpu, place, std::move(ends));
    return own;
  }

  const Plan& plan_;
  std::vector<std::int32_t> first_gpu_;  // by pipeline rank
  std::map<std::vector<std::int64_t>, Index> channels_;
  std::vector<Index> chunk_of_;  // of the GPU that is added
  Plan out_;
};

}  // namespace

Plan unfolded(const Plan& plan) { return Unfolding(plan).run(); }

}  // namespace simrun
