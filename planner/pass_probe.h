#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/pass_costs.h"
#include "schedules/buffer_instances.h"
#include "schedules/compile.h"
#include "sim/durations.h"
#include "sim/held_memory.h"
#include "sim/memory.h"
#include "sim/pass_walk.h"
#include "sim/step_clock.h"

namespace simrun {

// A compiled job of two stages, and what its parts cost: for PassProbes alone.
class PassProbe {
 public:
  // `like`: a probe that splits the ranks alike, and outlives this one; or nullptr.
  PassProbe(const Job& job, PassProbe* like)
      : plan_(with_step_clock(compile(job))),
        durations_(plan_, nullptr, like == nullptr ? nullptr : &like->durations_) {
    for (const Buffer& buffer : plan_.buffers)
      if (buffer.category == Category::gradients && buffer.parameter != no_index)
        trained_.insert(buffer.parameter);
  }

  // Of one of the two stages, by layer of it; the last entry is what is in none.
  std::vector<PartCost> parts(Index chunk) {
    const Chunk& of = plan_.chunks[chunk];
    std::vector<PartCost> costs(static_cast<std::size_t>(of.layers) + 1);
    const Segment& forward = segment(chunk, PassKind::forward);
    const Segment& backward = segment(chunk, PassKind::backward);
    add_times(forward, of, costs, &PartCost::forward_s);
    add_times(backward, of, costs, &PartCost::backward_s);
    add_cast_times(chunk, costs);
    const std::vector<bool> is_weight = weight_half(backward);
    add_split_times(backward, is_weight, of, costs);
    add_held(forward, of, costs);
    add_pass_peaks(chunk, costs);
    add_put_off(backward, is_weight, of, costs);
    add_elements(chunk, costs);
    add_copies(chunk, costs);
    return costs;
  }

  // Bytes per element, from the buffers of stages that live for ever: by stage, its parts. The second has its
  // say where the first one trains nothing.
  void set_bytes(const std::array<std::vector<PartCost>, 2>& parts, PassCosts& costs) const {
    double trained = 0, frozen = 0, copies = 0;
    LiveBytes start = {};
    for (std::size_t rank = 0; rank < parts.size() && trained == 0; ++rank) {
      for (const PartCost& part : parts[rank]) {
        trained += part.dense_elements + part.expert_elements;
        frozen += part.frozen_elements + part.frozen_expert_elements;
        copies += part.copy_bytes + part.frozen_copy_bytes;
      }
      const LiveBytes of_rank =
          walk_memory(plan_, plan_.programs[rank], WhichStep::steady, MemoryDetail::peak).start;
      for (std::size_t category = 0; category < start.size(); ++category)
        start[category] += of_rank[category];
    }
    const auto bytes = [&](Category category) {
      return static_cast<double>(start[static_cast<std::size_t>(category)]);
    };
    costs.weight_bytes = (bytes(Category::weights) - copies) / std::max(trained + frozen, 1.0);
    costs.gradient_bytes = bytes(Category::gradients) / std::max(trained, 1.0);
    costs.state_bytes = bytes(Category::optimizer) / std::max(trained, 1.0);
    costs.room_bytes = static_cast<double>(room_for_plan(plan_, plan_.programs[0]));
  }

  // Of parameters that both stages have.
  void set_tied(PassCosts& costs) const {
    std::set<Index> first;
    for_each_weight(0, [&](const Instruction&, const Buffer& buffer) { first.insert(buffer.parameter); });
    for_each_weight(1, [&](const Instruction&, const Buffer& buffer) {
      double& elements = is_trained(buffer) ? costs.tied_elements : costs.tied_frozen_elements;
      if (first.contains(buffer.parameter)) elements += static_cast<double>(buffer.elements());
    });
  }

  double transient(std::size_t rank) const {
    const Program& program = plan_.programs[rank];
    const MemoryWalk walk = walk_memory(plan_, program, WhichStep::steady, MemoryDetail::entries);
    std::int64_t before = total(walk.start), most = 0;
    for (const EntryMemory& memory : walk.entries) {
      const std::int64_t after = total(memory.after);
      most = std::max(most, total(memory.peak) - std::max(before, after));
      before = after;
    }
    return static_cast<double>(most);
  }

 private:
  static std::int64_t total(const LiveBytes& live) {
    return std::accumulate(live.begin(), live.end(), std::int64_t{0});
  }
  std::size_t part_of(const Chunk& chunk, std::int32_t layer) const {
    const bool is_inside = layer >= chunk.first_layer && layer < chunk.first_layer + chunk.layers;
    return static_cast<std::size_t>(is_inside ? layer - chunk.first_layer : chunk.layers);
  }
  const Segment& segment(Index chunk, PassKind kind) const {
    return *std::ranges::find_if(plan_.segments,
                                 [&](const Segment& of) { return of.chunk == chunk && of.kind == kind; });
  }

