#include "cli/derived_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "configs/node_groups.h"
#include "schedules/extent_tables.h"
#include "schedules/stage_sizes.h"
#include "sim/exchange_groups.h"
#include "sim/held_memory.h"
#include "sim/memory.h"
#include "visualizer/quantity.h"
#include "visualizer/server_text.h"

namespace simrun {
namespace {

// Of the GPU with least left for its tensors.
struct Room {
  std::int64_t bytes = 0, all_bytes = 0;
  std::string gpu;
};
Room least_room(const Plan& plan) {
  std::optional<Room> least;
  for (const Program& program : plan.programs)
    for (const std::int64_t local : table_classes(plan, program).first_gpu) {
      const Gpu& gpu = gpu_at(plan.cluster, device_at(plan, program.pipeline_rank, local));
      const std::int64_t room = room_for_plan(plan, program, local);
      if (!least || room < least->bytes) least = Room{room, gpu.memory_bytes, gpu.name};
    }
  return least.value_or(Room{});
}

void add_stages(const Plan& plan, std::string& text) {
  std::vector<std::int64_t> peaks;
  for (const Program& program : plan.programs)
    peaks.push_back(walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes);
  const MemoryUnit unit = memory_unit(peaks.empty() ? 0 : std::ranges::max(peaks));
  text += fmt::format("pp rank  chunk  stage  layers            parameters  peak {}\n", unit.name);
  for (std::size_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    const double peak = static_cast<double>(peaks[p]) / static_cast<double>(unit.bytes);
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.pipeline_rank != program.pipeline_rank) continue;
      std::string layers =
          chunk.layers == 0 ? "none"
                            : fmt::format("{}-{}", chunk.first_layer, chunk.first_layer + chunk.layers - 1);
      if (chunk.embedding) layers.insert(0, "emb+");
      if (chunk.mtp_layers > 0)
        layers += chunk.mtp_layers == 1 ? "+mtp" : fmt::format("+{}mtp", chunk.mtp_layers);
      if (chunk.loss) layers += "+loss";
      const std::string memory = chunk.index == 0 ? fmt::format("{:8.2f}", peak) : "";
      fmt::format_to(std::back_inserter(text), "{:7}  {:5}  {:5}  {:<16}  {:>10}  {}\n", chunk.pipeline_rank,
                     chunk.index, chunk.stage, layers, chunk.parameters, memory);
    }
    if (plan.job.parameter_servers && plan.job.parameter_servers->dedicated && program.pipeline_rank > 0)
      fmt::format_to(std::back_inserter(text), "{:7}  {:5}  {:5}  {:<16}  {:>10}  {:8.2f}\n",
                     program.pipeline_rank, "", "", "servers", "", peak);
  }
}

}  // namespace

std::string derived_numbers(const Plan& plan) {
  const JobFacts& job = plan.job;
  const double tokens = static_cast<double>(job.tokens_per_step);
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "{:<28}{}\n", name, value);
  };
  line("model_type", job.model_type);
  line("parameters", std::to_string(job.parameters));
  if (job.frozen_parameters > 0)
    line("trained_parameters", std::to_string(job.parameters - job.frozen_parameters));
  const bool dedicated = job.parameter_servers && job.parameter_servers->dedicated;
  line("world_size",
       fmt::format("{} = tp {} x cp {} x dp {} x pp {}{}", plan.ranks(), ranks_along_text(plan, "tp"),
                   job.context_parallel, ranks_along_text(plan, "dp"), job.pipeline_parallel,
                   dedicated ? fmt::format(" + {} servers", job.parameter_servers->servers) : ""));
  if (job.parameter_servers) line("parameter_servers", servers_text(*job.parameter_servers));
  line("pipeline_schedule",
       fmt::format("{}, {} virtual stages per rank", job.schedule, job.virtual_pipeline));
  const std::string samples =
      job.counts_images ? "images" : fmt::format("sequences of {} tokens each", job.seq_length);
  const std::vector<std::int64_t>& replicas = job.replica_micro_batch_sizes;
  const std::string sizes =
      replicas.empty() ? fmt::format("{}", job.micro_batch_size)
                       : fmt::format("from {} to {}, on average {},", *std::ranges::min_element(replicas),
                                     *std::ranges::max_element(replicas), job.micro_batch_size);
  line("microbatches",
       fmt::format(
           "{} per step and data-parallel rank{}, {} {}", job.microbatches,
           ranks_along_text(plan, "dp") == fmt::format("{}", job.data_parallel) ? "" : " of the first stage",
           sizes, samples));
  line(job.counts_images ? "images_per_step" : "tokens_per_step", std::to_string(job.tokens_per_step));
  line(job.counts_images ? "model_flops_per_image" : "model_flops_per_token",
       flops_text(job.model_flops_per_step / tokens));
  line("model_flops_per_step", fmt::format("{:.6g}", job.model_flops_per_step));
  line("hardware_flops_per_step", fmt::format("{:.6g}", job.hardware_flops_per_step));
  const Room room = least_room(plan);
  const bool has_framework = plan.framework.memory.allocator != AllocatorKind::none;
  line("memory_limit",
       fmt::format("{:.2f} GiB = {:.2f} - {:.2f} {}{}", gib(room.bytes), gib(room.all_bytes),
                   gib(room.all_bytes - room.bytes),
                   has_framework ? "of driver, context, communicators and framework" : "reserved",
                   GpuKinds(plan.cluster).count() > 1 ? fmt::format(" of {}", room.gpu) : ""));
  line("config_sha256", job.config_sha256);
  add_stages(plan, text);
  return text;
}

}  // namespace simrun
