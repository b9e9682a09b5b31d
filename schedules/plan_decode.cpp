#include <cmath>
#include <utility>

#include "plan.pb.h"
#include "schedules/plan_collectives.h"
#include "schedules/plan_fields.h"
#include "schedules/plan_framework.h"
#include "schedules/plan_imperfections.h"
#include "schedules/plan_kernels.h"
#include "schedules/plan_message.h"
#include "schedules/plan_network_message.h"

namespace simrun {

namespace {

template <class Integer>
Integer narrow(std::int64_t value, const char* what) {
  if (!std::in_range<Integer>(value))
    throw MalformedPlan(std::string(what) + " " + std::to_string(value) + " is out of range");
  return static_cast<Integer>(value);
}

// 0 becomes no_index.
Index minus_1(std::uint32_t index_plus_1) { return index_plus_1 - 1; }
std::int32_t signed_minus_1(std::uint32_t index_plus_1, const char* what) {
  return narrow<std::int32_t>(std::int64_t{index_plus_1} - 1, what);
}

// A row of a column that may be empty, which stands for the default in all rows.
template <class Column, class Value>
Value cell(const Column& column, int row, Value absent) {
  return column.empty() ? absent : static_cast<Value>(column.Get(row));
}
void require_length(int length, int rows, const char* what) {
  if (length != 0 && length != rows)
    throw MalformedPlan("column " + std::string(what) + " has " + std::to_string(length) + " rows, not " +
                        std::to_string(rows));
}

Dtype decode_dtype(int number) { return enum_of(number, Dtype::fp4, "dtype"); }

DocumentConfig decode_lengths(const proto::DocumentMask& in) {
  DocumentConfig config;
  config.lengths = enum_of(in.lengths(), DocumentLengths::lognormal, "document lengths");
  config.recorded.assign(in.recorded().begin(), in.recorded().end());
  for (const std::int64_t tokens : config.recorded)
    if (tokens <= 0) throw MalformedPlan("a document has no tokens");
  config.mean = in.mean();
  config.sigma = finite(in.sigma(), "sigma");
  config.seed = in.seed();
  return config;
}

JobFacts decode(const proto::JobFacts& in) {
  JobFacts job;
  job.name = in.name();
  job.simrun_version = in.simrun_version();
  job.config_sha256 = in.config_sha256();
  job.model_type = in.model_type();
  job.schedule = in.schedule();
  job.tensor_parallel = in.tensor_parallel();
  job.context_parallel = in.context_parallel();
  job.pipeline_parallel = in.pipeline_parallel();
  job.virtual_pipeline = in.virtual_pipeline();
  job.expert_parallel = in.expert_parallel();
  job.data_parallel = in.data_parallel();
  job.microbatches = in.microbatches();
  job.micro_batch_size = in.micro_batch_size();
  job.replica_micro_batch_sizes = {in.replica_micro_batch_sizes().begin(),
                                   in.replica_micro_batch_sizes().end()};
  job.seq_length = in.seq_length();
  job.tokens_per_step = in.tokens_per_step();
  job.counts_images = in.counts_images();
  job.parameters = in.parameters();
  job.frozen_parameters = in.frozen_parameters();
  job.model_flops_per_step = finite(in.model_flops_per_step(), "model_flops_per_step");
  job.hardware_flops_per_step = finite(in.hardware_flops_per_step(), "hardware_flops_per_step");
  job.precision = decode_dtype(in.precision());
  if (in.has_found_recompute()) {
    const proto::FoundRecompute& found = in.found_recompute();
    job.found_recompute = FoundRecompute{found.section(), found.memory_limit(), found.peak_bytes(),
                                         found.peak_bytes_without(), finite(found.added_s(), "added_s")};
  }
  if (in.has_parameter_servers()) {
    const proto::ParameterServers& servers = in.parameter_servers();
    job.parameter_servers =
        ParameterServers{servers.servers(),
                         servers.dedicated(),
                         enum_of(servers.mode(), ServerMode::bounded_staleness, "server mode"),
                         servers.staleness(),
                         servers.delay(),
                         servers.bytes_per_server()};
  }
  if (in.has_documents()) {
    const proto::DocumentMask& documents = in.documents();
    job.documents = DocumentMask{documents.origin(), finite(documents.mean_share(), "mean_share"),
                                 finite(documents.highest_share(), "highest_share"),
                                 finite(documents.model_flops_per_step(), "model_flops_per_step"),
                                 decode_lengths(documents)};
  }
  if (in.has_found_schedule()) {
    const proto::FoundSchedule& found = in.found_schedule();
    job.found_schedule = FoundSchedule{found.origin(), finite(found.makespan_s(), "makespan_s"),
                                       finite(found.lower_bound_s(), "lower_bound_s"), found.memory_limit()};
  }
  return job;
}

std::int64_t size_of(const proto::MeasuredKernels::Rate& rate, int place, int count) {
  if (rate.sizes_size() != count) throw MalformedPlan("a measured rate has another number of sizes");
  return rate.sizes(place);
}

MeasuredKernels::Attention decode_attention(const proto::MeasuredKernels::Rate& in) {
  return {size_of(in, 0, 2), size_of(in, 1, 2), finite(in.per_second(), "measured attention")};
}

MeasuredKernels decode(const proto::MeasuredKernels& in) {
  MeasuredKernels measured;
  for (const proto::MeasuredKernels::Rate& of : in.products())
    measured.products.push_back({size_of(of, 0, 3), size_of(of, 1, 3), size_of(of, 2, 3),
                                 finite(of.per_second(), "measured product")});
  for (const proto::MeasuredKernels::Rate& of : in.attention())
    measured.attention.push_back(decode_attention(of));
  for (const proto::MeasuredKernels::Rate& of : in.attention_backward())
    measured.attention_backward.push_back(decode_attention(of));
  for (const proto::MeasuredKernels::Kernel& of : in.kernels())
    measured.kernels[of.name()] = finite(of.bandwidth(), "measured kernel");
  return measured;
}

Gpu decode(const proto::Gpu& in) {
  Gpu gpu;
  gpu.name = in.name();
  for (const proto::PeakFlops& peak : in.peak_flops())
    if (!gpu.peak_flops.emplace(decode_dtype(peak.dtype()), finite(peak.flops(), "peak_flops")).second)
      throw MalformedPlan("peak_flops names a dtype twice");
  gpu.vector_flops = finite(in.vector_flops(), "vector_flops");
  gpu.memory_bytes = in.memory_bytes();
  gpu.memory_bandwidth = finite(in.memory_bandwidth(), "memory_bandwidth");
  gpu.sm_count = in.sm_count();
  gpu.l2_bytes = in.l2_bytes();
  gpu.nvlink_bandwidth = finite(in.nvlink_bandwidth(), "nvlink_bandwidth");
  gpu.kernel_launch_s = finite(in.kernel_launch_s(), "kernel_launch_s");
  gpu.matmul_efficiency = finite(in.matmul_efficiency(), "matmul_efficiency");
  gpu.memory_efficiency = finite(in.memory_efficiency(), "memory_efficiency");
  gpu.special_functions = finite(in.special_functions(), "special_functions");
  gpu.mxfp8 = in.mxfp8();
  gpu.communication_sms = in.communication_sms();
  if (in.has_kernels()) gpu.kernels = decode_kernels(in.kernels());
  gpu.driver_memory_bytes = in.driver_memory_bytes();
  gpu.matmul_workspace_bytes = in.matmul_workspace_bytes();
  gpu.measured = decode(in.measured());
  return gpu;
}

Host decode(const proto::Host& in) {
  return {.memory_bytes = in.memory_bytes(),
          .memory_bandwidth = finite(in.memory_bandwidth(), "host memory_bandwidth"),
          .memory_efficiency = finite(in.memory_efficiency(), "host memory_efficiency"),
          .flops = finite(in.flops(), "host flops"),
          .pcie_bandwidth = finite(in.pcie_bandwidth(), "pcie_bandwidth"),
          .pcie_efficiency = finite(in.pcie_efficiency(), "pcie_efficiency"),
          .nvme_bytes = in.nvme_bytes(),
          .nvme_read_bandwidth = finite(in.nvme_read_bandwidth(), "nvme_read_bandwidth"),
          .nvme_write_bandwidth = finite(in.nvme_write_bandwidth(), "nvme_write_bandwidth")};
}

std::vector<NodeGroup> decode_groups(const proto::Cluster& in) {
  std::vector<NodeGroup> groups;
  for (const proto::NodeGroup& of : in.node_groups())
    groups.push_back({of.name(), of.nodes(), decode(of.gpu()), decode_link(of.intra_node())});
  return groups;
}

// Version 1 files know neither NICs nor a fabric: their GPUs have one each, and only these limit traffic.
Cluster decode(const proto::Cluster& in) {
  const ClusterNetwork network = decode_network(in);
  return {.name = in.name(),
          .nodes = in.nodes(),
          .gpus_per_node = in.gpus_per_node(),
          .nics_per_node = in.nics_per_node() == 0 ? in.gpus_per_node() : in.nics_per_node(),
          .gpu = decode(in.gpu()),
          .intra_node = network.intra_node,
          .inter_node = network.inter_node,
          .fabric = network.fabric,
          .wiring = network.wiring,
          .host = decode(in.host()),
          .communication = in.blocking() ? CommunicationMode::blocking : CommunicationMode::overlapped,
          .measured = decode_measured_exchanges(in),
          .collectives = decode_collectives(in.collectives()),
          .imperfections = decode_imperfections(in.imperfections()),
          .reserved_bytes = in.reserved_bytes(),
          .node_groups = decode_groups(in)};
}

Stream decode(const proto::Stream& in) {
  return {in.name(), enum_of(in.device(), StreamDevice::nvme, "stream device"),
          enum_of(in.traffic(), Traffic::offload, "traffic")};
}

StageDevices decode(const proto::StageDevices& in) {
  StageDevices stage;
  for (const proto::DeviceRange& range : in.devices())
    stage.devices.push_back({range.first(), range.count()});
  for (const proto::Mesh& mesh : in.meshes()) {
    stage.meshes.push_back({mesh.name(), {}});
    for (const proto::Axis& axis : mesh.axes())
      stage.meshes.back().axes.push_back({axis.name(), axis.size()});
  }
  return stage;
}

Chunk decode(const proto::Chunk& in) {
  return {.pipeline_rank = in.pipeline_rank(),
          .index = in.index(),
          .stage = in.stage(),
          .first_layer = in.first_layer(),
          .layers = in.layers(),
          .embedding = in.embedding(),
          .loss = in.loss(),
          .parameters = in.parameters(),
          .mtp_layers = in.mtp_layers()};
}

ExtentTable decode(const proto::ExtentTable& in) {
  ExtentTable table;
  table.source = enum_of(in.source(), ExtentSource::run_time, "extent source");
  table.mesh = narrow<std::uint8_t>(in.mesh(), "mesh");
  for (const std::uint32_t axis : in.axes()) table.axes.push_back(narrow<std::uint8_t>(axis, "axis"));
  table.values.assign(in.values().begin(), in.values().end());
  table.origin = in.origin();
  table.per_microbatch = in.per_microbatch();
  return table;
}

Buffer decode(const proto::Buffer& in) {
  Buffer buffer;
  buffer.name = in.name();
  buffer.category = enum_of(in.category(), Category::workspace, "category");
  buffer.scope = enum_of(in.scope(), Scope::pass, "scope");
  buffer.dtype = decode_dtype(in.dtype());
  for (const proto::BufferDim& dim : in.dims())
    buffer.dims.push_back({narrow<std::uint16_t>(dim.name(), "dimension name"),
                           signed_minus_1(dim.table_plus_1(), "extent table"), dim.extent()});
  buffer.split.assign(in.split().begin(), in.split().end());
  buffer.parent = minus_1(in.parent_plus_1());
  buffer.parent_offset = in.parent_offset();
  buffer.space = enum_of(in.space(), MemorySpace::nvme, "memory space");
  if (in.scale_block() < 0) throw MalformedPlan("scale_block is negative");
  buffer.scale_block = in.scale_block();
  buffer.parameter = minus_1(in.parameter_plus_1());
  buffer.shard_of = minus_1(in.shard_of_plus_1());
  return buffer;
}

Communication decode(const proto::Communication& in) {
  Communication communication;
  communication.group.mesh = narrow<std::uint8_t>(in.group().mesh(), "mesh");
  for (const std::uint32_t axis : in.group().axes())
    communication.group.axes.push_back(narrow<std::uint8_t>(axis, "axis"));
  communication.group.pipeline_ranks.assign(in.group().pipeline_ranks().begin(),
                                            in.group().pipeline_ranks().end());
  communication.peer = {in.peer().pipeline_rank(), {}, in.peer().offset(), in.peer().wrap(), {}};
  for (const std::uint32_t axis : in.peer().axes())
    communication.peer.axes.push_back(narrow<std::uint8_t>(axis, "axis"));
  communication.peer.coordinate_map.assign(in.peer().coordinate_map().begin(),
                                           in.peer().coordinate_map().end());
  communication.reduction = enum_of(in.reduction(), Reduction::max, "reduction");
  communication.channel = minus_1(in.channel_plus_1());
  communication.cause = in.cause();
  const proto::ServerGroup& servers = in.servers();
  communication.servers.members.assign(servers.members().begin(), servers.members().end());
  communication.servers.dedicated = servers.dedicated();
  communication.servers.one_sided = servers.one_sided();
  return communication;
}

Instruction decode(const proto::Instruction& in) {
  Instruction instruction;
  instruction.opcode = enum_of(in.opcode(), static_cast<Opcode>(opcode_count - 1), "opcode");
  instruction.function = enum_of(in.function(), static_cast<Function>(proto::Function_MAX), "function");
  instruction.phase = enum_of(in.phase(), Phase::optimizer, "phase");
  instruction.stream = narrow<std::uint8_t>(in.stream(), "stream");
  instruction.binding = narrow<std::uint8_t>(in.binding(), "binding");
  instruction.accumulate = in.accumulate();
  instruction.causal = {in.causal(), in.window(), in.chunked()};
  if (in.window() < 0) throw MalformedPlan("window " + std::to_string(in.window()) + " is negative");
  instruction.layer = signed_minus_1(in.layer_plus_1(), "layer");
  finite(static_cast<double>(in.dropout()), "dropout");
  instruction.dropout = in.dropout();
  instruction.communication = minus_1(in.communication_plus_1());
  instruction.inputs.assign(in.inputs().begin(), in.inputs().end());
  instruction.outputs.assign(in.outputs().begin(), in.outputs().end());
  instruction.waits_for.assign(in.waits_for().begin(), in.waits_for().end());
  instruction.label = in.label();
  for (const std::uint32_t axis : in.part().axes())
    instruction.part.axes.push_back(narrow<std::uint8_t>(axis, "axis"));
  instruction.part.zigzag = in.part().zigzag();
  instruction.part.whole_keys = in.part().whole_keys();
  instruction.part.key_offset = in.part().key_offset();
  instruction.soft_cap = in.soft_cap();
  instruction.alibi = in.alibi();
  for (const double constant : in.constants()) instruction.constants.push_back(finite(constant, "constant"));
  instruction.work_table = signed_minus_1(in.work_table_plus_1(), "work table");
  return instruction;
}

Segment decode(const proto::Segment& in) {
  Segment segment;
  segment.name = in.name();
  segment.kind = enum_of(in.kind(), PassKind::overlapped, "pass kind");
  segment.chunk = minus_1(in.chunk_plus_1());
  segment.instructions.reserve(static_cast<std::size_t>(in.instructions_size()));
  for (const proto::Instruction& instruction : in.instructions())
    segment.instructions.push_back(decode(instruction));
  return segment;
}

std::vector<Entry> decode(const proto::EntryColumns& in) {
  const int rows = in.segment_size();
  require_length(in.first_binding_step_size(), rows, "first_binding_step");
  require_length(in.binding_count_size(), rows, "binding_count");
  require_length(in.steps_size(), rows, "steps");
  require_length(in.sequence_step_size(), rows, "sequence_step");
  std::vector<Entry> entries(static_cast<std::size_t>(rows));
  std::int64_t first_binding = 0, sequence = 0;
  const auto advance = [](std::int64_t from, std::int64_t step, const char* what) {
    constexpr std::int64_t most = 2 * std::int64_t{no_index};  // far from overflow
    if (step < -most || step > most) throw MalformedPlan(std::string(what) + " is out of range");
    return std::int64_t{narrow<Index>(from + step, what)};
  };
  for (int row = 0; row < rows; ++row) {
    Entry& entry = entries[static_cast<std::size_t>(row)];
    entry.segment = in.segment(row);
    first_binding =
        advance(first_binding, cell(in.first_binding_step(), row, std::int64_t{0}), "first binding");
    entry.first_binding = static_cast<Index>(first_binding);
    entry.binding_count =
        narrow<std::uint8_t>(cell(in.binding_count(), row, std::int64_t{1}), "binding count");
    first_binding += entry.binding_count;
    entry.steps = enum_of(cell(in.steps(), row, 0), Steps::first_only, "steps");
    sequence = advance(sequence, cell(in.sequence_step(), row, std::int64_t{0}), "sequence");
    entry.sequence = static_cast<Index>(sequence);
  }
  return entries;
}

std::vector<Binding> decode(const proto::BindingColumns& in) {
  const int rows = in.chunk_plus_1_size();
  require_length(in.microbatch_size(), rows, "microbatch");
  require_length(in.slice_size(), rows, "slice");
  require_length(in.weight_version_size(), rows, "weight_version");
  require_length(in.direction_size(), rows, "direction");
  std::vector<Binding> bindings(static_cast<std::size_t>(rows));
  for (int row = 0; row < rows; ++row)
    bindings[static_cast<std::size_t>(row)] = {
        minus_1(in.chunk_plus_1(row)), cell(in.microbatch(), row, 0), cell(in.slice(), row, 0),
        cell(in.weight_version(), row, 0), enum_of(cell(in.direction(), row, 0), Direction::up, "direction")};
  return bindings;
}

}  // namespace

Plan decode_plan(const std::string& bytes) {
  proto::Plan message;
  if (!message.ParseFromString(bytes)) throw MalformedPlan("its message is not one of plan.proto");
  Plan plan;
  plan.job = decode(message.job());
  plan.cluster = decode(message.cluster());
  plan.framework = decode_framework(message.framework());
  plan.dimension_names.assign(message.dimension_names().begin(), message.dimension_names().end());
  plan.dimension_sizes.assign(message.dimension_sizes().begin(), message.dimension_sizes().end());
  for (const proto::ModelParameter& parameter : message.parameters())
    plan.parameters.push_back(
        {parameter.id(), signed_minus_1(parameter.layer_plus_1(), "layer"), parameter.name()});
  for (const proto::Stream& stream : message.streams()) plan.streams.push_back(decode(stream));
  for (const proto::StageDevices& stage : message.stages()) plan.stages.push_back(decode(stage));
  for (const proto::Chunk& chunk : message.chunks()) plan.chunks.push_back(decode(chunk));
  for (const proto::ExtentTable& table : message.extent_tables()) plan.extent_tables.push_back(decode(table));
  for (const proto::Buffer& buffer : message.buffers()) plan.buffers.push_back(decode(buffer));
  for (const proto::Communication& communication : message.communications())
    plan.communications.push_back(decode(communication));
  for (const proto::Segment& segment : message.segments()) plan.segments.push_back(decode(segment));
  for (const proto::Program& program : message.programs())
    plan.programs.push_back({program.pipeline_rank(), decode(program.entries()), decode(program.bindings())});
  return plan;
}

}  // namespace simrun