  // The second of two equal passes: what one adds behind itself counts.
  void add_times(const Segment& pass, const Chunk& chunk, std::vector<PartCost>& costs,
                 double PartCost::*time) {
    PassWalk walk(plan_, durations_, chunk.pipeline_rank);
    for (int run = 0; run < 2; ++run) {
      walk.begin_pass(pass.instructions);
      for (const Instruction& instruction : pass.instructions) {
        const Picoseconds before = walk.computed();
        walk.step(instruction);
        if (run == 1) costs[part_of(chunk, instruction.layer)].*time += to_seconds(walk.computed() - before);
      }
    }
  }

  // What the step's first pass takes longer than the others.
  void add_cast_times(Index chunk, std::vector<PartCost>& costs) {
    const Segment& plain = segment(chunk, PassKind::forward);
    for (const Segment& of : plan_.segments)
      if (of.chunk == chunk && of.kind == PassKind::forward && &of != &plain) {
        add_times(of, plan_.chunks[chunk], costs, &PartCost::cast_s);
        for (PartCost& part : costs) part.cast_s = std::max(part.cast_s - part.forward_s, 0.0);
        return;
      }
  }

  // Likewise, as if what is for weights alone ran behind all the rest.
  void add_split_times(const Segment& backward, const std::vector<bool>& is_weight, const Chunk& chunk,
                       std::vector<PartCost>& costs) {
    PassWalk walk(plan_, durations_, chunk.pipeline_rank);
    for (int run = 0; run < 2; ++run) {
      walk.begin_pass(backward.instructions);
      for (const bool half : {false, true})
        for (std::size_t i = 0; i < is_weight.size(); ++i) {
          if (is_weight[i] != half) continue;
          const Instruction& instruction = backward.instructions[i];
          const Picoseconds before = walk.computed();
          walk.step(instruction);
          PartCost& part = costs[part_of(chunk, instruction.layer)];
          if (run == 1) (half ? part.weight_s : part.input_s) += to_seconds(walk.computed() - before);
        }
    }
  }

  void add_held(const Segment& forward, const Chunk& chunk, std::vector<PartCost>& costs) const {
    std::map<Index, std::size_t> written;  // part by buffer
    for (const Instruction& instruction : forward.instructions) {
      if (instruction.opcode == Opcode::free)
        for (const Index buffer : instruction.inputs) written.erase(buffer);
      else
        for (const Index buffer : instruction.outputs)
          if (plan_.buffers[buffer].scope != Scope::run && plan_.buffers[buffer].space == MemorySpace::device)
            written.emplace(buffer, part_of(chunk, instruction.layer));
    }
    for (const auto& [buffer, part] : written)
      costs[part].held_bytes += static_cast<double>(plan_.buffers[buffer].bytes());
  }

  // By instruction of a backward pass: whether it is of the half for weights alone, as split_backward()
  // divides a chunk's code (schedules/backward_split.h). Frees are of neither.
  std::vector<bool> weight_half(const Segment& backward) const {
    std::vector<bool> is_weight(backward.instructions.size(), false);
    std::set<Index> wanted;
    for (std::size_t i = is_weight.size(); i-- > 0;) {
      const Instruction& of = backward.instructions[i];
      if (of.opcode == Opcode::free) continue;
      is_weight[i] = of.phase != Phase::backward_input && of.opcode != Opcode::send &&
                     std::ranges::none_of(
                         of.outputs, [&](Index output) { return wanted.contains(owner_of(plan_, output)); });
      if (is_weight[i]) continue;
      for (const Index input : of.inputs)
        if (counts(plan_.buffers[owner_of(plan_, input)])) wanted.insert(owner_of(plan_, input));
    }
    return is_weight;
  }

  // What the half for weights reads and does not write.
  void add_put_off(const Segment& backward, const std::vector<bool>& is_weight, const Chunk& chunk,
                   std::vector<PartCost>& costs) const {
    std::set<Index> seen;
    for (std::size_t i = 0; i < is_weight.size(); ++i) {
      if (!is_weight[i]) continue;
      const Instruction& instruction = backward.instructions[i];
      for (const Index input : instruction.inputs) {
        const Index buffer = owner_of(plan_, input);
        if (counts(plan_.buffers[buffer]) && seen.insert(buffer).second)
          costs[part_of(chunk, instruction.layer)].put_off_bytes +=
              static_cast<double>(plan_.buffers[buffer].bytes());
      }
      for (const Index output : instruction.outputs) seen.insert(owner_of(plan_, output));
    }
  }

  bool is_trained(const Buffer& weight) const { return trained_.contains(weight.parameter); }

  bool counts(const Buffer& buffer) const {
    return buffer.scope != Scope::run && buffer.scope != Scope::step && buffer.space == MemorySpace::device;
  }

