#include "planner/pass_costs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "configs/node_groups.h"
#include "planner/pass_probe.h"

namespace simrun {
namespace {

constexpr std::int64_t layers_of_kind = 2;  // the second has a neighbour like itself in front of it

std::vector<LayerKind> kinds_of(const ModelConfig& model) {
  std::vector<LayerKind> kinds;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    if (std::ranges::find(kinds, model.layer_kind(layer)) == kinds.end())
      kinds.push_back(model.layer_kind(layer));
  return kinds;
}

// Two layers of each kind on the first stage, and the model's last one on each of the others, of which only
// what lies behind it counts.
void shrink(ModelConfig& model, std::int64_t stages) {
  std::vector<LayerKind> layers;
  for (const LayerKind& kind : kinds_of(model)) layers.insert(layers.end(), layers_of_kind, kind);
  const auto others = static_cast<std::size_t>(std::max<std::int64_t>(stages - 1, 1));
  layers.insert(layers.end(), others, model.layer_kind(model.num_layers - 1));
  const bool lists_experts = !model.experts.layers.empty(), lists_windows = !model.attention_windows.empty(),
             lists_contents = !model.layer_contents.empty(), lists_rope = !model.layers_without_rope.empty();
  model.num_layers = static_cast<std::int64_t>(layers.size());
  model.experts.layers.clear();
  model.attention_windows.clear();
  model.layer_contents.clear();
  model.layers_without_rope.clear();
  for (const auto& [content, has_experts, window, has_rope] : layers) {
    if (lists_experts) model.experts.layers.push_back(has_experts);
    if (lists_windows) model.attention_windows.push_back(window);
    if (lists_contents) model.layer_contents.push_back(content);
    if (lists_rope) model.layers_without_rope.push_back(!has_rope);
  }
}

std::int64_t least_data(const Job& job, const Candidate& candidate) {
  const std::int64_t stage = candidate.tensor * candidate.context;
  const std::int64_t experts = candidate.expert * candidate.expert_tensor;
  const std::int64_t data = experts / std::gcd(experts, stage);
  const std::int64_t ranks = 2 * stage * data;
  return data * (job.cluster.gpus_per_node / std::gcd(job.cluster.gpus_per_node, ranks));
}

}  // namespace

PassCosts pass_costs_on_line(const PassCosts& smaller, const PassCosts& larger, double times_apart) {
  const auto line = [&](double at_smaller, double at_larger) {
    return at_larger + times_apart * (at_larger - at_smaller);
  };
  const auto part = [&](const PartCost& at_smaller, PartCost of) {
    of.forward_s = line(at_smaller.forward_s, of.forward_s);
    of.backward_s = line(at_smaller.backward_s, of.backward_s);
    of.input_s = line(at_smaller.input_s, of.input_s);
    of.weight_s = line(at_smaller.weight_s, of.weight_s);
    of.held_bytes = line(at_smaller.held_bytes, of.held_bytes);
    of.pass_peak_bytes = line(at_smaller.pass_peak_bytes, of.pass_peak_bytes);
    of.layer_peak_bytes = line(at_smaller.layer_peak_bytes, of.layer_peak_bytes);
    of.put_off_bytes = line(at_smaller.put_off_bytes, of.put_off_bytes);
    return of;
  };
  PassCosts costs = larger;
  for (std::size_t kind = 0; kind < costs.kinds.size(); ++kind)
    costs.kinds[kind] = part(smaller.kinds[kind], larger.kinds[kind]);
  costs.embedding = part(smaller.embedding, larger.embedding);
  costs.loss = part(smaller.loss, larger.loss);
  costs.first_transient = line(smaller.first_transient, larger.first_transient);
  costs.last_transient = line(smaller.last_transient, larger.last_transient);
  return costs;
}

bool has_layer_kinds(const Job& job) {
  const auto names_layers = [](const ScopePattern& scope) { return !scope.layers.empty(); };
  const ModelFamily& family = job.model.family;
  const bool has_one_stack = family == ModelFamily{} || family_as<BertConfig>(family) != nullptr ||
                             family_as<VisionTransformerConfig>(family) != nullptr;
  return std::ranges::none_of(job.recompute.saved, names_layers) &&
         std::ranges::none_of(job.model.frozen, names_layers) && has_one_stack &&
         !job.optimizer.parameter_server && job.offload == Offload{} && job.layout == LayoutConfig{};
}

// Of several kinds of GPU the slowest, which equal shares wait for, with the memory of the largest: what does
// not fit that fits nowhere.
static Cluster of_one_kind(Cluster cluster, Dtype precision) {
  if (cluster.node_groups.empty()) return cluster;
  const GpuKinds kinds(cluster);
  Gpu slowest = kinds.gpu(0);
  std::int64_t memory = 0;
  const auto peak = [&](const Gpu& gpu) {
    const auto found = gpu.peak_flops.find(precision);
    return found == gpu.peak_flops.end() ? 0.0 : found->second;
  };
  for (std::size_t kind = 0; kind < kinds.count(); ++kind) {
    memory = std::max(memory, kinds.gpu(kind).memory_bytes);
    if (peak(kinds.gpu(kind)) < peak(slowest)) slowest = kinds.gpu(kind);
  }
  slowest.memory_bytes = memory;
  cluster.node_groups.clear();
  cluster.gpu = std::move(slowest);
  return cluster;
}

Job probe_job(const Job& job, Candidate candidate, std::int64_t data) {
  candidate.data = data > 0 ? data : least_data(job, candidate);
  candidate.virtual_stages = 1;
  candidate.schedule = "1f1b";
  Job probe = job;
  shrink(probe.model, candidate.pipeline);
  const std::int64_t layers = probe.model.num_layers;
  probe = with_candidate(std::move(probe), candidate);
  std::vector<StageContent>& stages = probe.parallelism.stages;
  stages.assign(static_cast<std::size_t>(candidate.pipeline), {});
  for (StageContent& stage : stages) stage.layers = 1;
  stages.front().layers = layers - (candidate.pipeline - 1);
  stages.front().embedding = true;
  stages.back().loss = true;
  stages.back().mtp_layers = job.model.num_nextn_predict_layers;
  probe.training.global_batch_size = candidate.data * candidate.micro_batch * 2;
  const std::int64_t ranks = candidate.tensor * candidate.context * candidate.pipeline * candidate.data;
  probe.cluster = of_one_kind(probe.cluster, job.training.precision);
  probe.cluster.nodes = (ranks + job.cluster.gpus_per_node - 1) / job.cluster.gpus_per_node;
  // What is wrong with one of the job's nodes says nothing of these few, which may not even have that one.
  probe.cluster.imperfections = {};
  return probe;
}

PassProbes::PassProbes() = default;
PassProbes::~PassProbes() = default;
PassProbes::PassProbes(PassProbes&&) noexcept = default;

PassCosts PassProbes::costs(const Job& job, const Candidate& candidate) {
  Candidate shape = candidate;
  shape.pipeline = 2;
  shape.zero_stage = 0;
  auto made = std::make_unique<PassProbe>(probe_job(job, shape, 0), first_.get());
  PassProbe& probe = *made;
  const std::array<std::vector<PartCost>, 2> parts = {probe.parts(0), probe.parts(1)};
  const auto& [first, last] = parts;
  PassCosts costs;
  const std::vector<LayerKind> kinds = kinds_of(job.model);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    costs.kinds.push_back(first[(kind + 1) * layers_of_kind - 1]);
  for (std::int64_t layer = 0; layer < job.model.num_layers; ++layer)
    costs.kind_of.push_back(
        static_cast<std::size_t>(std::ranges::find(kinds, job.model.layer_kind(layer)) - kinds.begin()));
  costs.embedding = first.back();
  costs.loss = last.back();
  probe.set_tied(costs);
  costs.first_transient = probe.transient(0);
  costs.last_transient = probe.transient(1);
  probe.set_bytes(parts, costs);
  if (first_ == nullptr) first_ = std::move(made);
  return costs;
}

}  // namespace simrun
