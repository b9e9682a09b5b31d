#include "sim/pass_level_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "schedules/plan_frame.h"
#include "sim/compiled_program.h"
#include "sim/compute_overlap.h"
#include "sim/durations.h"
#include "sim/kernel_slowdowns.h"
#include "sim/memory.h"

namespace simrun {
namespace {

void require_whole_passes(const Plan& plan, const CompiledPlan& compiled, const Durations& durations) {
  const auto refuse = [](const char* why) { throw std::invalid_argument(why); };
  if (compiled.has_classes() || !durations.uniform() || !KernelSlowdowns(plan.cluster).empty())
    refuse("ranks of a stage are unequal");
  if (communication_share(plan.cluster.gpu) > 0) refuse("communication slows compute down");
  if (plan.cluster.communication == CommunicationMode::blocking || plan.framework.kernels.blocks())
    refuse("communication blocks compute");
  if (plan.job.parameter_servers) refuse("parameters are exchanged within passes");
}

std::int64_t total_bytes(const LiveBytes& live) {
  return std::accumulate(live.begin(), live.end(), std::int64_t{0});
}

// Collapses the code of one pipeline rank after the other.
class PassCollapser {
 public:
  explicit PassCollapser(const Plan& plan)
      : plan_(plan),
        durations_(plan),
        compiled_(compile_programs(plan, WhichStep::steady, durations_)),
        streams_(plan.streams.size()) {
    require_whole_passes(plan, compiled_, durations_);
  }

  PassLevelPlan collapse() {
    level_.streams = static_cast<std::uint8_t>(streams_);
    level_.reducing_stream = StreamIndex::dp;
    for (const Channel& channel : compiled_.channels) {
      first_transfer_.push_back(level_.transfers);
      if (channel.point_to_point) level_.transfers += static_cast<std::int32_t>(channel.instances);
    }
    for (std::size_t rank = 0; rank < compiled_.ranks.size(); ++rank) add_rank(rank);
    return std::move(level_);
  }

 private:
  // What is known of one segment of the present rank.
  struct CollapsedSegment {
    bool is_known = false;
    PassLevelSegment segment;
    SlotReference arrival;  // that the pass reads
    bool awaits = false;
    bool waits_for_reductions = false;  // that the same pass of another microbatch begins
  };
  struct EntryBytes {
    std::int64_t net = 0, peak = 0;
  };

  void add_rank(std::size_t rank) {
    code_ = &compiled_.ranks[rank];
    const Program& program = plan_.programs[rank];
    collapsed_.assign(code_->segments.size(), {});
    numbers_.clear();
    arrived_.assign(code_->slots, -1);
    awaited_.assign(static_cast<std::size_t>(level_.transfers), false);
    reduced_.assign(code_->slots, false);
    gathered_.assign(code_->slots, 0);
    PassLevelRank& level = level_.ranks.emplace_back();
    const std::vector<EntryBytes> bytes = bytes_of_entries(program, level.start_bytes);
    for (const CompiledEntry& entry : code_->entries) {
      const PassKind kind = plan_.segments[program.entries[entry.entry].segment].kind;
      const EntryBytes& of = bytes[entry.entry];
      const bool is_last = &entry == &code_->entries.back();
      if (kind == PassKind::step && !is_last) {
        add_gathers(level, entry);
      } else if (kind == PassKind::step) {
        level.end_peak_bytes = of.peak;
        add_end(level, entry);
      } else {
        add_entry(level, entry, kind, of);
      }
    }
  }

  // In front of the passes, on one stream: parameters that the step before updated.
  void add_gathers(PassLevelRank& level, const CompiledEntry& entry) {
    if (!level.entries.empty()) throw std::invalid_argument("passes follow an end of the step");
    const CompiledSegment& segment = code_->segments[entry.segment];
    for (Index i = segment.first_step; i < segment.first_step + segment.steps; ++i) {
      const CompiledStep& step = code_->steps[i];
      if (plan_.streams[step.stream].traffic != Traffic::data)
        throw std::invalid_argument("a step begins with more than parameter gathers");
      level.gathered += step.duration;
      for (Index w = step.first_write; w < step.first_write + step.writes; ++w)
        gathered_[code_->slot(code_->references[w], entry)] = level.gathered;
    }
  }

  std::vector<EntryBytes> bytes_of_entries(const Program& program, std::int64_t& start) const {
    const MemoryWalk walk =
        walk_memory(plan_, program, WhichStep::steady, MemoryDetail::entries, MemoryPlace{});
    std::vector<EntryBytes> bytes(program.entries.size());
    start = total_bytes(walk.start);
    std::int64_t live = start;
    for (const EntryMemory& of : walk.entries) {
      bytes[of.entry] = {total_bytes(of.after) - live, total_bytes(of.peak) - live};
      live = total_bytes(of.after);
    }
    return bytes;
  }