  // Of a pass that begins with `live`, the most that is live in each part.
  void add_highest(const Segment& pass, const Chunk& chunk, std::set<Index>& live,
                   std::vector<double>& highest) const {
    const std::size_t layers = highest.size() - 1;
    const bool is_first = chunk.pipeline_rank == 0, is_forward = pass.kind == PassKind::forward;
    double bytes = 0;
    for (const Index buffer : live) bytes += static_cast<double>(plan_.buffers[buffer].bytes());
    // What no layer has is in front of the first stage's layers and behind the last one's; what is sent there
    // belongs to the layer that reads it.
    std::size_t here = is_first == is_forward ? layers : is_first ? layers - 1 : layers;
    for (const Instruction& instruction : pass.instructions) {
      if (const std::size_t part = part_of(chunk, instruction.layer); part != layers)
        here = part;
      else if (is_forward ? !is_first : is_first && here == 0)
        here = layers;
      const bool frees = instruction.opcode == Opcode::free;
      for (const Index of : frees ? instruction.inputs : instruction.outputs) {
        if (frees && plan_.buffers[of].parent != no_index) continue;
        const Index buffer = owner_of(plan_, of);
        if (!counts(plan_.buffers[buffer])) continue;
        const bool changes = frees ? live.erase(buffer) > 0 : live.insert(buffer).second;
        if (changes) bytes += (frees ? -1 : 1) * static_cast<double>(plan_.buffers[buffer].bytes());
      }
      if (!frees) highest[here] = std::max(highest[here], bytes);
    }
  }

  void add_pass_peaks(Index chunk, std::vector<PartCost>& costs) const {
    const std::size_t layers = costs.size() - 1;
    std::vector<double> highest(costs.size(), 0);
    std::set<Index> live;
    for (const PassKind kind : {PassKind::forward, PassKind::backward})
      add_highest(segment(chunk, kind), plan_.chunks[chunk], live, highest);
    double before = chunk == 0 ? costs[layers].held_bytes : 0;  // what parts in front hold
    for (std::size_t layer = 0; layer < layers; before += costs[layer++].held_bytes)
      costs[layer].pass_peak_bytes = costs[layer].layer_peak_bytes =
          std::max(highest[layer] - before, costs[layer].held_bytes);
    costs[layers].pass_peak_bytes =
        std::max(highest[layers] - (chunk == 0 ? 0 : before), costs[layers].held_bytes);
  }

  // Of all forward passes of a stage: the first one of a step also casts weights to fp8, whose copies are
  // what the others read.
  template <typename Visit>
  void for_each_forward(Index chunk, const Visit& visit) const {
    for (const Segment& of : plan_.segments)
      if (of.chunk == chunk && of.kind == PassKind::forward)
        for (const Instruction& instruction : of.instructions) visit(instruction);
  }

  // Of parameters that a stage reads, by ModelParameter::id.
  template <typename Visit>
  void for_each_weight(Index chunk, const Visit& visit) const {
    std::set<Index> seen;
    for_each_forward(chunk, [&](const Instruction& instruction) {
      for (const Index input : instruction.inputs) {
        const Buffer& buffer = plan_.buffers[input];
        if (buffer.category != Category::weights || buffer.parameter == no_index) continue;
        if (seen.insert(buffer.parameter).second) visit(instruction, buffer);
      }
    });
  }

  void add_copies(Index chunk, std::vector<PartCost>& costs) const {
    std::set<Index> seen;
    for_each_forward(chunk, [&](const Instruction& cast) {
      for (const Index output : cast.outputs) {
        const Buffer& buffer = plan_.buffers[output];
        if (buffer.category != Category::weights || buffer.scope != Scope::run) continue;
        if (!seen.insert(output).second) continue;
        PartCost& part = costs[part_of(plan_.chunks[chunk], cast.layer)];
        double& bytes =
            is_trained(plan_.buffers[cast.inputs.front()]) ? part.copy_bytes : part.frozen_copy_bytes;
        bytes += static_cast<double>(buffer.bytes());
      }
    });
  }

  void add_elements(Index chunk, std::vector<PartCost>& costs) const {
    for_each_weight(chunk, [&](const Instruction& reader, const Buffer& buffer) {
      PartCost& part = costs[part_of(plan_.chunks[chunk], reader.layer)];
      const bool of_experts = buffer.name.find("expert_") != std::string::npos &&
                              buffer.name.find("shared_expert") == std::string::npos;
      double& elements = is_trained(buffer) ? of_experts ? part.expert_elements : part.dense_elements
                         : of_experts       ? part.frozen_expert_elements
                                            : part.frozen_elements;
      // Weights in NF4, of layers alone, count as many elements of the others as take their bytes.
      elements += buffer.dtype == Dtype::fp4 ? static_cast<double>(buffer.stored_bytes()) /
                                                   static_cast<double>(bytes_of(plan_.job.precision))
                                             : static_cast<double>(buffer.elements());
    });
  }

  Plan plan_;
  Durations durations_;
  std::set<Index> trained_;  // parameters
};

}  // namespace simrun
