#include "backend/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "backend/bucket_views.h"
#include "backend/cpu/device.h"
#include "backend/null_device.h"
#include "backend/plugin_device.h"
#include "backend/rank_run.h"
#include "backend/recycling_device.h"
#include "backend/run_ranks.h"
#include "schedules/extent_tables.h"
#include "schedules/update_operands.h"

namespace simrun {
namespace {

std::unique_ptr<Device> make_device(const ExecuteOptions& options, std::int64_t rank) {
  if (is_cuda(options.device)) return make_cuda_plugin_device(options, rank);
  switch (options.device) {
    case ExecutionDevice::cpu_f64: return make_cpu_device_f64();
    case ExecutionDevice::cpu_f32: return make_cpu_device_f32();
    case ExecutionDevice::cpu_half: return make_cpu_device_half();
    default: return std::make_unique<NullDevice>();
  }
}

class Refusals {
 public:
  void add(std::string sentence) {
    if (known_.insert(sentence).second) sentences_.push_back(std::move(sentence));
  }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::set<std::string> known_;
  std::vector<std::string> sentences_;
};

void refuse_shapes(const Plan& plan, ExecutionDevice device, Refusals& refusals) {
  if (plan.ranks() > most_thread_ranks)
    refusals.add(fmt::format("the plan has {} ranks; threads run up to {}: fewer nodes or gpus_per_node",
                             plan.ranks(), most_thread_ranks));
  for (const StageDevices& stage : plan.stages)
    if (stage.meshes != plan.stages.front().meshes && !plan.job.parameter_servers && is_cuda(device))
      refusals.add(
          "pipeline ranks of unlike size are not run on GPUs yet: "
          "parallelism.stage_tensor_model_parallel_sizes, stage_data_parallel_sizes");
}

// The plan fetches no weights that are not kept apart from what is updated.
void refuse_updates(const Plan& plan, Refusals& refusals) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::optimizer && main_weights_of(plan, what).value_or(0) >= what.outputs.size())
        refusals.add(
            "weights on drives are updated without being read: offload.parameters: cpu, or "
            "optimizer.main_params_dtype: fp32 with another training.precision");
}

}  // namespace

std::vector<std::string> execution_refusals(const Plan& plan, ExecutionDevice device) {
  Refusals refusals;
  refuse_shapes(plan, device, refusals);
  if (device == ExecutionDevice::null) return refusals.take();
  for (const Program& program : plan.programs)
    for (const Binding& binding : program.bindings)
      if (binding.weight_version != 0 || binding.slice != 0)
        refusals.add("weight versions and sequence slices are not run yet: parallelism.pipeline_schedule");
  refuse_updates(plan, refusals);
  if (plan.job.parameter_servers && plan.job.parameter_servers->mode != ServerMode::synchronous)
    refusals.add(
        "servers' weights of earlier steps are not run yet: optimizer.parameter_server.mode: synchronous");
  const bool has_host = !is_cuda(device);
  for (const Buffer& buffer : plan.buffers)
    if (!has_host && buffer.space != MemorySpace::device)
      refusals.add("memory of the host or of drives is not used yet: offload");
  if (const std::string why = is_cuda(device) ? why_no_cuda_device() : ""; !why.empty()) {
    refusals.add("there is no device cuda: " + why);
    return refusals.take();
  }
  ExecuteOptions alone;
  alone.device = device;
  const std::unique_ptr<Device> asked = make_device(alone, 0);
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      const std::string why = asked->refusal(plan, what);
      if (!why.empty()) refusals.add(fmt::format("'{}' ({}) {}", what.label, to_string(what.opcode), why));
    }
  return refusals.take();
}

namespace {

const char* name_of(ExecutionDevice device) {
  switch (device) {
    case ExecutionDevice::cpu_f64: return "cpu f64";
    case ExecutionDevice::cpu_f32: return "cpu f32";
    case ExecutionDevice::cpu_half: return "cpu f32, 16-bit types rounded";
    case ExecutionDevice::cuda_f64: return "cuda f64";
    case ExecutionDevice::cuda_f32: return "cuda f32";
    case ExecutionDevice::cuda_half: return "cuda bf16";
    default: return "null";
  }
}

// At least one: the caller may bring a device of its own.
int gpus_here() { return std::max(cuda_devices_here(), 1); }

Measurement empty_measurement(const ExecuteOptions& options, std::size_t ranks) {
  if (!options.timed) return {};
  const bool on_gpus = is_cuda(options.device);
  const int workers = on_gpus ? std::min(gpus_here(), static_cast<int>(ranks)) : available_cores();
  return {std::vector<std::vector<MeasuredStep>>(ranks), name_of(options.device), workers,
          on_gpus ? "GPU" : "core"};
}

// Ranks that share a core, or a GPU, work by turns where their instructions are timed.
class Gates {
 public:
  explicit Gates(const ExecuteOptions& options) {
    if (is_cuda(options.device))
      for (int gpu = 0; gpu < gpus_here(); ++gpu) gates_.emplace_back(1);
    else
      gates_.emplace_back(available_cores());
  }
  CoreGate& of(std::int64_t rank) { return gates_[static_cast<std::size_t>(rank) % gates_.size()]; }

 private:
  std::deque<CoreGate> gates_;
};

}  // namespace

Execution execute(const Plan& plan, const ExecuteOptions& options) {
  return execute_on(plan, options, [&](std::int64_t rank) { return make_device(options, rank); });
}

Execution execute_on(const Plan& plan, const ExecuteOptions& options, const DeviceOfRank& make) {
  const std::vector<RankPlace> places = ranks_of(plan);
  const BucketViews buckets(plan);
  Observations observed(plan, options.steps);
  const std::size_t moments = options.keeps_moments ? saved_optimizer(plan).moments : 0;
  observed.keep_moments(plan, moments);
  std::optional<ResumedParameters> start;
  if (options.start != nullptr) start.emplace(*options.start, plan);
  const RankRun::Shared shared{
      plan, buckets, options.training, options.steps, observed, start ? &*start : nullptr, options.compares};
  Execution execution;
  execution.ranks.resize(places.size());
  std::optional<Gates> gates;
  if (options.timed) gates.emplace(options);
  execution.measured = empty_measurement(options, places.size());
  const auto run_rank = [&](std::int64_t rank, Transport& transport) {
    const auto number = static_cast<std::size_t>(rank);
    const std::unique_ptr<Transport> around =
        options.around_transport ? options.around_transport(transport, rank) : nullptr;
    Transport& fabric = around ? *around : transport;
    std::optional<RankClock> clock;
    if (options.timed) clock.emplace(fabric, gates->of(rank), rank, static_cast<std::int64_t>(places.size()));
    std::unique_ptr<Device> device = make(rank);
    if (options.timed && options.device != ExecutionDevice::null && !is_cuda(options.device))
      device = recycling(std::move(device));
    Transport& through = clock ? static_cast<Transport&>(*clock) : fabric;
    RankRun run(shared, *device, through, places[number], clock ? &*clock : nullptr);
    run.run();
    execution.ranks[number] = {run.planned_peak_bytes(), device->peak_bytes(), run.instructions()};
    if (clock) execution.measured.ranks[number] = clock->take_steps();
  };
  const RunFailure failure = run_ranks(plan, options, run_rank, observed, execution);
  execution.failure_kind = failure.kind;
  execution.failure = failure.text;
  execution.loss = observed.loss();
  execution.gradients = observed.take_gradients();
  execution.parameters = observed.take_parameters();
  execution.moments = observed.take_moments();
  execution.expert_rows = observed.take_rows();
  return execution;
}

}  // namespace simrun