  void add_entry(PassLevelRank& level, const CompiledEntry& entry, PassKind kind, const EntryBytes& bytes) {
    if (kind == PassKind::overlapped) throw std::invalid_argument("two passes run as one");
    CollapsedSegment& collapsed = collapsed_[entry.segment];
    if (collapsed.is_known) {
      refuse_if_waiting(collapsed);
    } else {
      collapsed.is_known = true;
      if (kind == PassKind::communication)
        collapse_transfer(collapsed, entry);
      else
        collapse_pass(collapsed, entry);
    }
    PassLevelEntry of;
    if (kind == PassKind::communication) {
      of.transfer = post_transfer(entry);
    } else if (collapsed.awaits) {
      of.transfer = arrived_[code_->slot(collapsed.arrival, entry)];
      awaited_.at(static_cast<std::size_t>(of.transfer)) = true;
    }
    const auto [number, is_new] = numbers_.try_emplace({entry.segment, bytes.net, bytes.peak},
                                                       static_cast<Index>(level_.segments.size()));
    if (is_new) {
      level_.segments.push_back(collapsed.segment);
      level_.segments.back().net_bytes = bytes.net;
      level_.segments.back().peak_bytes = bytes.peak;
    }
    of.segment = number->second;
    level.entries.push_back(of);
  }

  // ---- transfers ----

  const CompiledStep& transfer_step(const CompiledEntry& entry) const {
    const CompiledSegment& segment = code_->segments[entry.segment];
    const CompiledStep& step = code_->steps[segment.first_step];
    const bool is_one = segment.steps == 1 && step.exchange != no_index &&
                        compiled_.exchanges[step.exchange].channel != no_index &&
                        compiled_.channels[compiled_.exchanges[step.exchange].channel].point_to_point;
    if (!is_one) throw std::invalid_argument("something other than results of passes is exchanged");
    return step;
  }

  void collapse_transfer(CollapsedSegment& collapsed, const CompiledEntry& entry) const {
    const CompiledStep& step = transfer_step(entry);
    const bool sends = compiled_.exchanges[step.exchange].instruction->opcode == Opcode::send;
    collapsed.segment.kind = sends ? PassLevelKind::send : PassLevelKind::recv;
    collapsed.segment.behind = step.duration;
    collapsed.segment.stream = step.stream;
  }

  std::int32_t post_transfer(const CompiledEntry& entry) {
    const CompiledStep& step = transfer_step(entry);
    const std::int32_t number = first_transfer_[compiled_.exchanges[step.exchange].channel] +
                                static_cast<std::int32_t>(code_->instance(entry, step.binding));
    if (step.pipeline_arrival)
      for (Index w = step.first_write; w < step.first_write + step.writes; ++w)
        arrived_[code_->slot(code_->references[w], entry)] = number;
    return number;
  }

  // ---- passes ----

  // A rank that waits for nobody else runs the pass twice; what the second adds behind the first counts, so
  // that what goes on behind a pass counts only where it holds up the next.
  void collapse_pass(CollapsedSegment& collapsed, const CompiledEntry& entry) {
    std::vector<Picoseconds> tails(streams_, 0);
    for (int turn = 0; turn < 2; ++turn) {
      collapsed = {true, {}, {}, false, false};
      walk_pass(collapsed, entry, tails);
      if (turn == 0) refuse_if_waiting(collapsed);
    }
  }

  static void refuse_if_waiting(const CollapsedSegment& collapsed) {
    if (collapsed.waits_for_reductions)
      throw std::invalid_argument("passes wait for reductions of gradients");
  }

