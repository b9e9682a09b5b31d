#include "schedules/offloaded_activations.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace simrun {

namespace {

// By value: whether the last of the forward pass that mentions it is one of the chunk's first `layers`. What
// the head and the loss keep is needed again at once.
std::vector<bool> belongs_to_first(const ChunkCode& code, int layers) {
  std::vector<bool> belongs(code.values.size(), false);
  std::set<std::int32_t> first;
  for (const CodeStep& step : code.forward) {
    if (step.layer >= 0 && static_cast<int>(first.size()) < layers) first.insert(step.layer);
    for (const std::vector<ValueId>* mentioned : {&step.inputs, &step.outputs})
      for (const ValueId v : *mentioned) belongs[v] = first.contains(step.layer);
  }
  return belongs;
}

}  // namespace

void add_host_copies(Plan& plan, ChunkEmission& emission, const ChunkCode& code,
                     const std::vector<ValueId>& stays, int layers) {
  emission.host_copy.assign(code.values.size(), no_index);
  emission.offloaded_layers = layers;
  const std::vector<bool> belongs = belongs_to_first(code, layers);
  for (ValueId v = 0; v < code.values.size(); ++v) {
    const Value& value = code.values[v];
    if (!value.saved || value.kind != ValueKind::activation || !belongs[v]) continue;
    if (std::find(stays.begin(), stays.end(), v) != stays.end()) continue;
    Buffer copy = plan.buffers[emission.buffer_of[v]];
    copy.name += " on host";
    copy.space = MemorySpace::host;
    emission.host_copy[v] = static_cast<Index>(plan.buffers.size());
    plan.buffers.push_back(std::move(copy));
  }
}

OffloadedActivations::OffloadedActivations(const ChunkEmission& emission, const ChunkCode& code)
    : emission_(emission), code_(code) {
  if (emission.host_copy.empty()) return;
  for (std::size_t s = 0; s < code.forward.size(); ++s) {
    if (s == 0 || code.forward[s].layer != code.forward[s - 1].layer) {
      first_.push_back(s);
      last_.push_back(s);
    }
    last_.back() = s;
    run_of_.push_back(first_.size() - 1);
  }
  group_of_.assign(code.values.size(), no_place);
  for (std::size_t s = 0; s < code.forward.size(); ++s)
    for (const std::vector<ValueId>* mentioned : {&code.forward[s].inputs, &code.forward[s].outputs})
      for (const ValueId v : *mentioned)
        if (emission.host_copy[v] != no_index) group_of_[v] = run_of_[s];
  leaving_.resize(first_.size());
  for (ValueId v = 0; v < group_of_.size(); ++v)
    if (group_of_[v] != no_place) leaving_[group_of_[v]].push_back(v);
  set_windows();
}

void OffloadedActivations::set_windows() {
  std::vector<std::size_t> layers;  // runs
  std::set<std::int32_t> first;
  std::size_t leave = 0;  // of `layers`, the first ones
  gone_by_.resize(first_.size());
  fetched_by_.assign(first_.size(), no_place);
  for (std::size_t run = 0; run < first_.size(); ++run) {
    gone_by_[run] = run + 2;
    const std::int32_t layer = code_.forward[first_[run]].layer;
    if (layer < 0) continue;
    layers.push_back(run);
    if (static_cast<int>(first.size()) < emission_.offloaded_layers) first.insert(layer);
    if (first.contains(layer)) leave = layers.size();
  }
  has_windows_ = leave < layers.size();
  if (has_windows_)
    for (std::size_t i = 0; i < leave; ++i) {
      const std::size_t window = (i + 1) * layers.size() / leave;
      gone_by_[layers[i]] = window + 1 < layers.size() ? layers[window + 1] : first_.size();
      if (window < layers.size()) fetched_by_[layers[i]] = layers[window];
    }
  gone_before_.resize(first_.size());
  for (std::size_t run = 0; run < first_.size(); ++run)
    if (!leaving_[run].empty() && gone_by_[run] < first_.size()) gone_before_[gone_by_[run]].push_back(run);
}

