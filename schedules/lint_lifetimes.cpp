#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "schedules/lint_checks.h"

// Every buffer instance is written before it is read, freed exactly once, not touched afterwards, and none is
// left over.
//
// A segment's effect on a buffer is worked out once: whether it needs the instance from before, and whether
// the instance lives on. Buffers that all segments treat alike (the saved activations of a chunk) are one
// class with one state, so an entry costs as many steps as its segment has classes, usually a handful.
namespace simrun {
namespace {

constexpr std::size_t most_alive = std::size_t{1} << 26;  // what a hostile file may make this remember

struct Effect {
  std::uint8_t binding = 0;
  bool needs = false;  // read or freed before anything in the segment writes it
  bool lives = false;  // not freed at the segment's end
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const Effect&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct ClassEffect {
  Index buffer_class = 0;
  Effect effect;
};

struct Classes {
  std::vector<std::vector<Index>> members;        // buffers, by class
  std::vector<bool> by_microbatch;                // by class: one instance per microbatch, or one in all
  std::vector<std::vector<ClassEffect>> effects;  // by segment
};

// The buffer whose bytes a view uses. A view is as alive as that.
std::vector<Index> roots(const Plan& plan) {
  std::vector<Index> root(plan.buffers.size(), no_index);
  std::vector<Index> path;
  for (Index i = 0; i < plan.buffers.size(); ++i) {
    Index at = i;
    for (; root[at] == no_index && plan.buffers[at].parent != no_index; at = plan.buffers[at].parent)
      path.push_back(at);
    const Index end = root[at] == no_index ? at : root[at];
    root[at] = end;
    for (const Index buffer : path) root[buffer] = end;
    path.clear();
  }
  return root;
}

// One segment's effects by (binding, root buffer); says what is wrong within the segment itself.
class SegmentEffects {
 public:
  SegmentEffects(const Plan& plan, const std::vector<Index>& root, const Segment& segment, Findings& findings)
      : plan_(plan), root_(root), segment_(segment), findings_(findings) {
    for (std::size_t i = 0; i < segment.instructions.size(); ++i) run(i);
  }
  // By binding and root buffer, as key() packs them.
  const std::unordered_map<std::uint64_t, Effect>& effects() const { return effects_; }
  static std::uint64_t key(std::uint8_t binding, Index buffer) {
    return std::uint64_t{binding} << 32 | buffer;
  }
  static Index buffer_of(std::uint64_t key) { return static_cast<Index>(key & 0xffffffffu); }

 private:
  void run(std::size_t i) {
    const Instruction& what = segment_.instructions[i];
    for (const Index buffer : what.inputs) what.opcode == Opcode::free ? free(i, buffer) : read(i, buffer);
    for (const Index buffer : what.waits_for) read(i, buffer);
    for (const Index buffer : what.outputs) adds_to(what, buffer) ? read(i, buffer) : write(i, buffer);
  }
  void read(std::size_t i, Index buffer) {
    if (plan_.buffers[root_[buffer]].scope == Scope::run) return;
    const auto [effect, is_new] = find(i, buffer, true);
    if (!is_new && !effect->lives) wrong(i, fmt::format("reads '{}' after its FREE", name(buffer)));
    effect->lives = true;
  }
  // Accumulation is into main gradients: those of run scope always live, others since a first write. Any
  // other write is afresh.
  bool adds_to(const Instruction& what, Index buffer) const {
    const Buffer& owner = plan_.buffers[root_[buffer]];
    return what.accumulate && owner.category == Category::gradients;
  }
  void write(std::size_t i, Index buffer) {
    if (plan_.buffers[root_[buffer]].scope != Scope::run) find(i, buffer, false).first->lives = true;
  }
  void free(std::size_t i, Index buffer) {
    if (plan_.buffers[buffer].parent != no_index)
      return wrong(i, fmt::format("frees the view '{}'", name(buffer)));
    if (plan_.buffers[buffer].scope == Scope::run)
      return wrong(i, fmt::format("frees '{}', which lives for the whole run", name(buffer)));
    const auto [effect, is_new] = find(i, buffer, true);
    if (!is_new && !effect->lives) wrong(i, fmt::format("frees '{}' twice", name(buffer)));
    effect->lives = false;
  }
  std::pair<Effect*, bool> find(std::size_t i, Index buffer, bool needs) {
    const std::uint8_t binding = segment_.instructions[i].binding;
    const auto [at, is_new] = effects_.try_emplace(key(binding, root_[buffer]), Effect{binding, needs, true});
    return {&at->second, is_new};
  }
  const std::string& name(Index buffer) const { return plan_.buffers[buffer].name; }
  void wrong(std::size_t i, const std::string& sentence) {
    findings_.add(place(segment_, i) + " " + sentence);
  }

