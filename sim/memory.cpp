#include "sim/memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "schedules/extent_tables.h"

namespace simrun {

namespace {

LiveBytes sum(LiveBytes a, const LiveBytes& b) {
  for (std::size_t c = 0; c < a.size(); ++c) a[c] += b[c];
  return a;
}

// Which buffers are live in each of a few microbatches; the scopes wider than a microbatch count as in the
// first of them.
struct LiveSet {
  std::vector<std::int64_t> microbatches;
  std::vector<bool> live;  // [microbatch position][buffer]
};

// What one segment does to memory, given which wider-than-microbatch buffers are live when it begins.
struct Effect {
  LiveBytes net{}, highest{};
  std::int64_t highest_bytes = 0;
  Index highest_instruction = 0;
};

class Walker {
 public:
  Walker(const Plan& plan, const Program& program, WhichStep step, MemoryPlace place)
      : plan_(plan),
        program_(program),
        step_(step),
        place_(place),
        rows_(plan, program),
        live_wide_(plan.buffers.size(), false),
        segments_(plan.segments.size()) {}

  MemoryWalk walk(MemoryDetail detail) {
    MemoryWalk walk;
    walk.start = run_scope_bytes();
    walk.peak = {total(walk.start), walk.start, 0, 0};
    LiveBytes live = walk.start;
    for (Index e = 0; e < program_.entries.size(); ++e) {
      if (!runs(e)) continue;
      const Effect& effect = effect_of(e);
      const LiveBytes highest = sum(live, effect.highest);
      if (total(highest) > walk.peak.bytes)
        walk.peak = {total(highest), highest, e, effect.highest_instruction};
      const bool changes = effect.highest_bytes > 0 || effect.net != LiveBytes{};
      live = sum(live, effect.net);
      if (changes && detail == MemoryDetail::entries) walk.entries.push_back({e, highest, live});
    }
    return walk;
  }

 private:
  bool runs(Index entry) const { return runs_in(program_.entries[entry].steps, step_); }

  Index owner(Index buffer) const { return owner_of(plan_, buffer); }

  // Of a buffer that is no view; 0 if it is in another memory.
  std::int64_t bytes_of_owner(const Buffer& buffer, std::int32_t microbatch) const {
    if (buffer.space != place_.space) return 0;
    return instance_bytes(plan_, buffer, {program_.pipeline_rank, place_.local_gpu, microbatch});
  }

  bool is_wide(Index buffer) const {
    const Scope scope = plan_.buffers[buffer].scope;
    return scope == Scope::step || scope == Scope::chunk;
  }

  LiveBytes run_scope_bytes() const {
    std::vector<bool> visited(plan_.segments.size(), false), seen(plan_.buffers.size(), false);
    LiveBytes live{};
    const auto add = [&](Index buffer) {
      const Index index = owner(buffer);
      const Buffer& owned = plan_.buffers[index];
      if (owned.scope != Scope::run || seen[index]) return;
      seen[index] = true;
      live[static_cast<std::size_t>(owned.category)] += bytes_of_owner(owned, 0);
    };
    for (const Entry& entry : program_.entries) {
      if (visited[entry.segment]) continue;
      visited[entry.segment] = true;
      for (const Instruction& i : plan_.segments[entry.segment].instructions) {
        for (const Index buffer : i.inputs) add(buffer);
        for (const Index buffer : i.outputs) add(buffer);
      }
    }
    return live;
  }

  std::int64_t microbatch_of(const Entry& entry, std::uint8_t binding) const {
    if (binding >= entry.binding_count) return 0;
    const Binding& bound = program_.bindings[entry.first_binding + binding];
    return (static_cast<std::int64_t>(bound.slice) << 32) + bound.microbatch;
  }

  // Where a buffer instance stands in the set, or -1 if it is of another microbatch.
  std::ptrdiff_t place(const LiveSet& set, std::int64_t microbatch, Index buffer) const {
    const auto& in = set.microbatches;
    const auto found = is_wide(buffer) ? in.begin() : std::find(in.begin(), in.end(), microbatch);
    if (found == in.end()) return -1;
    return (found - in.begin()) * static_cast<std::ptrdiff_t>(plan_.buffers.size()) + buffer;
  }

  // Calls on_change(instruction, owner, +1 | -1) for every buffer instance of the set's microbatches that the
  // entry brings to life or frees.
  template <typename OnChange>
  void replay(const Entry& entry, LiveSet& set, OnChange on_change) const {
    const std::vector<Instruction>& instructions = plan_.segments[entry.segment].instructions;
    for (Index i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      const bool frees = instruction.opcode == Opcode::free;
      for (const Index buffer : frees ? instruction.inputs : instruction.outputs) {
        if (frees && plan_.buffers[buffer].parent != no_index) continue;
        const Index owned = owner(buffer);
        if (plan_.buffers[owned].scope == Scope::run) continue;
        const std::ptrdiff_t at = place(set, microbatch_of(entry, instruction.binding), owned);
        if (at < 0 || set.live[static_cast<std::size_t>(at)] != frees) continue;
        set.live[static_cast<std::size_t>(at)] = !frees;
        on_change(i, owned, frees ? -1 : 1);
      }
    }
  }

  // The instances live when entry `end` begins that it can touch: of its own microbatches, and the wide ones.
  LiveSet live_before(Index end) const {
    const Entry& last = program_.entries[end];
    LiveSet set;
    for (std::uint8_t b = 0; b < std::max<std::uint8_t>(last.binding_count, 1); ++b)
      set.microbatches.push_back(microbatch_of(last, b));
    set.live.assign(set.microbatches.size() * plan_.buffers.size(), false);
    for (Index e = 0; e < end; ++e) {
      const Entry& entry = program_.entries[e];
      bool shares = entry.binding_count == 0;
      for (std::uint8_t b = 0; b < entry.binding_count; ++b)
        shares |= std::find(set.microbatches.begin(), set.microbatches.end(), microbatch_of(entry, b)) !=
                  set.microbatches.end();
      if (shares && runs(e)) replay(entry, set, [](Index, Index, int) {});
    }
    for (Index buffer = 0; buffer < live_wide_.size(); ++buffer)
      if (is_wide(buffer)) set.live[buffer] = live_wide_[buffer];
    return set;
  }