  void walk_pass(CollapsedSegment& collapsed, const CompiledEntry& entry, std::vector<Picoseconds>& tails) {
    const CompiledSegment& segment = code_->segments[entry.segment];
    const Picoseconds begin = tails[compute_stream];
    std::map<Index, Picoseconds> written;
    std::vector<std::pair<Picoseconds, Picoseconds>> reductions;  // ready, duration
    Picoseconds gathered = 0;  // when a pass that begins with the step could begin without waiting
    for (Index i = segment.first_step; i < segment.first_step + segment.steps; ++i) {
      const CompiledStep& step = code_->steps[i];
      Picoseconds ready = tails[compute_stream];
      for (Index r = step.first_read; r < step.first_read + step.reads; ++r) {
        const SlotReference& read = code_->references[r];
        const Index slot = code_->slot(read, entry);
        if (const auto at = written.find(slot); at != written.end())
          ready = std::max(ready, at->second);
        else if (is_yet_to_come(arrived_[slot]))
          note_arrival(collapsed, entry, read, tails[compute_stream] - begin);
        gathered = std::max(gathered, gathered_[slot] - (tails[compute_stream] - begin));
        collapsed.waits_for_reductions |=
            reduced_[slot] && plan_.streams[step.stream].traffic != Traffic::data;
      }
      if (step.exchange != no_index && compiled_.exchanges[step.exchange].channel != no_index)
        throw std::invalid_argument("stages talk to each other within passes");
      if (plan_.streams[step.stream].traffic == Traffic::data) {
        reductions.emplace_back(ready, step.duration);
        for (Index w = step.first_write; w < step.first_write + step.writes; ++w)
          reduced_[code_->slot(code_->references[w], entry)] = true;
        continue;
      }
      const Picoseconds end = std::max(ready, tails[step.stream]) + step.duration;
      tails[step.stream] = end;
      for (Index w = step.first_write; w < step.first_write + step.writes; ++w)
        written[code_->slot(code_->references[w], entry)] = end;
    }
    const Picoseconds end = tails[compute_stream];
    collapsed.segment.behind = end - begin - collapsed.segment.before;
    if (gathered > 0) collapsed.segment.earliest_end = gathered + end - begin;
    for (const auto& [ready, duration] : reductions)
      collapsed.segment.reductions.push_back({end - ready, duration});
  }

  // No earlier pass of the rank has waited for the transfer.
  bool is_yet_to_come(std::int32_t transfer) const {
    return transfer >= 0 && !awaited_[static_cast<std::size_t>(transfer)];
  }

  void note_arrival(CollapsedSegment& collapsed, const CompiledEntry& entry, const SlotReference& read,
                    Picoseconds before) const {
    if (!collapsed.awaits) {
      collapsed.awaits = true;
      collapsed.arrival = read;
      collapsed.segment.before = before;
    } else if (arrived_[code_->slot(read, entry)] != arrived_[code_->slot(collapsed.arrival, entry)]) {
      throw std::invalid_argument("a pass needs two transfers");
    }
  }

  // ---- the step's end ----

  void add_end(PassLevelRank& level, const CompiledEntry& entry) {
    const CompiledSegment& segment = code_->segments[entry.segment];
    std::map<Index, std::int32_t> result_of;
    const auto results = [&](Index first, Index count) {
      std::vector<std::int32_t> numbers;
      for (Index i = first; i < first + count; ++i) {
        const Index slot = code_->slot(code_->references[i], entry);
        const auto [at, is_new] = result_of.try_emplace(slot, level.results);
        if (is_new) level.from_reductions.push_back(reduced_[slot]);
        if (is_new) ++level.results;
        numbers.push_back(at->second);
      }
      return numbers;
    };
    for (Index i = segment.first_step; i < segment.first_step + segment.steps; ++i) {
      const CompiledStep& step = code_->steps[i];
      level.end.push_back({step.duration, step.stream, meeting_of(step), results(step.first_read, step.reads),
                           results(step.first_write, step.writes)});
    }
  }

  std::int32_t meeting_of(const CompiledStep& step) {
    if (step.exchange == no_index) return -1;
    const Index channel = compiled_.exchanges[step.exchange].channel;
    if (channel == no_index) return -1;
    const auto [number, is_new] =
        meetings_.try_emplace(channel, static_cast<std::int32_t>(level_.meetings.size()));
    if (is_new)
      level_.meetings.push_back(static_cast<std::int32_t>(compiled_.channels[channel].pipeline_ranks.size()));
    return number->second;
  }

  const Plan& plan_;
  Durations durations_;
  const CompiledPlan compiled_;
  const std::size_t streams_;
  PassLevelPlan level_;
  std::vector<std::int32_t> first_transfer_;  // by channel
  std::map<Index, std::int32_t> meetings_;    // by channel
  // Of the present rank.
  const CompiledRank* code_ = nullptr;
  std::vector<CollapsedSegment> collapsed_;
  std::vector<std::int32_t> arrived_;  // by slot: the last transfer that wrote it
  std::vector<bool> awaited_;          // by transfer: by a pass
  std::vector<Picoseconds> gathered_;  // by slot: when parameters are gathered; 0: they are not
  std::vector<bool> reduced_;          // by slot: reductions that passes begin write it
  std::map<std::tuple<Index, std::int64_t, std::int64_t>, Index> numbers_;  // by segment and its bytes
};

}  // namespace

PassLevelPlan pass_level_plan(const Plan& plan) { return PassCollapser(plan).collapse(); }

}  // namespace simrun
