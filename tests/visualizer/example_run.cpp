#include "example_run.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "schedules/one_f_one_b.h"

namespace simrun {

namespace {

constexpr std::uint8_t tp_stream = 1, pp_stream = 2;
constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr Picoseconds microsecond = 1'000'000;

Instruction instruction(Opcode opcode, std::string label, Phase phase, std::int32_t layer) {
  Instruction made;
  made.opcode = opcode;
  made.label = std::move(label);
  made.phase = phase;
  made.layer = layer;
  if (opcode == Opcode::norm) made.function = Function::rms_norm;
  if (opcode == Opcode::gemm) {
    made.inputs = {0, 1};
    made.outputs = {2};
  }
  if (is_communication(opcode)) {
    made.stream = opcode == Opcode::recv || opcode == Opcode::send ? pp_stream : tp_stream;
    made.inputs = {0};
    made.communication = 0;
  }
  return made;
}

Segment layer_segment(OpKind kind, Index chunk, int layers) {
  const bool forward = kind == OpKind::forward;
  const Phase phase = forward ? Phase::forward : Phase::backward_input;
  Segment segment{
      forward ? "forward" : "backward", forward ? PassKind::forward : PassKind::backward, chunk, {}};
  for (int layer = 0; layer < layers; ++layer) {
    const auto add = [&](Opcode opcode, const char* label, Phase part) {
      segment.instructions.push_back(instruction(opcode, label, part, layer));
    };
    if (!forward) add(Opcode::gemm, "fc1", Phase::recompute);
    add(forward ? Opcode::norm : Opcode::norm_backward, "input_norm", phase);
    add(Opcode::all_gather, "sequence", phase);
    add(Opcode::gemm, "qkv", phase);
    add(forward ? Opcode::attention : Opcode::attention_backward, "core", phase);
    add(Opcode::gemm, "projection", phase);
    add(Opcode::reduce_scatter, "sequence", phase);
    add(Opcode::gemm, "fc1", phase);
    add(Opcode::gemm, "fc2", phase);
  }
  segment.instructions.push_back(instruction(Opcode::send, "hand over", phase, -1));
  return segment;
}

Buffer matrix(std::int64_t rows, std::int64_t columns) {
  Buffer buffer;
  buffer.name = "matrix";
  buffer.dims = {{0, -1, rows}, {0, -1, columns}};
  return buffer;
}

Plan example_plan(const ExampleShape& shape) {
  Plan plan;
  plan.job.name = shape.name;
  plan.job.model_type = "llama";
  plan.job.schedule = "1f1b";
  plan.job.tensor_parallel = 4;
  plan.job.pipeline_parallel = shape.ranks;
  plan.job.data_parallel = 2;
  plan.job.microbatches = shape.microbatches;
  plan.job.tokens_per_step = std::int64_t{8192} * 2 * shape.microbatches;
  plan.job.parameters = std::int64_t{1'000'000'000} * shape.ranks;
  plan.job.config_sha256 = "0123abcd";
  plan.job.model_flops_per_step = 1e15;
  plan.job.hardware_flops_per_step = 1.25e15;
  plan.cluster.gpu.name = "h100_sxm";
  plan.cluster.gpu.peak_flops[Dtype::bf16] = 989e12;
  plan.cluster.gpu.memory_bytes = 80 * gib;
  plan.cluster.reserved_bytes = 2 * gib;
  plan.cluster.nodes = shape.ranks;
  plan.cluster.gpus_per_node = 8;
  plan.dimension_names = {"rows"};
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                  {"tp", StreamDevice::gpu, Traffic::tensor},
                  {"pp_out", StreamDevice::gpu, Traffic::pipeline}};
  plan.buffers = {matrix(8192, 1024), matrix(1024, 4096), matrix(8192, 4096)};
  plan.communications.resize(1);
  plan.communications[0].cause = "sequence split over tp -> replicated";
  for (int r = 0; r < shape.ranks; ++r) {
    plan.stages.push_back({{{8 * r, 8}}, {}});
    plan.chunks.push_back(
        {r, 0, r, r * shape.layers, shape.layers, r == 0, r == shape.ranks - 1, 1'000'000'000});
    plan.segments.push_back(layer_segment(OpKind::forward, static_cast<Index>(r), shape.layers));
    plan.segments.push_back(layer_segment(OpKind::backward, static_cast<Index>(r), shape.layers));
  }
  const Schedule schedule = one_f_one_b(shape.ranks, shape.microbatches);
  for (int r = 0; r < shape.ranks; ++r) {
    Program program;
    program.pipeline_rank = r;
    for (const Op& op : schedule[static_cast<std::size_t>(r)]) {
      const Index segment = static_cast<Index>(2 * r + (op.kind == OpKind::forward ? 0 : 1));
      program.entries.push_back({segment, static_cast<Index>(program.bindings.size()), 1, Steps::every, 0});
      program.bindings.push_back({static_cast<Index>(r), op.microbatch, 0, 0, Direction::down});
    }
    plan.programs.push_back(program);
  }
  return plan;
}

// Durations by a fixed linear congruence: the same on every machine.
class Clock {
 public:
  explicit Clock(bool jitter) : jitter_(jitter) {}
  Picoseconds duration(const Instruction& timed) {
    const Picoseconds base = (is_communication(timed.opcode) ? 40
                              : timed.opcode == Opcode::gemm ? 120
                                                             : 60) *
                             microsecond;
    const Picoseconds scaled = timed.phase == Phase::backward_input ? 2 * base : base;
    if (!jitter_) return scaled;
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return scaled + static_cast<Picoseconds>((state_ >> 40) % static_cast<std::uint64_t>(scaled / 50));
  }

 private:
  bool jitter_;
  std::uint64_t state_ = 1;
};

// Issues one entry at `start`: compute and collectives take turns, the send follows. Returns the end of its
// compute.
Picoseconds run_entry(const Plan& plan, Index entry, Picoseconds start, Clock& clock, RankTimeline& rank) {
  const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
  const Segment& segment = plan.segments[program.entries[entry].segment];
  Picoseconds now = start;
  for (Index i = 0; i < segment.instructions.size(); ++i) {
    const Instruction& timed = segment.instructions[i];
    Lane& lane = rank.lanes[timed.stream];
    Picoseconds from = now;
    if (timed.stream == pp_stream && !lane.intervals.empty())
      from = std::max(now, lane.intervals.back().start + lane.intervals.back().duration);
    const Picoseconds duration = clock.duration(timed);
    lane.intervals.push_back({from, duration, timed.stream == tp_stream ? 3 * microsecond : 0, entry, i});
    if (timed.stream == tp_stream) rank.totals.exposed[static_cast<std::size_t>(Traffic::tensor)] += duration;
    if (timed.stream == compute_stream) rank.totals.compute += duration;
    if (timed.stream != pp_stream) now += duration;
  }
  rank.passes.push_back({start, now - start, entry});
  return now;
}

void remember_memory(RankTimeline& rank, Picoseconds time, std::int64_t live_microbatches, Index entry) {
  MemoryEvent event{time, {8 * gib, 16 * gib, 12 * gib, live_microbatches * 4 * gib, gib, gib / 2}};
  std::int64_t total = 0;
  for (const std::int64_t bytes : event.live) total += bytes;
  if (total > rank.peak.bytes) rank.peak = {total, event.live, entry, 0};
  rank.memory.push_back(event);
}

// When the input of (rank, op) is there: the forward of the rank before, the backward of the rank behind.
class Arrivals {
 public:
  bool known(int stage, OpKind kind, int microbatch) const {
    return times_.count({stage, kind, microbatch}) > 0;
  }
  Picoseconds at(int stage, OpKind kind, int microbatch) const {
    return times_.at({stage, kind, microbatch});
  }
  void set(const Op& op, Picoseconds time) { times_[{op.stage, op.kind, op.microbatch}] = time; }

 private:
  std::map<std::tuple<int, OpKind, int>, Picoseconds> times_;
};

// Runs what can run, rank by rank, until nothing is left.
void run_schedule(const Plan& plan, const ExampleShape& shape, Timeline& timeline) {
  const Schedule schedule = one_f_one_b(shape.ranks, shape.microbatches);
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<Picoseconds> now(schedule.size(), 0);
  std::vector<std::int64_t> live(schedule.size(), 0);
  Arrivals done;
  Clock clock(shape.jitter);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < schedule.size(); ++r) {
      if (next[r] == schedule[r].size()) continue;
      const Op& op = schedule[r][next[r]];
      const int source = op.kind == OpKind::forward ? op.stage - 1 : op.stage + 1;
      const bool is_fed = source < 0 || source == shape.ranks;
      if (!is_fed && !done.known(source, op.kind, op.microbatch)) continue;
      const Picoseconds start = is_fed ? now[r] : std::max(now[r], done.at(source, op.kind, op.microbatch));
      const auto entry = static_cast<Index>(next[r]++);
      live[r] += op.kind == OpKind::forward ? 1 : 0;
      remember_memory(timeline.ranks[r], start, live[r], entry);
      now[r] = run_entry(plan, entry, start, clock, timeline.ranks[r]);
      live[r] -= op.kind == OpKind::forward ? 0 : 1;
      remember_memory(timeline.ranks[r], now[r], live[r], entry);
      done.set(op, now[r]);
      timeline.step = std::max(timeline.step, now[r]);
      progress = true;
    }
  }
}

// Share of each of 200 slices of the step in which a stream of a rank has something in flight.
std::vector<float> use_of(const Lane& lane, Picoseconds step) {
  std::vector<float> use(200, 0);
  const Picoseconds slice = step / static_cast<Picoseconds>(use.size()) + 1;
  for (const Interval& interval : lane.intervals)
    for (std::size_t i = 0; i < use.size(); ++i) {
      const Picoseconds from = std::max(interval.start, static_cast<Picoseconds>(i) * slice);
      const Picoseconds to =
          std::min(interval.start + interval.duration, static_cast<Picoseconds>(i + 1) * slice);
      if (to > from) use[i] += static_cast<float>(to - from) / static_cast<float>(slice);
    }
  return use;
}

LinkTimeline link_of(std::string name, const Lane& lane, Picoseconds step) {
  LinkTimeline link;
  link.name = std::move(name);
  link.bandwidth = lane.stream == tp_stream ? 360e9 : 40e9;
  for (const Interval& interval : lane.intervals) link.busy += interval.duration;
  link.bytes = static_cast<std::int64_t>(link.bandwidth * static_cast<double>(link.busy) * 1e-12);
  link.utilisation = use_of(lane, step);
  return link;
}

// Busiest first: the NVLinks of all ranks, then their NICs, of which the first is contended.
void add_links(Timeline& timeline) {
  for (const std::uint8_t stream : {tp_stream, pp_stream})
    for (const RankTimeline& rank : timeline.ranks) {
      const std::string node = "node" + std::to_string(rank.pipeline_rank);
      timeline.links.push_back(link_of(node + (stream == tp_stream ? ".gpu0.nvlink_tx" : ".nic0.tx"),
                                       rank.lanes[stream], timeline.step));
      timeline.links.back().multiplicity = stream == tp_stream ? 8 : 1;
      timeline.links.back().bytes -= rank.pipeline_rank;  // no two alike: those would be one in the summary
    }
  LinkTimeline& nic = timeline.links[timeline.ranks.size()];
  nic.contended = nic.busy / 4;
  timeline.links.back().utilisation.clear();  // not recorded
}

void split_ranks(Timeline& timeline) {
  std::vector<RankTimeline> ranks;
  for (RankTimeline& rank : timeline.ranks) {
    rank.multiplicity = 6;
    RankTimeline other;
    other.pipeline_rank = rank.pipeline_rank;
    other.device = 8 * rank.pipeline_rank + 6;
    other.multiplicity = 2;
    other.totals = rank.totals;
    other.totals.compute -= 1000 * microsecond;
    other.totals.exposed[static_cast<std::size_t>(Traffic::tensor)] += 1000 * microsecond;
    other.peak = rank.peak;
    rank.device = 8 * rank.pipeline_rank;
    ranks.push_back(std::move(rank));
    ranks.push_back(std::move(other));
  }
  timeline.ranks = std::move(ranks);
}

Timeline example_timeline(const Plan& plan, const ExampleShape& shape) {
  Timeline timeline;
  timeline.engine = "example";
  timeline.ranks.resize(static_cast<std::size_t>(shape.ranks));
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    timeline.ranks[r].pipeline_rank = static_cast<std::int32_t>(r);
    timeline.ranks[r].multiplicity = 8;
    timeline.ranks[r].lanes = {{compute_stream, {}}, {tp_stream, {}}, {pp_stream, {}}};
  }
  run_schedule(plan, shape, timeline);
  if (shape.links) add_links(timeline);
  timeline.first_step = timeline.step;
  for (RankTimeline& rank : timeline.ranks) {
    rank.totals.bubble[static_cast<std::size_t>(BubbleCause::warm_up)] = rank.passes.front().start;
    rank.totals.bubble[static_cast<std::size_t>(BubbleCause::imbalance)] =
        timeline.step - rank.passes.front().start - rank.totals.compute - rank.totals.exposed_total();
  }
  if (shape.unlike) split_ranks(timeline);
  return timeline;
}

}  // namespace

ExampleRun example_run(const ExampleShape& shape) {
  ExampleRun run;
  run.plan = example_plan(shape);
  run.timeline = example_timeline(run.plan, shape);
  run.summary = summarize(run.plan, run.timeline);
  return run;
}

}  // namespace simrun
