#include "schedules/plan_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "configs/diagnostics.h"
#include "schedules/adafactor_parameters.h"
#include "schedules/lint.h"
#include "schedules/plan_message.h"

// The header, little endian: magic (8 bytes), format version (4), length of the message (8), its CRC-32 (4).
namespace simrun {
namespace {

constexpr char magic[] = {'\x89', 'S', 'I', 'M',
                          'P',    'L', 'A', 'N'};  // not text: no editor takes it for its own
constexpr std::size_t header_bytes = sizeof magic + 4 + 8 + 4;

void append_number(std::string& bytes, std::uint64_t number, int width) {
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

std::uint64_t number_at(const std::string& bytes, std::size_t offset, int width) {
  std::uint64_t number = 0;
  for (int i = width; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[offset + static_cast<std::size_t>(i)]);
  return number;
}

std::uint32_t checksum(const char* data, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(data), size));
}

[[noreturn]] void refuse(const std::string& file, const std::string& message, const std::string& hint = "") {
  throw ConfigError({Diagnostic{{file, 0, 0}, message, hint}});
}

bool has_windows(const Segment& segment) {
  return std::ranges::any_of(segment.instructions,
                             [](const Instruction& instruction) { return instruction.causal.window > 0; });
}

// Extents and work by rank, parts of a sequence, other memories, and operators that came with them.
bool is_new_in_version_4(const Plan& plan) {
  const auto is_new = [](const Instruction& what) {
    return what.work_table >= 0 || what.soft_cap || what.alibi || !what.part.axes.empty() ||
           what.function > Function::qk_norm || what.opcode > Opcode::broadcast;
  };
  const auto is_known_before_the_run = [](const ExtentTable& table) {
    return table.per_microbatch || table.source == ExtentSource::plan_table ||
           table.source == ExtentSource::recorded_histogram;
  };
  return std::ranges::any_of(plan.extent_tables, is_known_before_the_run) ||
         std::ranges::any_of(plan.buffers,
                             [](const Buffer& buffer) { return buffer.space != MemorySpace::device; }) ||
         std::ranges::any_of(plan.communications,
                             [](const Communication& c) { return !c.peer.axes.empty(); }) ||
         std::ranges::any_of(plan.segments, [&](const Segment& segment) {
           return std::ranges::any_of(segment.instructions, is_new);
         });
}

// Parameter servers, scales of fp8 in blocks, and operators that came with them.
bool is_new_in_version_5(const Plan& plan) {
  const auto is_new = [](const Instruction& what) {
    return what.function > Function::average_pool || what.opcode > Opcode::lstm_backward;
  };
  return std::ranges::any_of(plan.buffers, [](const Buffer& buffer) { return buffer.scale_block != 0; }) ||
         std::ranges::any_of(plan.segments, [&](const Segment& segment) {
           return std::ranges::any_of(segment.instructions, is_new);
         });
}

// What Cluster could say before there were other fabrics than leaves and spines, and other nodes than
// switches.
bool has_known_network(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  const Fabric known = {fabric.topology, fabric.rail_optimized,   fabric.nodes_per_leaf,
                        fabric.spines,   fabric.oversubscription, fabric.spine_latency_s};
  return fabric == known && fabric.topology <= FabricTopology::leaf_spine && cluster.wiring == NodeWiring{} &&
         cluster.nics_per_node <= cluster.gpus_per_node;
}

// Clusters that were measured, and sequences dealt out in zigzag blocks.
bool is_new_in_version_6(const Plan& plan) {
  const Cluster& cluster = plan.cluster;
  const auto is_dealt = [](const std::string& split) { return split.find(':') != std::string::npos; };
  return cluster.communication != CommunicationMode::overlapped || cluster.measured != MeasuredExchanges{} ||
         cluster.gpu.measured != MeasuredKernels{} ||
         std::ranges::any_of(
             plan.buffers, [&](const Buffer& buffer) { return std::ranges::any_of(buffer.split, is_dealt); });
}

// Other networks, collectives of the cluster's own, imperfections.
bool is_new_in_version_7(const Cluster& cluster) {
  return !has_known_network(cluster) || cluster.collectives != CollectivesConfig{} ||
         !cluster.imperfections.empty() || cluster.gpu.communication_sms != 0;
}

// Software and what it makes of a GPU, limits of one flow, other jobs on the fabric.
bool is_new_in_version_8(const Plan& plan) {
  const Cluster& cluster = plan.cluster;
  return plan.framework != Framework{} || cluster.gpu.kernels != GpuKernels{} ||
         cluster.inter_node.flow_bandwidth != 0 || !cluster.imperfections.other_jobs.empty();
}

// Several kinds of GPU, batches of unlike size, collectives for which compute waits.
bool is_new_in_version_9(const Plan& plan) {
  return !plan.cluster.node_groups.empty() || !plan.job.replica_micro_batch_sizes.empty() ||
         plan.framework.kernels.blocking_collectives;
}

// fp4: of a GPU's peaks or of what products read.
bool is_new_in_version_10(const Plan& plan) {
  const auto has_peak = [](const Gpu& gpu) { return gpu.peak_flops.contains(Dtype::fp4); };
  return has_peak(plan.cluster.gpu) || plan.job.precision == Dtype::fp4 ||
         std::ranges::any_of(plan.cluster.node_groups,
                             [&](const NodeGroup& group) { return has_peak(group.gpu); }) ||
         std::ranges::any_of(plan.buffers, [](const Buffer& buffer) { return buffer.dtype == Dtype::fp4; });
}

// Masks that dispatch tokens.
bool is_new_in_version_11(const Plan& plan) {
  return std::ranges::any_of(plan.segments, [](const Segment& segment) {
    return std::ranges::any_of(
        segment.instructions, [](const Instruction& what) { return what.function > Function::average_pool; });
  });
}

// Kernels that exchanges slow.
bool is_new_in_version_12(const Plan& plan) { return plan.framework.kernels.overlap_slowdown != 1; }

// Products over experts at a rate of their own.
bool is_new_in_version_13(const Plan& plan) { return plan.framework.kernels.batched_gemm_efficiency != 1; }

// Norms slower than memory.
bool is_new_in_version_14(const Plan& plan) { return plan.framework.kernels.norm_efficiency != 1; }

// Gates that are products of their own, tensors that come to life in a step.
bool is_new_in_version_15(const Plan& plan) {
  const FrameworkMemory& memory = plan.framework.memory;
  const FrameworkKernels& kernels = plan.framework.kernels;
  return kernels.separate_gate || kernels.recompute_stops_early || memory.lazy_optimizer_state ||
         memory.fsdp != 0 || memory.logits != LogitsTensors::fp32 || memory.saved.contains("gated_silu") ||
         memory.saved.contains("gated_gelu") || memory.saved.contains("repeated_kv");
}

// Masks of attention at the ends of a pipeline, softmax under autocast, biases of experts behind products,
// copies of what ZeRO-1 gathers, GPUs that no framework slows.
bool is_new_in_version_16(const Plan& plan) {
  const FrameworkKernels& kernels = plan.framework.kernels;
  return plan.framework.memory.attention_mask == AttentionMask::first_and_last_stage ||
         kernels.softmax > SoftmaxKernel::separate || kernels.expert_bias != ExpertBias::fused ||
         kernels.broadcast_operations != 0 || kernels.broadcast_operations_fp32 != 0 ||
         kernels.copies_gathered_shards || plan.cluster.gpu.kernels.efficiencies_of_steps ||
         std::ranges::any_of(plan.cluster.node_groups,
                             [](const NodeGroup& group) { return group.gpu.kernels.efficiencies_of_steps; });
}

// Products of fp8 slower than those of wider types.
bool is_new_in_version_17(const Plan& plan) {
  const auto is_slow = [](const Gpu& gpu) { return gpu.kernels.fp8_efficiency != 1; };
  return std::ranges::any_of(plan.buffers, [](const Buffer& buffer) { return buffer.dtype == Dtype::fp8; }) &&
         (is_slow(plan.cluster.gpu) ||
          std::ranges::any_of(plan.cluster.node_groups,
                              [&](const NodeGroup& group) { return is_slow(group.gpu); }));
}

bool is_new_in_version_18(const Plan& plan) { return plan.framework.kernels.whole_pipeline_transfers; }

// Heads and losses in parts, what a router costs the host.
bool is_new_in_version_19(const Plan& plan) {
  const FrameworkKernels& kernels = plan.framework.kernels;
  return plan.framework.memory.cross_entropy_chunks != 1 || kernels.routing_operators != 0 ||
         kernels.routing_backward_operators != 0;
}

// What a step costs the host once.
bool is_new_in_version_20(const Plan& plan) { return plan.framework.kernels.host_step_s != 0; }

// Mamba-2 layers; what their kernels reach is in the plan of any model.
bool is_new_in_version_21(const Plan& plan) {
  return std::ranges::any_of(plan.segments, [](const Segment& segment) {
    return std::ranges::any_of(segment.instructions,
                               [](const Instruction& what) { return what.opcode >= Opcode::scan; });
  });
}

// Mamba-2 layers slower than memory, frozen weights in NF4.
bool is_new_in_version_22(const Plan& plan) {
  return (is_new_in_version_21(plan) && plan.framework.kernels.scan_memory_efficiency != 1) ||
         std::ranges::any_of(plan.buffers, [](const Buffer& buffer) {
           return buffer.dtype == Dtype::fp4 && buffer.scale_block == nf4_block;
         });
}

// Rows of nodes and GPUs whose sums are weighted where the experts are, norms over all heads, Adafactor of
// parts of matrices.
bool is_new_in_version_23(const Plan& plan) {
  return std::ranges::any_of(plan.segments, [&](const Segment& segment) {
    return std::ranges::any_of(segment.instructions, [&](const Instruction& what) {
      const bool weights =
          what.opcode == Opcode::gather && what.function == Function::combine && what.inputs.size() == 2;
      const bool of_all_heads = what.opcode == Opcode::norm && what.function == Function::qk_norm &&
                                what.inputs.size() > 1 && plan.buffers[what.inputs.at(1)].dims.size() == 3;
      return weights || what.function == Function::weigh_rows || of_all_heads || tells_parts(what);
    });
  });
}

bool has_experts(const Plan& plan) {
  return std::ranges::find(plan.dimension_names, "experts") != plan.dimension_names.end();
}

// Experts whose products the host issues one by one, attention within chunks, and operators that came with
// Gated DeltaNet layers, gates of attention's output, weights of what experts read, norms of each head with
// its own weights, norms without weights, clipped heads and queries scaled by their position.
bool is_new_in_version_24(const Plan& plan) {
  const bool issues_experts = plan.framework.kernels.expert_dispatch_s > 0 && has_experts(plan);
  return issues_experts || std::ranges::any_of(plan.segments, [](const Segment& segment) {
           return std::ranges::any_of(segment.instructions, [](const Instruction& what) {
             const bool is_unweighted = what.opcode == Opcode::norm && what.inputs.size() == 1;
             return what.causal.chunked || what.function > Function::weigh_rows_backward || is_unweighted;
           });
         });
}

// Rows of experts that scatters add slower than memory.
bool is_new_in_version_25(const Plan& plan) {
  const FrameworkKernels& kernels = plan.framework.kernels;
  return kernels.scatter_operations > 0 && !kernels.fused_permute && has_experts(plan);
}

// Readers of version 1 would take the cluster for a non-blocking one with a NIC per GPU; those of version 2
// know no overlapped passes and would take a sliding window for full attention; those of versions 3
// to 6 would misread what is_new_in_version_4() to _7() name, those of version 7 would price another
// framework, those of version 8 take all nodes and replicas for alike and compute
// beside every collective, those of version 9 know no fp4, those of version 10 no masks, those of version 11
// would let exchanges slow nothing, those of version 12 take experts' products for as fast as others, those
// of version 13 PyTorch's norms for as fast as memory, those of version 14 would hold other memory, those of
// version 15 hold masks on every stage, add biases and copy shards for nothing, or slow every GPU, those of
// version 16 have fp8 at its peak's share, those of version 17 tensor-parallel ranks send parts, those of
// version 18 hold all logits at once and route for nothing, those of version 19 begin steps at once, those of
// version 20 know no scan, those of version 21 scan too fast or take a scale of NF4 for four bytes, those of
// version 22 would take what weights a GPU's rows for what says where tokens' rows are, norms of all heads
// for norms of each, and Adafactor's numbers of a parameter for others, those of version 23 would issue
// the products of all experts at once, take chunks for sliding windows and know none of its operators, and
// those of version 24 would add experts' rows as fast as memory.
std::uint64_t version_needed(const Plan& plan) {
  if (is_new_in_version_25(plan)) return 25;
  if (is_new_in_version_24(plan)) return 24;
  if (is_new_in_version_23(plan)) return 23;
  if (is_new_in_version_22(plan)) return 22;
  if (is_new_in_version_21(plan)) return 21;
  if (is_new_in_version_20(plan)) return 20;
  if (is_new_in_version_19(plan)) return 19;
  if (is_new_in_version_18(plan)) return 18;
  if (is_new_in_version_17(plan)) return 17;
  if (is_new_in_version_16(plan)) return 16;
  if (is_new_in_version_15(plan)) return 15;
  if (is_new_in_version_14(plan)) return 14;
  if (is_new_in_version_13(plan)) return 13;
  if (is_new_in_version_12(plan)) return 12;
  if (is_new_in_version_11(plan)) return 11;
  if (is_new_in_version_10(plan)) return 10;
  if (is_new_in_version_9(plan)) return 9;
  if (is_new_in_version_8(plan)) return 8;
  if (is_new_in_version_7(plan.cluster)) return 7;
  if (is_new_in_version_6(plan)) return 6;
  if (is_new_in_version_5(plan)) return 5;
  if (is_new_in_version_4(plan)) return 4;
  if (std::ranges::any_of(plan.segments, [](const Segment& segment) {
        return segment.kind == PassKind::overlapped || has_windows(segment);
      }))
    return 3;
  const Cluster& cluster = plan.cluster;
  const bool is_known_to_version_1 =
      (cluster.nics_per_node == 0 || cluster.nics_per_node == cluster.gpus_per_node) &&
      cluster.fabric.topology == FabricTopology::non_blocking;
  return is_known_to_version_1 ? 1 : 2;
}

// The message behind a good header.
std::string message_of(const std::string& bytes, const std::string& file) {
  const std::string again = "write it again with this version of simrun";
  if (bytes.compare(0, sizeof magic, magic, sizeof magic) != 0) refuse(file, "this is not a plan file");
  if (bytes.size() < header_bytes) refuse(file, "the plan file is cut off in its header", again);
  const std::uint64_t version = number_at(bytes, sizeof magic, 4);
  if (version < 1 || version > plan_format_version)
    refuse(file,
           fmt::format("the plan file has format version {}; this simrun reads versions 1 to {}", version,
                       plan_format_version),
           version > plan_format_version ? "read it with the newer simrun that wrote it" : again);
  const std::uint64_t length = number_at(bytes, sizeof magic + 4, 8);
  if (length != bytes.size() - header_bytes)
    refuse(file,
           fmt::format("the plan file holds {} bytes behind its header, not the {} that it promises",
                       bytes.size() - header_bytes, length),
           again);
  if (number_at(bytes, sizeof magic + 12, 4) !=
      checksum(bytes.data() + header_bytes, bytes.size() - header_bytes))
    refuse(file, "the plan file was altered: its checksum does not match", again);
  return bytes.substr(header_bytes);
}

}  // namespace

