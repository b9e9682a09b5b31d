#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/dtype.h"
#include "configs/job.h"
#include "models/causal_mask.h"
#include "models/opcode.h"
#include "schedules/op.h"

// The Plan: the contract between compiler, simulator, executor and file. One program per pipeline rank (all
// its tensor-, context- and data-parallel ranks run it), made of segments that are written once and bound to
// microbatches.
//
// Timing and memory rules that every engine and executor follows:
//  * An instruction runs on one stream of its rank. Streams are FIFO in the order of issue (entry order, then
//    instruction order).
//  * A compute instruction starts when the compute stream is free and its inputs and `waits_for` are written.
//  * Any other instruction also waits for all compute issued before it on its rank (torch.distributed's rule:
//    the communication stream waits for an event of the compute stream), and for its partners (rendezvous).
//  * A buffer lives from the issue of its first writer to the issue of its FREE; a buffer's bytes may
//    therefore be reused in issue order. `run` buffers live for ever.
namespace simrun {

using Index = std::uint32_t;
constexpr Index no_index = 0xffffffffu;

const char* to_string(Opcode opcode);

const char* to_string(Function function);

// Device on which a stream runs, and what its traffic is counted as.
enum class StreamDevice : std::uint8_t { gpu, host, nvme };
enum class Traffic : std::uint8_t { compute, tensor, context, expert, data, pipeline, offload };
constexpr int traffic_count = static_cast<int>(Traffic::offload) + 1;
const char* to_string(Traffic traffic);

struct Stream {
  std::string name;  // compute, tp, dp, pp_forward_in, ...
  StreamDevice device = StreamDevice::gpu;
  Traffic traffic = Traffic::compute;
  bool operator==(const Stream&) const = default;
};
constexpr std::uint8_t compute_stream = 0;  // Plan::streams[0]

// ---- Where: devices and meshes ----

// An axis of a mesh; several named meshes may lie over the same devices (dense: tp, cp, dp; expert: etp, ep,
// edp).
struct Axis {
  std::string name;
  std::int64_t size = 1;
  bool operator==(const Axis&) const = default;
};
struct Mesh {
  std::string name;
  std::vector<Axis> axes;  // first axis varies fastest over the stage's device list
  bool operator==(const Mesh&) const = default;
};
struct DeviceRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const DeviceRange&) const = default;
};
// The devices of one pipeline rank and the meshes over them. Pipeline ranks may differ in size and shape.
struct StageDevices {
  std::vector<DeviceRange> devices;
  std::vector<Mesh> meshes;
  bool operator==(const StageDevices&) const = default;
};

// A communication group, instantiated late: all ranks that differ only in the named axes of the mesh, over
// the listed pipeline ranks (empty: the instruction's own).
struct Group {
  std::uint8_t mesh = 0;
  std::vector<std::uint8_t> axes;  // indices into Mesh::axes, ordered as the dimension is tiled
  std::vector<std::int32_t> pipeline_ranks;
  bool operator==(const Group&) const = default;
};

// The other end of a SEND or RECV: a pipeline rank with the same mesh coordinates, or `offset` steps along
// axes of the own mesh (ring attention), or, for resharding between unlike stages, an explicit map of
// coordinates.
struct Peer {
  std::int32_t pipeline_rank = -1;
  std::vector<std::uint8_t> axes;  // of Communication::group's mesh, as one: the first is outermost
  std::int32_t offset = 0;
  bool wrap = false;
  std::vector<std::int64_t> coordinate_map;  // empty: identity
  bool operator==(const Peer&) const = default;
};

enum class Reduction : std::uint8_t { sum, max };

// Parameter servers among the members of a group, ordered by device number. A PUSH cuts its buffer into as
// many equal parts as there are servers, the j-th for the j-th server, and adds up at each server what the
// workers send to it; a PULL hands each server's part to every worker.
struct ServerGroup {
  std::vector<std::int64_t> members;  // ascending; empty: no PUSH or PULL
  bool dedicated = false;             // servers are no workers; else every member is one
  bool one_sided = false;  // each worker's exchange with the servers is by itself: no end waits for another
  bool operator==(const ServerGroup&) const = default;
};

