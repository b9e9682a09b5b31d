#include "sim/core_replay.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/compiled_program.h"
#include "sim/exchange_groups.h"

namespace simrun {
namespace {

// Where the members of an exchange meet: a message from one device to another, or an instance of a group. The
// number counts those of one kind in the order of issue.
using MeetingKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

struct Thread {
  std::int32_t pipeline_rank = 0;
  std::int64_t local = 0, device = 0;
  std::size_t entry = 0, instruction = 0;
  bool has_posted = false;                   // that it is at the present instruction's meeting
  std::map<MeetingKey, std::int64_t> posts;  // by meeting, how often it was at it
};

struct CoreMeeting {
  std::deque<Picoseconds> messages;  // when each was sent, that nobody has received
  std::int64_t arrived = 0;          // members of a group
  Picoseconds latest = 0;            // when the last of those arrived
  std::vector<std::size_t> waiting;  // threads
};

class CoreReplay {
 public:
  CoreReplay(const Plan& plan, const InstructionCosts& costs) : plan_(plan), costs_(costs) {
    for (const Program& program : plan.programs)
      for (std::int64_t local = 0; local < device_count(plan, program.pipeline_rank); ++local)
        threads_.push_back(
            {program.pipeline_rank, local, device_at(plan, program.pipeline_rank, local), 0, 0, false, {}});
  }

  Picoseconds run(int cores) {
    for (std::size_t thread = 0; thread < threads_.size(); ++thread) ready_.push({0, thread});
    for (int core = 0; core < cores; ++core) free_.push(0);
    // A thread that gets a core runs until it waits; what it wakes becomes ready then, not before.
    while (!ready_.empty()) {
      const auto [since, thread] = ready_.top();
      ready_.pop();
      const Picoseconds begin = std::max(since, free_.top());
      free_.pop();
      const Picoseconds end = run_thread(thread, begin);
      free_.push(end);
      end_ = std::max(end_, end);
    }
    for (const Thread& thread : threads_)
      if (thread.entry < program_of(thread).entries.size())
        throw std::runtime_error("a replay on cores does not end: ranks wait for one another");
    return end_;
  }

 private:
  struct Ready {
    Picoseconds since = 0;
    std::size_t thread = 0;
    bool operator>(const Ready& other) const {
      return std::tie(since, thread) > std::tie(other.since, other.thread);
    }
  };

  const Program& program_of(const Thread& thread) const {
    return plan_.programs[static_cast<std::size_t>(thread.pipeline_rank)];
  }

  Picoseconds run_thread(std::size_t number, Picoseconds now) {
    Thread& thread = threads_[number];
    const Program& program = program_of(thread);
    for (; thread.entry < program.entries.size(); ++thread.entry, thread.instruction = 0) {
      const Entry& entry = program.entries[thread.entry];
      if (!runs_in(entry.steps, WhichStep::steady)) continue;
      const std::vector<Instruction>& instructions = plan_.segments[entry.segment].instructions;
      for (; thread.instruction < instructions.size(); ++thread.instruction) {
        const Instruction& what = instructions[thread.instruction];
        if (is_communication(what.opcode) && !is_through(number, what, now)) return now;
        now += costs_.of({thread.pipeline_rank, entry.segment, static_cast<Index>(thread.instruction)})
                   .value_or(0);
        if (what.opcode == Opcode::send) tell(thread, what, now);
      }
    }
    return now;
  }

  // Whether a communication can go on: it has all that it waits for. Else it is woken when that is there.
  bool is_through(std::size_t number, const Instruction& what, Picoseconds now) {
    Thread& thread = threads_[number];
    if (what.opcode == Opcode::send) return true;
    if (std::exchange(thread.has_posted, false)) return true;  // woken
    if (what.opcode == Opcode::recv) return receives(number, what, now);
    const std::vector<std::int64_t>& members = members_of(thread, what);
    if (members.size() <= 1) return true;
    CoreMeeting& meeting = meetings_[group_key(thread, what, members)];
    meeting.latest = std::max(meeting.latest, now);
    if (++meeting.arrived < static_cast<std::int64_t>(members.size())) return wait_at(meeting, number);
    const CoreMeeting complete = std::exchange(meeting, {});
    for (const std::size_t other : complete.waiting) ready_.push({complete.latest, other});
    return goes_on_at(complete.latest, number, now);
  }

