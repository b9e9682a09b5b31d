#include "sim/dependencies.h"

#include <algorithm>
#include <unordered_map>

namespace simrun {

namespace {

// Writes of a buffer by one stream: of all of it, or of a view below it.
struct WriteKey {
  Index buffer = 0;
  std::uint8_t stream = 0;
  bool below = false;
  bool settled = true;  // compute has waited for every write by the end of the segment that wrote
  Index readers = 0;
  Index base = no_index;
};

struct KeyAccess {
  Index segment = 0, instruction = 0, key = 0;
  std::uint8_t binding = 0;
  bool from_earlier_entry = false;
};

bool is_timed(const Instruction& i) { return i.opcode != Opcode::free && i.opcode != Opcode::init; }

class DependencyFinder {
 public:
  DependencyFinder(const Plan& plan, const std::vector<Index>& segments, const DependencyBounds& bounds)
      : plan_(plan), segments_(segments), bounds_(bounds), written_(plan.buffers.size(), false) {}

  Dependencies find() {
    for (const Index segment : segments_)
      for (const Instruction& i : plan_.segments[segment].instructions)
        if (is_timed(i) && i.stream != compute_stream) add_keys(i);
    if (keys_.empty()) return {};
    for (Index s = 0; s < segments_.size(); ++s) scan(s);
    return number_slots();
  }

 private:
  enum class State : std::uint8_t { untouched, settled, written };

  void add_keys(const Instruction& instruction) {
    for (const Index output : instruction.outputs) {
      add_key(output, instruction.stream, false);
      for (Index up = plan_.buffers[output].parent; up != no_index; up = plan_.buffers[up].parent)
        add_key(up, instruction.stream, true);
    }
  }

  void add_key(Index buffer, std::uint8_t stream, bool below) {
    std::vector<Index>& keys = keys_of_[buffer];
    for (const Index key : keys)
      if (keys_[key].stream == stream && keys_[key].below == below) return;
    keys.push_back(static_cast<Index>(keys_.size()));
    keys_.push_back({.buffer = buffer, .stream = stream, .below = below});
    written_[buffer] = true;
  }

  // One segment in order of issue. `state_` tells per key and binding what compute has waited for.
  void scan(Index segment) {
    state_.assign(keys_.size() * bounds_.bindings, State::untouched);
    const std::vector<Instruction>& instructions = plan_.segments[segments_[segment]].instructions;
    for (Index i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (!is_timed(instruction)) continue;
      for (const Index buffer : instruction.inputs) read(segment, i, instruction, buffer);
      for (const Index buffer : instruction.waits_for) read(segment, i, instruction, buffer);
      if (instruction.accumulate)
        for (const Index buffer : instruction.outputs) read(segment, i, instruction, buffer);
      if (instruction.stream == compute_stream) continue;
      for (const Index buffer : instruction.outputs) {
        write(segment, i, instruction, buffer, false);
        for (Index up = plan_.buffers[buffer].parent; up != no_index; up = plan_.buffers[up].parent)
          write(segment, i, instruction, up, true);
      }
    }
    for (std::size_t s = 0; s < state_.size(); ++s)
      if (state_[s] == State::written) keys_[s / bounds_.bindings].settled = false;
  }

  bool has_instances(Index buffer) const {
    const Scope scope = plan_.buffers[buffer].scope;
    return scope == Scope::microbatch || scope == Scope::pass;
  }
  // Buffers of the wider scopes are the same in all bindings.
  std::uint8_t binding_of(Index key, const Instruction& i) const {
    return has_instances(keys_[key].buffer) ? i.binding : std::uint8_t{0};
  }
  State& state(Index key, std::uint8_t binding) { return state_[key * bounds_.bindings + binding]; }

  void read(Index segment, Index i, const Instruction& instruction, Index buffer) {
    for (Index up = buffer; up != no_index; up = plan_.buffers[up].parent) {
      if (!written_[up]) continue;
      for (const Index key : keys_of_[up]) {
        if (keys_[key].stream == instruction.stream || (keys_[key].below && up != buffer)) continue;
        const std::uint8_t binding = binding_of(key, instruction);
        State& seen = state(key, binding);
        if (seen == State::settled) continue;
        reads_.push_back({segment, i, key, binding, seen == State::untouched});
        if (instruction.stream == compute_stream) seen = State::settled;
      }
    }
  }

  void write(Index segment, Index i, const Instruction& instruction, Index buffer, bool below) {
    for (const Index key : keys_of_[buffer]) {
      if (keys_[key].stream != instruction.stream || keys_[key].below != below) continue;
      const std::uint8_t binding = binding_of(key, instruction);
      state(key, binding) = State::written;
      const bool again = !writes_.empty() && writes_.back().key == key && writes_.back().instruction == i &&
                         writes_.back().segment == segment;
      if (!again) writes_.push_back({segment, i, key, binding, false});
    }
  }

  bool per_instance(const WriteKey& key) const { return !key.settled && has_instances(key.buffer); }

  SlotReference reference(const KeyAccess& access) const {
    using Offset = SlotReference::Offset;
    const WriteKey& key = keys_[access.key];
    const Offset offset = key.settled ? Offset::binding : per_instance(key) ? Offset::instance : Offset::none;
    return {key.base, offset, access.binding};
  }

  Dependencies number_slots() {
    std::erase_if(reads_,
                  [&](const KeyAccess& read) { return read.from_earlier_entry && keys_[read.key].settled; });
    // Where nobody reads what an earlier entry wrote, one entry's writes are all that matter.
    std::vector<bool> outlives(keys_.size(), false);
    for (const KeyAccess& read : reads_)
      if (read.from_earlier_entry) outlives[read.key] = true;
    for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k].settled = !outlives[k];
    for (const KeyAccess& read : reads_) ++keys_[read.key].readers;
    Dependencies found;
    for (WriteKey& key : keys_) {
      if (key.readers == 0) continue;
      key.base = found.slots;
      found.slots += key.settled ? bounds_.bindings : per_instance(key) ? bounds_.instances : 1;
    }
    for (const KeyAccess& read : reads_)
      found.reads.push_back({read.segment, read.instruction, reference(read)});
    for (const KeyAccess& write : writes_)
      if (keys_[write.key].readers > 0)
        found.writes.push_back({write.segment, write.instruction, reference(write)});
    return found;
  }

  const Plan& plan_;
  const std::vector<Index>& segments_;
  const DependencyBounds bounds_;
  std::vector<bool> written_;  // by buffer: has keys
  std::unordered_map<Index, std::vector<Index>> keys_of_;
  std::vector<WriteKey> keys_;
  std::vector<State> state_;
  std::vector<KeyAccess> reads_, writes_;
};

}  // namespace

Dependencies find_dependencies(const Plan& plan, const std::vector<Index>& segments,
                               const DependencyBounds& bounds) {
  return DependencyFinder(plan, segments, bounds).find();
}

}  // namespace simrun