struct Communication {
  Group group;  // collectives
  Peer peer;    // SEND, RECV
  Reduction reduction = Reduction::sum;
  Index channel = no_index;  // equal on both ends (or all stages) of one exchange; with the bound microbatch
                             // it identifies the instance. no_index: inside one pipeline rank's mesh,
                             // alike on all its ranks; its SENDs and RECVs meet in the order of issue
  std::string cause;         // e.g. "layer 3 qkv: sequence split over tp -> replicated"
  ServerGroup servers = {};  // PUSH, PULL
  bool operator==(const Communication&) const = default;
};

// ---- What: buffers ----

enum class Category : std::uint8_t { weights, gradients, optimizer, activations, comm, workspace };
constexpr int category_count = static_cast<int>(Category::workspace) + 1;
const char* to_string(Category category);

// How long one instance of a buffer is meant to live and what it is keyed by.
enum class Scope : std::uint8_t { run, step, chunk, microbatch, pass };

// Extent of one named dimension on one rank. `table` points to Plan::extent_tables for extents that depend on
// mesh coordinates or the microbatch, or are known only at run time; `extent` is then the bound.
struct BufferDim {
  std::uint16_t name = 0;  // into Plan::dimension_names
  std::int32_t table = -1;
  std::int64_t extent = 1;
  bool operator==(const BufferDim&) const = default;
};
// Where a buffer lies: in the GPU's memory, in its node's, or on its node's drives. Only COPY has buffers in
// two of them; a stream of a device works on the memory of that device.
enum class MemorySpace : std::uint8_t { device, host, nvme };
constexpr int memory_space_count = static_cast<int>(MemorySpace::nvme) + 1;

struct Buffer {
  std::string name;
  Category category = Category::activations;
  Scope scope = Scope::pass;
  MemorySpace space = MemorySpace::device;  // of a view: its parent's
  Dtype dtype = Dtype::bf16;
  std::vector<BufferDim> dims;  // local, in storage order, last fastest
  std::vector<std::string>
      split;  // per dim: "" or the axes it is split over, the outermost first, e.g. "cp:zigzag,tp"; empty
              // vector: nothing is split. Axes marked `:zigzag`, always the outermost, deal it out as one: of
              // n ranks, rank r has the blocks r and 2n-1-r of 2n, and the axes behind cut these.
              // "pp:0+3,dp": the pieces lie on pipeline ranks 0 and 3, and there over dp
  Index parent = no_index;         // a view into a bucket: owns no bytes
  std::int64_t parent_offset = 0;  // elements
  std::int32_t scale_block = 0;  // fp8, fp4 in blocks: elements that share a scale; 0: no scales are counted
  Index parameter = no_index;    // ModelParameter::id of the parameter of which it is a rank's part
  Index shard_of = no_index;     // the bucket of which it, kept alone, is a rank's part
  std::int64_t bytes() const;    // 0 for a view
  std::int64_t elements() const;
  std::int64_t stored_bytes() const;                       // of a view too; with scales
  std::int64_t stored_bytes(std::int64_t elements) const;  // of as many elements
  bool operator==(const Buffer&) const = default;
};

enum class ExtentSource : std::uint8_t { coordinates, plan_table, recorded_histogram, run_time };
// Extent (or share of an instruction's work) as a table over the coordinates of one mesh's axes, row-major
// (the last of `axes` varies fastest; no axes: one value for all); or where the count comes from at run time.
// `per_microbatch`: several such tables, one behind the other; microbatch m has number m modulo how many
// there are (schedules/extent_tables.h).
struct ExtentTable {
  ExtentSource source = ExtentSource::coordinates;
  std::uint8_t mesh = 0;
  std::vector<std::uint8_t> axes;
  std::vector<std::int64_t> values;  // >= 0
  std::string origin;                // file or buffer, for the data-dependent sources
  bool per_microbatch = false;
  bool operator==(const ExtentTable&) const = default;
};

// ---- Doing: instructions, segments, programs ----

// Which tokens the queries and keys of an attention are, where a rank holds a part of the sequence (context
// parallelism). The mask is over their places in the whole sequence; Instruction::work_table says how much of
// the block of scores it leaves on which rank (none: all of it).
struct SequencePart {
  std::vector<std::uint8_t> axes;  // mesh axes over which the sequence is split, outermost first; empty: not
  bool zigzag = false;             // rank r of n has the blocks r and 2n-1-r of 2n, else block r of n
  bool whole_keys = false;  // keys of all ranks; else those of the rank `key_offset` before it, in a ring
  std::int32_t key_offset = 0;
  bool operator==(const SequencePart&) const = default;
};

