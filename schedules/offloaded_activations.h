#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schedules/emit_segments.h"

namespace simrun {

// Activations that a pass keeps for its backward pass, to the host's memory behind each layer and back in
// front of it. The layer after next waits until a layer is there, so at most two are on the GPU; on the way
// back a layer is fetched while the one before it runs. Where only the first N of L layers leave, their
// copies have the time of all L: the one behind layer i is waited for, and begun on the way back, by layer (i
// + 1) L / N (TransformerEngine, cpu_offload.py, layer_window_map). Does nothing where `emission` has no host
// copies. Refers to its arguments.
class OffloadedActivations {
 public:
  OffloadedActivations(const ChunkEmission& emission, const ChunkCode& code);

  // Forward: in front of and behind step s; `instructions` ends with the step's own when it is called behind.
  void before_forward(std::size_t s, std::vector<Instruction>& instructions);
  void behind_forward(std::size_t s, std::vector<Instruction>& instructions);
  // The compute instruction of the step is about to be issued: it may have to wait for a layer on its way.
  void let_wait(std::size_t s, Instruction& instruction);

  // Backward: the pass runs steps[order[place]] for every place in [begin, end).
  void find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order, std::size_t begin,
            std::size_t end);
  void before_backward(std::size_t place, std::vector<Instruction>& instructions) const;

 private:
  using Values = std::vector<ValueId>;
  void set_windows();
  // The first place of the backward order, from `begin` on, by layer.
  std::map<std::int32_t, std::size_t> places_of_layers(const std::vector<CodeStep>& steps,
                                                       const std::vector<std::size_t>& order,
                                                       std::size_t begin, std::size_t end) const;
  Instruction copy(const Values& values, bool to_host, std::int32_t layer) const;
  Instruction release(const Values& values, bool on_host, Phase phase) const;

  const ChunkEmission& emission_;
  const ChunkCode& code_;
  std::vector<std::size_t> run_of_;        // by forward step: which run of steps of one layer
  std::vector<std::size_t> first_, last_;  // steps of a run
  std::vector<std::size_t> group_of_;      // by value: the run behind which it leaves; none: it stays
  std::vector<Values> leaving_;            // by run
  std::vector<std::size_t> gone_by_;       // by run: the one that begins when what leaves behind it is gone
  std::vector<std::vector<std::size_t>> gone_before_;  // by run: those whose gone_by_ it is
  std::vector<std::size_t>
      fetched_by_;            // by run: whose backward pass begins when its copy back does; none: at once
  bool has_windows_ = false;  // only the first layers leave
  std::vector<std::vector<Values>> fetched_;  // by place of the backward order
};

// Adds the host's copies of what may leave to a chunk's emission. `stays`: values of which other chunks or
// transfers know. `layers`: what the chunk's first so many layers keep; all_layers: what all of its keep.
void add_host_copies(Plan& plan, ChunkEmission& emission, const ChunkCode& code,
                     const std::vector<ValueId>& stays, int layers);

}  // namespace simrun
