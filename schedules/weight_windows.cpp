#include "schedules/weight_windows.h"

#include <utility>

namespace simrun {

WeightWindows::WeightWindows(const ChunkEmission& emission, const ChunkCode& code,
                             const WeightGathers& weights, WeightUse use)
    : emission_(emission), weights_(weights), use_(use) {
  if (weights.gathers.empty()) return;
  bucket_of_.assign(code.values.size(), no_place);
  for (std::size_t b = 0; b < emission.buckets.size(); ++b)
    for (const std::size_t p : emission.buckets[b].members) bucket_of_[code.parameters[p]] = b;
  // fp8: a copy is cast from the weight in front of its first reader.
  for (const QuantisedParameter& parameter : code.quantised)
    bucket_of_[parameter.row] = bucket_of_[parameter.column] = bucket_of_[parameter.weight];
}

bool WeightWindows::are_one_unit(std::size_t bucket, std::size_t next) const {
  return weights_.by_layer && emission_.buckets[bucket].layer == emission_.buckets[next].layer;
}

void WeightWindows::find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order,
                         std::size_t begin, std::size_t end) {
  if (weights_.gathers.empty()) return;
  gathered_before_.resize(end + 1);
  freed_behind_.resize(end + 1);
  std::vector<std::size_t> last(emission_.buckets.size(), no_place);
  std::vector<std::size_t> in_order, first_place;  // buckets by first reader
  for (std::size_t place = begin; place < end; ++place)
    for (const ValueId input : steps[order[place]].inputs) {
      const std::size_t b = bucket_of_[input];
      if (b == no_place || weights_.gathers[b].empty()) continue;
      if (last[b] == no_place) {
        in_order.push_back(b);
        first_place.push_back(place);
      }
      last[b] = place;
    }
  std::size_t needed = begin, ahead = begin;  // first reader of the unit, and of that in front of it
  for (std::size_t n = 0; n < in_order.size(); ++n) {
    if (n == 0 || !are_one_unit(in_order[n - 1], in_order[n])) {
      if (n > 0) ahead = needed;
      needed = first_place[n];
    }
    const std::size_t at = weights_.prefetch ? ahead : needed;
    if (use_.gathers) gathered_before_[at].push_back(in_order[n]);
    if (use_.releases) freed_behind_[last[in_order[n]]].push_back(in_order[n]);
  }
  // What an earlier pass gathered and this one does not read.
  if (use_.gathers || !use_.releases || begin == end) return;
  for (std::size_t b = 0; b < last.size(); ++b)
    if (last[b] == no_place && !weights_.gathers[b].empty()) freed_behind_[begin].push_back(b);
}

void WeightWindows::before(std::size_t place, std::vector<Instruction>& instructions) const {
  if (gathered_before_.empty()) return;
  for (const std::size_t b : gathered_before_[place])
    instructions.insert(instructions.end(), weights_.gathers[b].begin(), weights_.gathers[b].end());
}

void WeightWindows::behind(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const {
  if (freed_behind_.empty() || freed_behind_[place].empty()) return;
  Instruction release;
  release.opcode = Opcode::free;
  release.phase = phase;
  for (const std::size_t b : freed_behind_[place]) release.inputs.push_back(emission_.buckets[b].weights);
  instructions.push_back(std::move(release));
}

}  // namespace simrun