enum class Phase : std::uint8_t { forward, recompute, backward_input, backward_weight, reduction, optimizer };

struct Instruction {
  Opcode opcode = Opcode::map;
  Function function = Function::none;
  Phase phase = Phase::forward;
  std::uint8_t stream = compute_stream;
  std::uint8_t binding = 0;  // which of the entry's bindings its buffers belong to
  bool accumulate = false;   // beta = 1: adds into its outputs of category `gradients`; others are always
                             // written afresh
  CausalMask causal;         // attention
  SequencePart part;         // attention
  std::int32_t layer = -1;   // -1: outside the layers
  float dropout = 0;         // probability
  Index communication = no_index;  // into Plan::communications
  std::vector<Index> inputs;       // buffers
  std::vector<Index> outputs;      // buffers; FREE lists what it frees in `inputs`
  std::string label;               // operator name, e.g. "qkv"
  std::vector<Index>
      waits_for;  // buffers that must be written before it starts although it does not read them
  // Into Plan::extent_tables: parts per million of the whole instruction's work (FLOPs, bytes and time
  // without the launch) that the rank does in the bound microbatch; 0: it is not launched and takes no time;
  // more than 1,000,000 is allowed. Of a communication it is the share of its bytes, and its ends meet even
  // for none. -1: all of it.
  std::int32_t work_table = -1;
  bool soft_cap = false;               // attention: scores go through cap tanh(score / cap)
  bool alibi = false;                  // attention: every score has a bias of slope x distance
  std::vector<double> constants = {};  // numbers of the function that change no cost (Operator::constants)
  bool operator==(const Instruction&) const = default;
};

enum class PassKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  communication,
  step,
  overlapped  // a forward (binding 0) and a full backward (binding 1) as one run
};
constexpr int pass_kind_count = static_cast<int>(PassKind::overlapped) + 1;
const char* to_string(PassKind kind);

struct Segment {
  std::string name;
  PassKind kind = PassKind::forward;
  Index chunk = 0;  // into Plan::chunks; no_index for step segments of a rank
  std::vector<Instruction> instructions;
  bool operator==(const Segment&) const = default;
};

struct Binding {
  Index chunk = 0;                  // into Plan::chunks
  std::int32_t microbatch = 0;      // of the step; bidirectional: those of `down` first
  std::int32_t slice = 0;           // of the sequence (seq1f1b)
  std::int32_t weight_version = 0;  // asynchronous pipelines; parameter servers: how many steps' updates the
                                    // weights of the pass lack
  Direction direction = Direction::down;
  bool operator==(const Binding&) const = default;
};

// In which steps an entry runs: the first step has no parameters to gather from an earlier one.
enum class Steps : std::uint8_t { every, not_first, first_only };

struct Entry {
  Index segment = 0;
  Index first_binding = 0;  // into Program::bindings
  std::uint8_t binding_count = 1;
  Steps steps = Steps::every;
  Index sequence = 0;  // place in the plan-wide order of communication; rises within each program
  bool operator==(const Entry&) const = default;
};
struct Program {
  std::int32_t pipeline_rank = 0;
  std::vector<Entry> entries;
  std::vector<Binding> bindings;
  bool operator==(const Program&) const = default;
};

// One virtual stage: what of the model it holds and where. Bidirectional schedules have two of each stage, on
// different pipeline ranks.
struct Chunk {
  std::int32_t pipeline_rank = 0;
  std::int32_t index = 0;  // virtual stage of its rank; bidirectional: direction
  std::int32_t stage = 0;  // global, in model order
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  bool embedding = false;
  bool loss = false;
  std::int64_t parameters = 0;  // of the unsharded model, unpadded
  std::int32_t mtp_layers = 0;  // further ones of multi-token prediction, not among `layers`
  bool operator==(const Chunk&) const = default;
};

// What a search for the schedule found, in the schedule's own model: passes and transfers take their times
// when nothing waits, and no rank holds more than memory_limit (stage, microbatch) activations.
struct FoundSchedule {
  std::string origin;             // what the search started from
  double makespan_s = 0;          // of the passes of a step
  double lower_bound_s = 0;       // proven: no order can be shorter
  std::int64_t memory_limit = 0;  // 0: none
  bool operator==(const FoundSchedule&) const = default;
};