  bool receives(std::size_t number, const Instruction& what, Picoseconds now) {
    Thread& thread = threads_[number];
    const Communication& communication = plan_.communications[what.communication];
    const std::int64_t from = peer_of(plan_, thread.pipeline_rank, communication, thread.local);
    if (from < 0) return true;
    CoreMeeting& meeting = meetings_[message_key(thread, what, from, thread.device)];
    if (meeting.messages.empty()) return wait_at(meeting, number);
    const Picoseconds sent = meeting.messages.front();
    meeting.messages.pop_front();
    return goes_on_at(sent, number, now);
  }

  bool wait_at(CoreMeeting& meeting, std::size_t number) {
    meeting.waiting.push_back(number);
    threads_[number].has_posted = true;
    return false;
  }

  // Threads are not run in the order of time: what is there may lie ahead of this one.
  bool goes_on_at(Picoseconds time, std::size_t number, Picoseconds now) {
    if (time <= now) return true;
    threads_[number].has_posted = true;
    ready_.push({time, number});
    return false;
  }

  // A message is there.
  void tell(Thread& thread, const Instruction& what, Picoseconds now) {
    const Communication& communication = plan_.communications[what.communication];
    const std::int64_t to = peer_of(plan_, thread.pipeline_rank, communication, thread.local);
    if (to < 0) return;
    CoreMeeting& meeting = meetings_[message_key(thread, what, thread.device, to)];
    if (meeting.waiting.empty()) {
      meeting.messages.push_back(now);
      return;
    }
    ready_.push({now, meeting.waiting.front()});
    meeting.waiting.erase(meeting.waiting.begin());
  }

  std::int64_t microbatch_of(const Thread& thread, const Instruction& what) const {
    const Program& program = program_of(thread);
    const Entry& entry = program.entries[thread.entry];
    return what.binding < entry.binding_count
               ? program.bindings[entry.first_binding + what.binding].microbatch
               : 0;
  }

  // Inside a mesh messages and collectives meet in the order of issue.
  MeetingKey message_key(const Thread& thread, const Instruction& what, std::int64_t from, std::int64_t to) {
    const Index channel = plan_.communications[what.communication].channel;
    return {channel == no_index ? -1 : std::int64_t{channel},
            channel == no_index ? 0 : microbatch_of(thread, what), from, to};
  }
  MeetingKey group_key(Thread& thread, const Instruction& what, const std::vector<std::int64_t>& members) {
    const Index channel = plan_.communications[what.communication].channel;
    if (channel != no_index) return {channel, microbatch_of(thread, what), members.front(), -1};
    MeetingKey key{-2 - std::int64_t{what.communication}, 0, members.front(), -1};
    std::get<1>(key) = thread.posts[key]++;
    return key;
  }

  const std::vector<std::int64_t>& members_of(const Thread& thread, const Instruction& what) {
    const std::tuple key{thread.pipeline_rank, what.communication};
    auto known = instances_.find(key);
    if (known == instances_.end()) {
      const Group& group = plan_.communications[what.communication].group;
      known = instances_
                  .emplace(key, Instances{group_instances(plan_, thread.pipeline_rank, group),
                                          instance_of_devices(plan_, thread.pipeline_rank, group)})
                  .first;
    }
    return known->second.groups[known->second.of_device[static_cast<std::size_t>(thread.local)]];
  }

  struct Instances {
    std::vector<std::vector<std::int64_t>> groups;
    std::vector<Index> of_device;
  };

  const Plan& plan_;
  const InstructionCosts& costs_;
  std::vector<Thread> threads_;
  std::map<MeetingKey, CoreMeeting> meetings_;
  std::map<std::tuple<std::int32_t, Index>, Instances> instances_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  std::priority_queue<Picoseconds, std::vector<Picoseconds>, std::greater<>> free_;  // when each core is
  Picoseconds end_ = 0;
};

}  // namespace

Picoseconds replay_on_cores(const Plan& plan, const InstructionCosts& costs, int cores) {
  return CoreReplay(plan, costs).run(std::max(cores, 1));
}

}  // namespace simrun