Instruction OffloadedActivations::copy(const Values& values, bool to_host, std::int32_t layer) const {
  Instruction instruction;
  instruction.opcode = Opcode::copy;
  instruction.phase = to_host ? Phase::forward : Phase::backward_input;
  instruction.stream = to_host ? emission_.to_host : emission_.from_host;
  instruction.layer = layer;
  for (const ValueId v : values) {
    instruction.inputs.push_back(to_host ? emission_.buffer_of[v] : emission_.host_copy[v]);
    instruction.outputs.push_back(to_host ? emission_.host_copy[v] : emission_.buffer_of[v]);
  }
  instruction.label = "activation offload";
  return instruction;
}

Instruction OffloadedActivations::release(const Values& values, bool on_host, Phase phase) const {
  Instruction instruction;
  instruction.opcode = Opcode::free;
  instruction.phase = phase;
  for (const ValueId v : values)
    instruction.inputs.push_back(on_host ? emission_.host_copy[v] : emission_.buffer_of[v]);
  return instruction;
}

void OffloadedActivations::before_forward(std::size_t s, std::vector<Instruction>& instructions) {
  if (leaving_.empty()) return;
  const std::size_t run = run_of_[s];
  if (s != first_[run]) return;
  for (const std::size_t gone : gone_before_[run])
    instructions.push_back(release(leaving_[gone], false, Phase::forward));
}

void OffloadedActivations::let_wait(std::size_t s, Instruction& instruction) {
  if (leaving_.empty()) return;
  const std::size_t run = run_of_[s];
  if (s != first_[run]) return;
  for (const std::size_t gone : gone_before_[run])
    instruction.waits_for.push_back(emission_.host_copy[leaving_[gone].front()]);
}

void OffloadedActivations::behind_forward(std::size_t s, std::vector<Instruction>& instructions) {
  if (leaving_.empty()) return;
  const std::size_t run = run_of_[s];
  if (s == last_[run] && !leaving_[run].empty())
    instructions.push_back(copy(leaving_[run], true, code_.forward[s].layer));
  if (s + 1 < code_.forward.size()) return;
  for (std::size_t r = 0; r <= run; ++r)
    if (gone_by_[r] > run && !leaving_[r].empty())
      instructions.push_back(release(leaving_[r], false, Phase::forward));
}

std::map<std::int32_t, std::size_t> OffloadedActivations::places_of_layers(
    const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order, std::size_t begin,
    std::size_t end) const {
  std::map<std::int32_t, std::size_t> places;
  for (std::size_t place = begin; place < end; ++place) places.try_emplace(steps[order[place]].layer, place);
  return places;
}

void OffloadedActivations::find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order,
                                std::size_t begin, std::size_t end) {
  if (leaving_.empty()) return;
  fetched_.resize(end + 1);
  std::vector<bool> seen(code_.values.size(), false);
  std::map<std::size_t, std::pair<std::size_t, Values>> needed;  // by run: first place, values
  for (std::size_t place = 0; place < end; ++place) {
    const CodeStep& step = steps[order[place]];
    for (const std::vector<ValueId>* mentioned : {&step.inputs, &step.waits_for})
      for (const ValueId v : *mentioned) {
        if (group_of_[v] == no_place || seen[v]) continue;
        seen[v] = true;
        if (place < begin) continue;
        needed.try_emplace(group_of_[v], place, Values{}).first->second.second.push_back(v);
      }
  }
  struct Fetch {
    std::size_t needed = 0, run = 0;
    Values values;
  };
  std::vector<Fetch> in_order;
  in_order.reserve(needed.size());
  for (auto& [run, group] : needed) in_order.push_back({group.first, run, std::move(group.second)});
  std::ranges::stable_sort(in_order, {}, &Fetch::needed);
  const std::map<std::int32_t, std::size_t> places = places_of_layers(steps, order, begin, end);
  for (std::size_t n = 0; n < in_order.size(); ++n) {
    std::size_t at = n == 0 ? begin : in_order[n - 1].needed;
    const std::size_t window = fetched_by_[in_order[n].run];
    if (has_windows_ && window == no_place) {
      at = begin;
    } else if (has_windows_) {
      const auto found = places.find(code_.forward[first_[window]].layer);
      if (found != places.end()) at = std::min(at, found->second);
    }
    fetched_[at].push_back(std::move(in_order[n].values));
  }
}

void OffloadedActivations::before_backward(std::size_t place, std::vector<Instruction>& instructions) const {
  if (place >= fetched_.size()) return;
  for (const Values& values : fetched_[place]) {
    instructions.push_back(copy(values, false, -1));
    instructions.push_back(release(values, true, Phase::backward_input));
  }
}

}  // namespace simrun