// What a search for the cheapest recompute that fits chose (sim/recompute_search.h).
struct FoundRecompute {
  std::string section;                  // the job's recompute section that gives the same plan, in flow style
  std::int64_t memory_limit = 0;        // bytes of a GPU, less what a framework holds beside the plan
  std::int64_t peak_bytes = 0;          // of the GPU with the least left of its limit
  std::int64_t peak_bytes_without = 0;  // and that without recompute
  double added_s = 0;  // to the step, by what the step would take with memory for no recompute
  bool operator==(const FoundRecompute&) const = default;
};

// Packed sequences whose tokens attend to their own document only.
struct DocumentMask {
  std::string origin;               // "lognormal, mean 1024, seed 0" or a file
  double mean_share = 1;            // of the score matrix that one document per sequence leaves
  double highest_share = 1;         // of the (data-parallel rank, microbatch) that attends most
  double model_flops_per_step = 0;  // counting only scores within documents; JobFacts counts whole sequences
  DocumentConfig config;            // where they begin: models/packed_documents.h
  bool operator==(const DocumentMask&) const = default;
};

// Parameter servers in place of the all-reduce (schedules/parameter_server.h).
struct ParameterServers {
  std::int64_t servers = 0;
  bool dedicated = false;  // on GPUs of their own: the last pipeline rank of the plan
  ServerMode mode = ServerMode::synchronous;
  std::int64_t staleness = 0;         // asked for, in steps; bounded_staleness only
  std::int64_t delay = 0;             // steps of whose updates the plan's passes do not have the results
  std::int64_t bytes_per_server = 0;  // of weights in the type of training; equal on all servers
  bool operator==(const ParameterServers&) const = default;
};

// What the summary needs to know of the job, so that a Plan file stands alone.
struct JobFacts {
  std::string name;
  std::string simrun_version;
  std::string config_sha256;
  std::string model_type;
  std::string schedule;
  std::optional<FoundSchedule> found_schedule;  // where a search made it
  std::int64_t tensor_parallel = 1, context_parallel = 1, pipeline_parallel = 1, virtual_pipeline = 1,
               expert_parallel = 1, data_parallel = 1;
  std::int64_t microbatches = 0;
  std::int64_t micro_batch_size = 0;
  std::vector<std::int64_t> replica_micro_batch_sizes = {};  // by data-parallel rank; empty: all are equal
  std::int64_t seq_length = 0;
  std::int64_t tokens_per_step = 0;  // images, where the model reads those
  bool counts_images = false;
  std::int64_t parameters = 0;         // unsharded, unpadded
  double model_flops_per_step = 0;     // whole job; independent of recompute (definition in models/flops.h)
  double hardware_flops_per_step = 0;  // whole job; with recompute and padding
  Dtype precision = Dtype::bf16;       // whose dense peak MFU and HFU divide by
  std::int64_t frozen_parameters = 0;  // of `parameters`: not trained
  std::optional<FoundRecompute> found_recompute;  // where a search chose it
  std::optional<DocumentMask> documents;          // where sequences are packed with several
  std::optional<ParameterServers> parameter_servers;
  bool operator==(const JobFacts&) const = default;
};

// A parameter of the unsharded model, whichever ranks have parts of it: the same for every layout of a job.
struct ModelParameter {
  Index id = 0;
  std::int32_t layer = -1;  // of the first operator that reads it; -1: outside the layers
  std::string name;         // "qkv_weight"
  bool operator==(const ModelParameter&) const = default;
};

struct Plan {
  JobFacts job;
  Cluster cluster;
  Framework framework;
  std::vector<std::string> dimension_names;
  // By name as far as the model has the dimension: its whole extent without padding. Rows of a padded
  // vocabulary behind it are zero and take no part in the softmax.
  std::vector<std::int64_t> dimension_sizes;
  std::vector<ModelParameter> parameters;  // ascending by id
  std::vector<Stream> streams;
  std::vector<StageDevices> stages;  // by pipeline rank
  std::vector<Chunk> chunks;         // by global stage, then direction
  std::vector<ExtentTable> extent_tables;
  std::vector<Buffer> buffers;
  std::vector<Communication> communications;
  std::vector<Segment> segments;
  std::vector<Program> programs;  // by pipeline rank
  bool operator==(const Plan&) const = default;

  std::int64_t ranks() const;  // GPUs: sum over stages
};

}  // namespace simrun