  std::vector<Index> wide_buffers(Index segment) const {
    std::vector<Index> wide;
    for (const Instruction& i : plan_.segments[segment].instructions)
      for (const Index buffer : i.opcode == Opcode::free ? i.inputs : i.outputs)
        if (is_wide(owner(buffer))) wide.push_back(owner(buffer));
    std::sort(wide.begin(), wide.end());
    wide.erase(std::unique(wide.begin(), wide.end()), wide.end());
    return wide;
  }

  const Effect& effect_of(Index e) {
    const Index segment = program_.entries[e].segment;
    SegmentEffects& of = segments_[segment];
    std::vector<std::int64_t> rows = rows_.of(program_.entries[e]);
    if (of.known.empty()) of.wide = wide_buffers(segment);
    // Nothing wide was born or freed since this segment last ran: the effect is the same and changes nothing
    // wide.
    if (of.last != nullptr && of.last_change == wide_changes_ && of.last_rows == rows) return of.last->effect;
    std::vector<bool> before;
    for (const Index buffer : of.wide) before.push_back(live_wide_[buffer]);
    of.last_rows = rows;
    const auto [found, fresh] = of.known.try_emplace({std::move(rows), before});
    if (fresh) found->second = evaluate(e, of.wide);
    const std::vector<bool>& after = found->second.wide_after;
    for (std::size_t w = 0; w < of.wide.size(); ++w) live_wide_[of.wide[w]] = after[w];
    if (after != before) ++wide_changes_;
    of.last = after == before ? &found->second : nullptr;
    of.last_change = wide_changes_;
    return found->second.effect;
  }

  struct Known {
    Effect effect;
    std::vector<bool> wide_after;
  };
  // Of one segment: the wide buffers that it touches and its effect by the rows of its tables and by which of
  // them are live.
  struct SegmentEffects {
    std::vector<Index> wide;
    std::map<std::pair<std::vector<std::int64_t>, std::vector<bool>>, Known> known;
    const Known* last = nullptr;
    std::vector<std::int64_t> last_rows;
    std::int64_t last_change = -1;
  };
  Known evaluate(Index e, const std::vector<Index>& wide) const {
    const Entry& entry = program_.entries[e];
    LiveSet set = live_before(e);
    Known known;
    replay(entry, set, [&](Index instruction, Index buffer, int sign) {
      const Buffer& changed = plan_.buffers[buffer];
      const std::uint8_t binding = plan_.segments[entry.segment].instructions[instruction].binding;
      const auto microbatch = static_cast<std::int32_t>(microbatch_of(entry, binding) & 0xffffffff);
      known.effect.net[static_cast<std::size_t>(changed.category)] +=
          sign * bytes_of_owner(changed, microbatch);
      const std::int64_t bytes = total(known.effect.net);
      if (bytes <= known.effect.highest_bytes) return;
      known.effect.highest = known.effect.net;
      known.effect.highest_bytes = bytes;
      known.effect.highest_instruction = instruction;
    });
    for (const Index buffer : wide) known.wide_after.push_back(set.live[buffer]);
    return known;
  }

  const Plan& plan_;
  const Program& program_;
  const WhichStep step_;
  const MemoryPlace place_;
  const MicrobatchRows rows_;
  std::vector<bool> live_wide_;  // by buffer
  std::int64_t wide_changes_ = 0;
  std::vector<SegmentEffects> segments_;
};

}  // namespace

MemoryWalk walk_memory(const Plan& plan, const Program& program, WhichStep step, MemoryDetail detail,
                       MemoryPlace place) {
  return Walker(plan, program, step, place).walk(detail);
}

MemoryWalk walk_memory(const Plan& plan, const Program& program, WhichStep step, MemoryDetail detail) {
  const TableClasses classes = table_classes(plan, program);
  std::int64_t fullest = 0, most = -1;
  for (const std::int64_t gpu : classes.first_gpu) {
    if (classes.first_gpu.size() == 1) break;
    const std::int64_t peak = walk_memory(plan, program, step, MemoryDetail::peak, {gpu}).peak.bytes;
    if (peak > most) fullest = gpu;
    most = std::max(most, peak);
  }
  return walk_memory(plan, program, step, detail, {fullest});
}

std::int64_t peak_outside(const Plan& plan, const Program& program, MemorySpace space) {
  if (std::none_of(plan.buffers.begin(), plan.buffers.end(),
                   [space](const Buffer& buffer) { return buffer.space == space; }))
    return 0;
  std::int64_t most = 0;
  for (const std::int64_t gpu : table_classes(plan, program).first_gpu)
    most = std::max(
        most, Walker(plan, program, WhichStep::steady, {gpu, space}).walk(MemoryDetail::peak).peak.bytes);
  return most;
}

std::vector<MemoryEvent> memory_events(const MemoryWalk& walk, const std::vector<IssueTimes>& times) {
  std::vector<MemoryEvent> events = {{0, walk.start}};
  for (const EntryMemory& entry : walk.entries) {
    const IssueTimes& at = times[entry.entry];
    if (entry.peak != events.back().live) events.push_back({at.begin, entry.peak});
    if (entry.after != events.back().live) events.push_back({at.end, entry.after});
  }
  return events;
}

}  // namespace simrun