  const Plan& plan_;
  const std::vector<Index>& root_;
  const Segment& segment_;
  Findings& findings_;
  std::unordered_map<std::uint64_t, Effect> effects_;
};

Classes classify(const Plan& plan, Findings& findings) {
  const std::vector<Index> root = roots(plan);
  std::vector<std::vector<std::pair<Index, Effect>>> treatment(
      plan.buffers.size());  // by buffer: (segment, effect)
  for (Index segment = 0; segment < plan.segments.size(); ++segment) {
    const SegmentEffects effects(plan, root, plan.segments[segment], findings);
    for (const auto& [key, effect] : effects.effects())
      treatment[SegmentEffects::buffer_of(key)].emplace_back(segment, effect);
  }
  Classes classes;
  classes.effects.resize(plan.segments.size());
  std::map<std::pair<bool, std::vector<std::pair<Index, Effect>>>, Index> known;
  for (Index buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    // Written first and freed within each segment that names it: no other entry can see it.
    if (std::none_of(treatment[buffer].begin(), treatment[buffer].end(),
                     [](const auto& at) { return at.second.needs || at.second.lives; }))
      continue;
    const Scope scope = plan.buffers[buffer].scope;
    const bool by_microbatch = scope == Scope::microbatch || scope == Scope::pass;
    const auto next = static_cast<Index>(classes.members.size());
    const auto [at, is_new] = known.try_emplace({by_microbatch, treatment[buffer]}, next);
    if (is_new) {
      classes.members.emplace_back();
      classes.by_microbatch.push_back(by_microbatch);
      for (const auto& [segment, effect] : treatment[buffer])
        classes.effects[segment].push_back({next, effect});
    }
    classes.members[at->second].push_back(buffer);
  }
  return classes;
}

std::string name_of(const Plan& plan, const Classes& classes, Index buffer_class) {
  const std::vector<Index>& members = classes.members[buffer_class];
  const std::string name = "'" + plan.buffers[members[0]].name + "'";
  return members.size() == 1 ? name : fmt::format("{} and {} more", name, members.size() - 1);
}

// Why an instance is not there: looks back over the program.
std::string why_dead(const Program& program, std::size_t entry, StepOf step, const Classes& classes,
                     const ClassEffect& what) {
  const auto microbatch =
      program.bindings[program.entries[entry].first_binding + what.effect.binding].microbatch;
  for (std::size_t i = 0; i < entry; ++i) {
    const Entry& earlier = program.entries[i];
    if (!runs_in(earlier, step)) continue;
    for (const ClassEffect& other : classes.effects[earlier.segment]) {
      if (other.buffer_class != what.buffer_class) continue;
      const auto other_microbatch = program.bindings[earlier.first_binding + other.effect.binding].microbatch;
      if (!classes.by_microbatch[what.buffer_class] || microbatch == other_microbatch)
        return fmt::format("after its FREE in entry {}", i);
    }
  }
  return "before anything writes it";
}

void check_program(const Plan& plan, const Program& program, StepOf step, const Classes& classes,
                   Findings& findings) {
  std::unordered_set<std::uint64_t> alive;  // class and microbatch
  std::set<std::pair<Index, Index>> said;   // segment and class: once for all microbatches
  for (std::size_t i = 0; i < program.entries.size() && !findings.full(); ++i) {
    const Entry& entry = program.entries[i];
    if (!runs_in(entry, step)) continue;
    if (alive.size() > most_alive)
      return findings.add(fmt::format("{} has more than 2^26 buffers alive", place(plan, program, i)));
    for (const ClassEffect& what : classes.effects[entry.segment]) {
      const Index c = what.buffer_class;
      const auto microbatch = program.bindings[entry.first_binding + what.effect.binding].microbatch;
      const std::uint64_t key =
          std::uint64_t{c} << 32 | (classes.by_microbatch[c] ? static_cast<std::uint32_t>(microbatch) : 0u);
      if (what.effect.needs && !alive.contains(key) && said.emplace(entry.segment, c).second)
        findings.add(fmt::format("{} {} {} {}", place(plan, program, i),
                                 what.effect.lives ? "uses" : "uses or frees", name_of(plan, classes, c),
                                 why_dead(program, i, step, classes, what)));
      if (findings.full()) return;
      what.effect.lives ? void(alive.insert(key)) : void(alive.erase(key));
    }
  }
  const std::set<std::uint64_t> left(alive.begin(), alive.end());
  std::set<Index> never_freed;
  for (const std::uint64_t key : left) {
    if (findings.full()) return;
    const auto c = static_cast<Index>(key >> 32);
    if (!never_freed.insert(c).second) continue;  // once for all microbatches
    const std::string of =
        classes.by_microbatch[c] ? fmt::format(" of microbatch {}", key & 0xffffffffu) : "";
    findings.add(fmt::format("pipeline rank {} never frees {}{}", program.pipeline_rank,
                             name_of(plan, classes, c), of));
  }
}

}  // namespace

void check_lifetimes(const Plan& plan, StepOf step, Findings& findings) {
  const Classes classes = classify(plan, findings);
  for (const Program& program : plan.programs) check_program(plan, program, step, classes, findings);
}

}  // namespace simrun
