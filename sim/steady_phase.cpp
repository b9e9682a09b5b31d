#include "sim/steady_phase.h"

#include <optional>

namespace simrun {

namespace {

constexpr Index fewest_periods = 6;

// By how many microbatches the entry `later` is behind `earlier`, all else being equal; nothing if it is not.
std::optional<std::int32_t> shift_between(const Program& program, Index earlier, Index later) {
  const Entry &a = program.entries[earlier], &b = program.entries[later];
  if (a.segment != b.segment || a.steps != b.steps || a.binding_count != b.binding_count) return {};
  std::optional<std::int32_t> shift;
  for (std::uint8_t i = 0; i < a.binding_count; ++i) {
    Binding of_a = program.bindings[a.first_binding + i];
    const Binding& of_b = program.bindings[b.first_binding + i];
    const std::int32_t by = of_b.microbatch - of_a.microbatch;
    of_a.microbatch = of_b.microbatch;
    if (of_a != of_b || by <= 0 || (shift && *shift != by)) return {};
    shift = by;
  }
  return shift;
}

}  // namespace

SteadyPhase steady_phase(const Program& program) {
  const auto entries = static_cast<Index>(program.entries.size());
  const Index middle = entries / 2;
  for (Index period = 1; period * fewest_periods <= entries; ++period) {
    const std::optional<std::int32_t> shift = shift_between(program, middle - period, middle);
    if (!shift) continue;
    const auto repeats = [&](Index entry) { return shift_between(program, entry, entry + period) == shift; };
    Index begin = middle - period, end = middle + 1;
    while (begin > 0 && repeats(begin - 1)) --begin;
    while (end < entries && repeats(end - period)) ++end;
    if (end - begin >= fewest_periods * period) return {begin, end, period, *shift};
  }
  return {};
}

}  // namespace simrun
