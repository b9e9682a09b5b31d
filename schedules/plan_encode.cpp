
#include "plan.pb.h"
#include "schedules/plan_collectives.h"
#include "schedules/plan_framework.h"
#include "schedules/plan_imperfections.h"
#include "schedules/plan_kernels.h"
#include "schedules/plan_message.h"
#include "schedules/plan_network_message.h"

namespace simrun {
namespace {

// The enums' numbers are the file format: these fail when a C++ enumerator is added in the middle or not
// added to plan.proto.
static_assert(static_cast<int>(Opcode::scan_backward) == proto::OPCODE_SCAN_BACKWARD &&
              opcode_count == proto::Opcode_ARRAYSIZE);
static_assert(static_cast<int>(Function::scale_queries) == proto::FUNCTION_SCALE_QUERIES &&
              function_count == proto::Function_ARRAYSIZE);
static_assert(static_cast<int>(Dtype::fp4) == proto::DTYPE_FP4);
static_assert(traffic_count == proto::Traffic_ARRAYSIZE && category_count == proto::Category_ARRAYSIZE);
static_assert(static_cast<int>(Scope::pass) == proto::SCOPE_PASS &&
              static_cast<int>(Phase::optimizer) == proto::PHASE_OPTIMIZER);
static_assert(memory_space_count == proto::MemorySpace_ARRAYSIZE);
static_assert(static_cast<int>(PassKind::overlapped) == proto::PASS_KIND_OVERLAPPED);

template <class Proto, class Enum>
Proto number(Enum value) {
  return static_cast<Proto>(value);
}

// no_index becomes 0.
std::uint32_t plus_1(Index index) { return index + 1; }
std::uint32_t plus_1(std::int32_t index) { return static_cast<std::uint32_t>(index + 1); }

// Copies a column; one that holds nothing but the default stays empty.
template <class Rows, class Column, class Value, class Default>
void set_column(Column& column, const Rows& rows, Value value, Default absent) {
  bool all_default = true;
  for (const auto& row : rows) all_default &= value(row) == absent;
  if (all_default) return;
  column.Reserve(static_cast<int>(rows.size()));
  for (const auto& row : rows) column.AddAlreadyReserved(value(row));
}

void encode_choices(const JobFacts& job, proto::JobFacts& out) {
  if (job.found_recompute) {
    proto::FoundRecompute& found = *out.mutable_found_recompute();
    found.set_section(job.found_recompute->section);
    found.set_memory_limit(job.found_recompute->memory_limit);
    found.set_peak_bytes(job.found_recompute->peak_bytes);
    found.set_peak_bytes_without(job.found_recompute->peak_bytes_without);
    found.set_added_s(job.found_recompute->added_s);
  }
  if (job.parameter_servers) {
    proto::ParameterServers& servers = *out.mutable_parameter_servers();
    servers.set_servers(job.parameter_servers->servers);
    servers.set_dedicated(job.parameter_servers->dedicated);
    servers.set_mode(number<proto::ServerMode>(job.parameter_servers->mode));
    servers.set_staleness(job.parameter_servers->staleness);
    servers.set_delay(job.parameter_servers->delay);
    servers.set_bytes_per_server(job.parameter_servers->bytes_per_server);
  }
  if (job.documents) {
    proto::DocumentMask& documents = *out.mutable_documents();
    documents.set_origin(job.documents->origin);
    documents.set_mean_share(job.documents->mean_share);
    documents.set_highest_share(job.documents->highest_share);
    documents.set_model_flops_per_step(job.documents->model_flops_per_step);
    const DocumentConfig& config = job.documents->config;
    documents.set_lengths(static_cast<std::int32_t>(config.lengths));
    documents.mutable_recorded()->Add(config.recorded.begin(), config.recorded.end());
    documents.set_mean(config.mean);
    documents.set_sigma(config.sigma);
    documents.set_seed(config.seed);
  }
}

void encode(const JobFacts& job, proto::JobFacts& out) {
  out.set_name(job.name);
  out.set_simrun_version(job.simrun_version);
  out.set_config_sha256(job.config_sha256);
  out.set_model_type(job.model_type);
  out.set_schedule(job.schedule);
  out.set_tensor_parallel(job.tensor_parallel);
  out.set_context_parallel(job.context_parallel);
  out.set_pipeline_parallel(job.pipeline_parallel);
  out.set_virtual_pipeline(job.virtual_pipeline);
  out.set_expert_parallel(job.expert_parallel);
  out.set_data_parallel(job.data_parallel);
  out.set_microbatches(job.microbatches);
  out.set_micro_batch_size(job.micro_batch_size);
  for (const std::int64_t size : job.replica_micro_batch_sizes) out.add_replica_micro_batch_sizes(size);
  out.set_seq_length(job.seq_length);
  out.set_tokens_per_step(job.tokens_per_step);
  out.set_counts_images(job.counts_images);
  out.set_parameters(job.parameters);
  out.set_frozen_parameters(job.frozen_parameters);
  out.set_model_flops_per_step(job.model_flops_per_step);
  out.set_hardware_flops_per_step(job.hardware_flops_per_step);
  out.set_precision(number<proto::Dtype>(job.precision));
  encode_choices(job, out);
  if (!job.found_schedule) return;
  proto::FoundSchedule& found = *out.mutable_found_schedule();
  found.set_origin(job.found_schedule->origin);
  found.set_makespan_s(job.found_schedule->makespan_s);
  found.set_lower_bound_s(job.found_schedule->lower_bound_s);
  found.set_memory_limit(job.found_schedule->memory_limit);
}

void encode(const MeasuredKernels& measured, proto::MeasuredKernels& out) {
  for (const MeasuredKernels::Product& of : measured.products) {
    proto::MeasuredKernels::Rate& rate = *out.add_products();
    for (const std::int64_t size : {of.m, of.n, of.k}) rate.add_sizes(size);
    rate.set_per_second(of.flops);
  }
  const auto add = [](const MeasuredKernels::Attention& of, proto::MeasuredKernels::Rate& rate) {
    rate.add_sizes(of.sequence);
    rate.add_sizes(of.head_dim);
    rate.set_per_second(of.flops);
  };
  for (const MeasuredKernels::Attention& of : measured.attention) add(of, *out.add_attention());
  for (const MeasuredKernels::Attention& of : measured.attention_backward)
    add(of, *out.add_attention_backward());
  for (const auto& [name, bandwidth] : measured.kernels) {
    proto::MeasuredKernels::Kernel& kernel = *out.add_kernels();
    kernel.set_name(name);
    kernel.set_bandwidth(bandwidth);
  }
}

void encode(const Gpu& gpu, proto::Gpu& out) {
  out.set_name(gpu.name);
  for (const auto& [dtype, flops] : gpu.peak_flops) {
    proto::PeakFlops& peak = *out.add_peak_flops();
    peak.set_dtype(number<proto::Dtype>(dtype));
    peak.set_flops(flops);
  }
  out.set_vector_flops(gpu.vector_flops);
  out.set_memory_bytes(gpu.memory_bytes);
  out.set_memory_bandwidth(gpu.memory_bandwidth);
  out.set_sm_count(gpu.sm_count);
  out.set_l2_bytes(gpu.l2_bytes);
  out.set_nvlink_bandwidth(gpu.nvlink_bandwidth);
  out.set_kernel_launch_s(gpu.kernel_launch_s);
  out.set_matmul_efficiency(gpu.matmul_efficiency);
  out.set_memory_efficiency(gpu.memory_efficiency);
  out.set_special_functions(gpu.special_functions);
  out.set_mxfp8(gpu.mxfp8);
  out.set_communication_sms(gpu.communication_sms);
  if (gpu.kernels != GpuKernels{}) encode_kernels(gpu.kernels, *out.mutable_kernels());
  out.set_driver_memory_bytes(gpu.driver_memory_bytes);
  out.set_matmul_workspace_bytes(gpu.matmul_workspace_bytes);
  if (!gpu.measured.empty()) encode(gpu.measured, *out.mutable_measured());
}

void encode(const Host& host, proto::Host& out) {
  out.set_memory_bytes(host.memory_bytes);
  out.set_memory_bandwidth(host.memory_bandwidth);
  out.set_memory_efficiency(host.memory_efficiency);
  out.set_flops(host.flops);
  out.set_pcie_bandwidth(host.pcie_bandwidth);
  out.set_pcie_efficiency(host.pcie_efficiency);
  out.set_nvme_bytes(host.nvme_bytes);
  out.set_nvme_read_bandwidth(host.nvme_read_bandwidth);
  out.set_nvme_write_bandwidth(host.nvme_write_bandwidth);
}

void encode(const Cluster& cluster, proto::Cluster& out) {
  out.set_name(cluster.name);
  out.set_nodes(cluster.nodes);
  out.set_gpus_per_node(cluster.gpus_per_node);
  encode(cluster.gpu, *out.mutable_gpu());
  out.set_reserved_bytes(cluster.reserved_bytes);
  out.set_nics_per_node(cluster.nics_per_node);
  out.set_blocking(cluster.communication == CommunicationMode::blocking);
  for (const auto& [name, exchanges] : cluster.measured)
    for (const MeasuredExchange& of : exchanges) {
      proto::MeasuredExchange& exchange = *out.add_measured();
      exchange.set_name(name);
      exchange.set_ranks(of.ranks);
      exchange.set_latency_s(of.latency_s);
      exchange.set_bandwidth(of.bandwidth);
    }
  for (const NodeGroup& group : cluster.node_groups) {
    proto::NodeGroup& of = *out.add_node_groups();
    of.set_name(group.name);
    of.set_nodes(group.nodes);
    encode(group.gpu, *of.mutable_gpu());
    encode_link(group.intra_node, *of.mutable_intra_node());
  }
  encode_network(cluster, out);
  if (cluster.collectives != CollectivesConfig{}) encode(cluster.collectives, *out.mutable_collectives());
  if (cluster.host != Host{}) encode(cluster.host, *out.mutable_host());
  if (cluster.imperfections != Imperfections{})
    encode_imperfections(cluster.imperfections, *out.mutable_imperfections());
}

void encode(const Stream& stream, proto::Stream& out) {
  out.set_name(stream.name);
  out.set_device(number<proto::StreamDevice>(stream.device));
  out.set_traffic(number<proto::Traffic>(stream.traffic));
}

void encode(const StageDevices& stage, proto::StageDevices& out) {
  for (const DeviceRange& range : stage.devices) {
    proto::DeviceRange& devices = *out.add_devices();
    devices.set_first(range.first);
    devices.set_count(range.count);
  }
  for (const Mesh& mesh : stage.meshes) {
    proto::Mesh& out_mesh = *out.add_meshes();
    out_mesh.set_name(mesh.name);
    for (const Axis& axis : mesh.axes) {
      proto::Axis& out_axis = *out_mesh.add_axes();
      out_axis.set_name(axis.name);
      out_axis.set_size(axis.size);
    }
  }
}

void encode(const Chunk& chunk, proto::Chunk& out) {
  out.set_pipeline_rank(chunk.pipeline_rank);
  out.set_index(chunk.index);
  out.set_stage(chunk.stage);
  out.set_first_layer(chunk.first_layer);
  out.set_layers(chunk.layers);
  out.set_mtp_layers(chunk.mtp_layers);
  out.set_embedding(chunk.embedding);
  out.set_loss(chunk.loss);
  out.set_parameters(chunk.parameters);
}

void encode(const ExtentTable& table, proto::ExtentTable& out) {
  out.set_source(number<proto::ExtentSource>(table.source));
  out.set_mesh(table.mesh);
  out.mutable_axes()->Add(table.axes.begin(), table.axes.end());
  out.mutable_values()->Add(table.values.begin(), table.values.end());
  out.set_origin(table.origin);
  out.set_per_microbatch(table.per_microbatch);
}

void encode(const Buffer& buffer, proto::Buffer& out) {
  out.set_name(buffer.name);
  out.set_category(number<proto::Category>(buffer.category));
  out.set_scope(number<proto::Scope>(buffer.scope));
  out.set_dtype(number<proto::Dtype>(buffer.dtype));
  for (const BufferDim& dim : buffer.dims) {
    proto::BufferDim& out_dim = *out.add_dims();
    out_dim.set_name(dim.name);
    out_dim.set_table_plus_1(plus_1(dim.table));
    out_dim.set_extent(dim.extent);
  }
  for (const std::string& axes : buffer.split) out.add_split(axes);
  out.set_parent_plus_1(plus_1(buffer.parent));
  out.set_parent_offset(buffer.parent_offset);
  out.set_space(number<proto::MemorySpace>(buffer.space));
  out.set_scale_block(buffer.scale_block);
  out.set_parameter_plus_1(plus_1(buffer.parameter));
  out.set_shard_of_plus_1(plus_1(buffer.shard_of));
}

void encode(const ModelParameter& parameter, proto::ModelParameter& out) {
  out.set_id(parameter.id);
  out.set_layer_plus_1(plus_1(parameter.layer));
  out.set_name(parameter.name);
}

void encode(const Communication& communication, proto::Communication& out) {
  const Group& group = communication.group;
  out.mutable_group()->set_mesh(group.mesh);
  out.mutable_group()->mutable_axes()->Add(group.axes.begin(), group.axes.end());
  out.mutable_group()->mutable_pipeline_ranks()->Add(group.pipeline_ranks.begin(),
                                                     group.pipeline_ranks.end());
  const Peer& peer = communication.peer;
  out.mutable_peer()->set_pipeline_rank(peer.pipeline_rank);
  out.mutable_peer()->mutable_axes()->Add(peer.axes.begin(), peer.axes.end());
  out.mutable_peer()->set_offset(peer.offset);
  out.mutable_peer()->set_wrap(peer.wrap);
  out.mutable_peer()->mutable_coordinate_map()->Add(peer.coordinate_map.begin(), peer.coordinate_map.end());
  out.set_reduction(number<proto::Reduction>(communication.reduction));
  out.set_channel_plus_1(plus_1(communication.channel));
  out.set_cause(communication.cause);
  if (const ServerGroup& servers = communication.servers; !servers.members.empty()) {
    out.mutable_servers()->mutable_members()->Add(servers.members.begin(), servers.members.end());
    out.mutable_servers()->set_dedicated(servers.dedicated);
    out.mutable_servers()->set_one_sided(servers.one_sided);
  }
}

void encode(const Instruction& instruction, proto::Instruction& out) {
  out.set_opcode(number<proto::Opcode>(instruction.opcode));
  out.set_function(number<proto::Function>(instruction.function));
  out.set_phase(number<proto::Phase>(instruction.phase));
  out.set_stream(instruction.stream);
  out.set_binding(instruction.binding);
  out.set_accumulate(instruction.accumulate);
  out.set_causal(instruction.causal.on);
  out.set_window(instruction.causal.window);
  out.set_chunked(instruction.causal.chunked);
  if (const SequencePart& part = instruction.part; part != SequencePart{}) {
    out.mutable_part()->mutable_axes()->Add(part.axes.begin(), part.axes.end());
    out.mutable_part()->set_zigzag(part.zigzag);
    out.mutable_part()->set_whole_keys(part.whole_keys);
    out.mutable_part()->set_key_offset(part.key_offset);
  }
  out.set_layer_plus_1(plus_1(instruction.layer));
  out.set_dropout(instruction.dropout);
  out.set_communication_plus_1(plus_1(instruction.communication));
  out.mutable_inputs()->Add(instruction.inputs.begin(), instruction.inputs.end());
  out.mutable_outputs()->Add(instruction.outputs.begin(), instruction.outputs.end());
  out.mutable_waits_for()->Add(instruction.waits_for.begin(), instruction.waits_for.end());
  out.set_label(instruction.label);
  out.set_work_table_plus_1(plus_1(instruction.work_table));
  out.set_soft_cap(instruction.soft_cap);
  out.set_alibi(instruction.alibi);
  out.mutable_constants()->Add(instruction.constants.begin(), instruction.constants.end());
}

void encode(const Segment& segment, proto::Segment& out) {
  out.set_name(segment.name);
  out.set_kind(number<proto::PassKind>(segment.kind));
  out.set_chunk_plus_1(plus_1(segment.chunk));
  for (const Instruction& instruction : segment.instructions) encode(instruction, *out.add_instructions());
}

void encode_entries(const Program& program, proto::EntryColumns& out) {
  out.mutable_segment()->Reserve(static_cast<int>(program.entries.size()));
  for (const Entry& entry : program.entries) out.mutable_segment()->AddAlreadyReserved(entry.segment);
  std::int64_t expected = 0, sequence = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> differences;  // (first binding, sequence)
  differences.reserve(program.entries.size());
  for (const Entry& entry : program.entries) {
    differences.emplace_back(entry.first_binding - expected, entry.sequence - sequence);
    expected = std::int64_t{entry.first_binding} + entry.binding_count;
    sequence = entry.sequence;
  }
  set_column(
      *out.mutable_first_binding_step(), differences, [](const auto& row) { return row.first; }, 0);
  set_column(
      *out.mutable_sequence_step(), differences, [](const auto& row) { return row.second; }, 0);
  set_column(
      *out.mutable_binding_count(), program.entries,
      [](const Entry& entry) { return std::uint32_t{entry.binding_count}; }, 1u);
  set_column(
      *out.mutable_steps(), program.entries, [](const Entry& entry) { return static_cast<int>(entry.steps); },
      0);
}

void encode_bindings(const Program& program, proto::BindingColumns& out) {
  const std::vector<Binding>& rows = program.bindings;
  out.mutable_chunk_plus_1()->Reserve(static_cast<int>(rows.size()));
  for (const Binding& binding : rows) out.mutable_chunk_plus_1()->AddAlreadyReserved(plus_1(binding.chunk));
  set_column(
      *out.mutable_microbatch(), rows, [](const Binding& binding) { return binding.microbatch; }, 0);
  set_column(
      *out.mutable_slice(), rows, [](const Binding& binding) { return binding.slice; }, 0);
  set_column(
      *out.mutable_weight_version(), rows, [](const Binding& binding) { return binding.weight_version; }, 0);
  set_column(
      *out.mutable_direction(), rows,
      [](const Binding& binding) { return static_cast<int>(binding.direction); }, 0);
}

}  // namespace

std::string encode_plan(const Plan& plan) {
  proto::Plan message;
  encode(plan.job, *message.mutable_job());
  encode(plan.cluster, *message.mutable_cluster());
  if (plan.framework != Framework{}) encode_framework(plan.framework, *message.mutable_framework());
  for (const std::string& name : plan.dimension_names) message.add_dimension_names(name);
  message.mutable_dimension_sizes()->Add(plan.dimension_sizes.begin(), plan.dimension_sizes.end());
  for (const ModelParameter& parameter : plan.parameters) encode(parameter, *message.add_parameters());
  for (const Stream& stream : plan.streams) encode(stream, *message.add_streams());
  for (const StageDevices& stage : plan.stages) encode(stage, *message.add_stages());
  for (const Chunk& chunk : plan.chunks) encode(chunk, *message.add_chunks());
  for (const ExtentTable& table : plan.extent_tables) encode(table, *message.add_extent_tables());
  for (const Buffer& buffer : plan.buffers) encode(buffer, *message.add_buffers());
  for (const Communication& communication : plan.communications)
    encode(communication, *message.add_communications());
  for (const Segment& segment : plan.segments) encode(segment, *message.add_segments());
  for (const Program& program : plan.programs) {
    proto::Program& out = *message.add_programs();
    out.set_pipeline_rank(program.pipeline_rank);
    encode_entries(program, *out.mutable_entries());
    encode_bindings(program, *out.mutable_bindings());
  }
  return message.SerializeAsString();
}

}  // namespace simrun
