#include "schedules/weight_casts.h"

#include <algorithm>
#include <utility>

#include "schedules/release.h"

namespace simrun {

WeightCasts::WeightCasts(const ChunkEmission& emission, const ChunkCode& code, const WeightGathers& weights,
                         WeightUse use)
    : emission_(emission), code_(code), use_(use), gathered_(code.quantised.size(), false) {
  for (std::size_t b = 0; b < weights.gathers.size(); ++b) {
    if (weights.gathers[b].empty()) continue;
    for (const std::size_t p : emission.buckets[b].members)
      for (std::size_t q = 0; q < code.quantised.size(); ++q)
        if (code.quantised[q].weight == code.parameters[p]) gathered_[q] = true;
  }
}

void WeightCasts::find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order,
                       std::size_t begin, std::size_t end) {
  if (code_.quantised.empty()) return;
  cast_before_.resize(end + 1);
  freed_behind_.resize(end + 1);
  std::vector<std::size_t> first(code_.values.size(), no_place), last(code_.values.size(), no_place);
  for (std::size_t place = begin; place < end; ++place)
    for (const ValueId input : steps[order[place]].inputs) {
      first[input] = std::min(first[input], place);
      last[input] = place;
    }
  for (std::size_t q = 0; q < code_.quantised.size(); ++q) {
    const QuantisedParameter& parameter = code_.quantised[q];
    const bool gathers = gathered_[q] && use_.gathers, releases = gathered_[q] && use_.releases;
    const bool casts = gathered_[q] ? gathers : use_.quantises;
    std::vector<ValueId> copies;
    for (const ValueId copy : {parameter.row, parameter.column})
      if (parameter.is_copy(copy) && (copies.empty() || copies.front() != copy)) copies.push_back(copy);
    if (gathers && releases) std::erase_if(copies, [&](ValueId copy) { return first[copy] == no_place; });
    if (copies.empty() || !(casts || releases)) continue;
    Made made{q, {}};
    std::size_t from = no_place, to = no_place;
    for (const ValueId v : {parameter.row, parameter.column}) {
      if (first[v] == no_place) continue;
      from = std::min(from, first[v]);
      to = to == no_place ? last[v] : std::max(to, last[v]);
    }
    for (const ValueId copy : copies) made.copies.push_back(emission_.buffer_of[copy]);
    if (releases) {
      std::vector<Index>& freed = freed_behind_[to == no_place ? begin : to];
      freed.insert(freed.end(), made.copies.begin(), made.copies.end());
    }
    if (casts && from != no_place) cast_before_[from].push_back(std::move(made));
  }
}

void WeightCasts::cast(const Made& made, Phase phase, std::vector<Instruction>& instructions) const {
  const QuantisedParameter& parameter = code_.quantised[made.parameter];
  Instruction cast;
  cast.opcode = Opcode::map;
  cast.function = Function::cast;
  cast.phase = phase;
  cast.layer = parameter.layer;
  cast.inputs = {emission_.buffer_of[parameter.weight]};
  cast.outputs = made.copies;
  const std::string narrow = to_string(code_.values[parameter.row].dtype);
  cast.label = narrow + " weight";
  if (emission_.largest_of_weight != no_index && parameter.row != parameter.weight) {
    Instruction largest = cast;
    largest.opcode = Opcode::reduce;
    largest.function = Function::max;
    largest.outputs = {emission_.largest_of_weight};
    largest.label = narrow + " largest weight";
    cast.inputs.push_back(emission_.largest_of_weight);
    instructions.push_back(std::move(largest));
    instructions.push_back(std::move(cast));
    return instructions.push_back(release_of({emission_.largest_of_weight}, phase));
  }
  instructions.push_back(std::move(cast));
}

void WeightCasts::before(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const {
  if (cast_before_.empty()) return;
  for (const Made& made : cast_before_[place]) cast(made, phase, instructions);
}

void WeightCasts::behind(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const {
  if (freed_behind_.empty() || freed_behind_[place].empty()) return;
  instructions.push_back(release_of(freed_behind_[place], phase));
}

}  // namespace simrun
