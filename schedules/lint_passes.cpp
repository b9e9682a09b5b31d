#include <fmt/format.h>

#include <map>
#include <vector>

#include "schedules/lint_checks.h"

// Every (chunk, microbatch) runs forward once and backward once, on the chunk's pipeline rank and in causal
// order.
namespace simrun {
namespace {

enum Done : std::uint8_t { forward_done = 1, input_done = 2, weight_done = 4, all_done = 7 };

struct PassRule {
  std::uint8_t does = 0;
  std::uint8_t needs = 0;
};
PassRule rule(PassKind kind) {
  switch (kind) {
    case PassKind::forward: return {forward_done, 0};
    case PassKind::backward: return {input_done | weight_done, forward_done};
    case PassKind::backward_input: return {input_done, forward_done};
    case PassKind::backward_weight: return {weight_done, input_done};
    case PassKind::communication:
    case PassKind::step:
    case PassKind::overlapped: break;  // see below
  }
  return {};
}

// What binding b of an entry runs: an overlapped pair is a forward and a backward.
PassRule rule(PassKind kind, std::size_t b) {
  if (kind != PassKind::overlapped) return b == 0 ? rule(kind) : PassRule{};
  return rule(b == 0 ? PassKind::forward : PassKind::backward);
}

std::int64_t count_passes(const Plan& plan) {
  std::int64_t count = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      for (std::size_t b = 0; b < entry.binding_count; ++b)
        count += rule(plan.segments[entry.segment].kind, b).does != 0;
  return count;
}

// The chunks that are copies of one stage; a plan has up to two of each.
std::map<std::int32_t, std::vector<Index>> copies_of_stages(const Plan& plan) {
  std::map<std::int32_t, std::vector<Index>> copies;
  for (Index chunk = 0; chunk < plan.chunks.size(); ++chunk)
    copies[plan.chunks[chunk].stage].push_back(chunk);
  return copies;
}

// By chunk and microbatch, what has been done.
class PassTable {
 public:
  PassTable(const Plan& plan, Findings& findings)
      : plan_(plan),
        findings_(findings),
        microbatches_(static_cast<std::size_t>(plan.job.microbatches)),
        done_(plan.chunks.size() * microbatches_, 0) {}

  void run(const Program& program, std::size_t entry, std::size_t b) {
    const Segment& segment = plan_.segments[program.entries[entry].segment];
    const PassRule what = rule(segment.kind, b);
    if (what.does == 0) return;
    const Binding& binding = program.bindings[program.entries[entry].first_binding + b];
    if (binding.chunk == no_index || (b == 0 && segment.chunk != binding.chunk) ||
        plan_.chunks[binding.chunk].pipeline_rank != program.pipeline_rank ||
        static_cast<std::size_t>(binding.microbatch) >= microbatches_)
      return findings_.add(place(plan_, program, entry) +
                           " runs a pass of a chunk that is not its segment's or not its rank's");
    std::uint8_t& state = at(binding.chunk, static_cast<std::size_t>(binding.microbatch));
    if (state & what.does)
      findings_.add(fmt::format("{} repeats the {} of chunk {}", place(plan_, program, entry),
                                to_string(segment.kind), binding.chunk));
    else if ((state & what.needs) != what.needs)
      findings_.add(fmt::format("{} runs the {} of chunk {} before the {} that it needs",
                                place(plan_, program, entry), to_string(segment.kind), binding.chunk,
                                what.needs == forward_done ? "forward" : "backward_input"));
    state = static_cast<std::uint8_t>(state | what.does);
  }

  // Each microbatch went through one copy of every stage, forward and backward.
  void require_all() {
    for (const auto& [stage, chunks] : copies_of_stages(plan_))
      for (std::size_t m = 0; m < microbatches_ && !findings_.full(); ++m) {
        Index busy = chunks.front();
        int in_use = 0;
        for (const Index chunk : chunks) {
          if (at(chunk, m) == 0) continue;
          busy = chunk;
          ++in_use;
        }
        if (in_use > 1)
          findings_.add(fmt::format("microbatch {} runs on {} copies of stage {}", m, in_use, stage));
        else if (at(busy, m) != all_done)
          findings_.add(fmt::format("chunk {} never runs the {} of microbatch {}", busy,
                                    at(busy, m) & forward_done ? "whole backward" : "forward", m));
      }
  }

 private:
  std::uint8_t& at(Index chunk, std::size_t microbatch) { return done_[chunk * microbatches_ + microbatch]; }
  const Plan& plan_;
  Findings& findings_;
  std::size_t microbatches_;
  std::vector<std::uint8_t> done_;
};

}  // namespace

void check_passes(const Plan& plan, StepOf step, Findings& findings) {
  const auto chunks = static_cast<std::int64_t>(plan.chunks.size());
  const auto stages = static_cast<std::int64_t>(copies_of_stages(plan).size());
  // Also bounds the table by what the plan really lists.
  const std::int64_t count = count_passes(plan);
  if (stages > 0 && (plan.job.microbatches > count / stages || chunks > 2 * stages))
    return findings.add(fmt::format("{} passes cannot run {} microbatches forward and backward on {} chunks",
                                    count, plan.job.microbatches, chunks));
  PassTable table(plan, findings);
  for (const Program& program : plan.programs)
    for (std::size_t i = 0; i < program.entries.size(); ++i)
      for (std::size_t b = 0; b < program.entries[i].binding_count && !findings.full(); ++b)
        if (runs_in(program.entries[i], step)) table.run(program, i, b);
  table.require_all();
}

}  // namespace simrun