std::string serialize(const Plan& plan) {
  const std::string message = encode_plan(plan);
  std::string bytes(magic, sizeof magic);
  bytes.reserve(header_bytes + message.size());
  append_number(bytes, version_needed(plan), 4);
  append_number(bytes, message.size(), 8);
  append_number(bytes, checksum(message.data(), message.size()), 4);
  return bytes + message;
}

Plan parse_plan(const std::string& bytes, const std::string& file) {
  const std::string message = message_of(bytes, file);
  Plan plan;
  try {
    plan = decode_plan(message);
  } catch (const MalformedPlan& error) {
    refuse(file, std::string("the plan file is malformed: ") + error.what());
  }
  std::vector<Diagnostic> diagnostics;
  for (const std::string& sentence : lint(plan))
    diagnostics.push_back({{file, 0, 0}, "invalid plan: " + sentence, ""});
  if (!diagnostics.empty()) throw ConfigError(diagnostics);
  return plan;
}

Plan read_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, std::string("cannot read the plan file: ") + std::strerror(errno));
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) refuse(path, std::string("cannot read the plan file: ") + std::strerror(errno));
  return parse_plan(bytes, path);
}

bool is_plan_file(const std::string& path) {
  std::error_code ignored;  // opening a pipe to look at it would wait for a writer
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  char start[sizeof magic] = {};
  file.read(start, sizeof start);
  return file.gcount() == sizeof start && std::memcmp(start, magic, sizeof magic) == 0;
}

}  // namespace simrun
