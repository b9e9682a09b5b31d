#include "tests/sim/reference_engine.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/collective_cost.h"
#include "sim/kernel_cost.h"
#include "sim/kernel_slowdowns.h"

namespace simrun {

namespace {

struct Span {
  Picoseconds start = 0, end = 0;
  auto operator<=>(const Span&) const = default;
};

// What a table says of a GPU; tables here have no axes or the only one that there is.
std::int64_t looked_up(const ExtentTable& table, std::size_t gpus, std::size_t gpu, std::int64_t microbatch) {
  const std::size_t per_row = table.axes.empty() ? 1 : gpus;
  const std::size_t rows = table.values.size() / per_row;
  const std::size_t row = table.per_microbatch ? static_cast<std::size_t>(microbatch) % rows : 0;
  return table.values.at(row * per_row + (table.axes.empty() ? 0 : gpu));
}

std::size_t gpus_of_rank(const Plan& plan) {
  return static_cast<std::size_t>(plan.stages.at(0).devices.at(0).count);
}

// The plan's buffers with the extents that a GPU has in a microbatch; -1: the largest of any.
std::vector<Buffer> sized_buffers(const Plan& plan, std::size_t gpu, std::int64_t microbatch) {
  std::vector<Buffer> buffers = plan.buffers;
  for (Buffer& buffer : buffers)
    for (BufferDim& dim : buffer.dims) {
      if (dim.table < 0) continue;
      const ExtentTable& table = plan.extent_tables[static_cast<std::size_t>(dim.table)];
      const auto at = [&](std::int64_t m) { return looked_up(table, gpus_of_rank(plan), gpu, m); };
      dim.extent = at(std::max<std::int64_t>(microbatch, 0));
      for (std::int64_t m = 0; microbatch < 0 && m < static_cast<std::int64_t>(table.values.size()); ++m)
        dim.extent = std::max(dim.extent, at(m));
    }
  return buffers;
}

// Without latency and launch, time is in proportion to work.
Picoseconds time_of(const Plan& plan, std::int32_t rank, const Instruction& what, std::size_t gpu,
                    std::int64_t microbatch) {
  if (plan.extent_tables.empty())
    return is_communication(what.opcode) ? communication_time(plan, rank, what) : kernel_time(plan, what);
  Plan sized;
  sized.cluster = plan.cluster;
  sized.dimension_names = plan.dimension_names;
  sized.stages = plan.stages;
  sized.communications = plan.communications;
  sized.buffers = sized_buffers(plan, gpu, microbatch);
  const Picoseconds whole =
      is_communication(what.opcode) ? communication_time(sized, rank, what) : kernel_time(sized, what);
  if (what.work_table < 0) return whole;
  const ExtentTable& work = plan.extent_tables[static_cast<std::size_t>(what.work_table)];
  return whole * looked_up(work, gpus_of_rank(plan), gpu, microbatch) / 1'000'000;
}

// One instruction instance. `rank`: the number of its GPU.
struct Task {
  std::size_t rank = 0;
  Index entry = 0, instruction = 0;
  const Instruction* what = nullptr;
  PassKind kind = PassKind::forward;
  std::int64_t microbatch = 0;
  Picoseconds duration = 0;
  std::vector<std::size_t>
      before;  // tasks that must have ended: previous of the stream, compute issued before, writers
  std::vector<std::size_t> writers;   // of its inputs, on other streams: the last of each (buffer, stream)
  std::vector<std::size_t> partners;  // same exchange, itself included; empty: none
  std::size_t ends = 0;               // partners that there must be
  bool own_mesh = false;              // a collective inside one pipeline rank
  std::optional<Span> time;
  Span p2p;  // pipeline transfer that its data came by; end 0: none
};

class Replay {
 public:
  explicit Replay(const Plan& plan)
      : plan_(plan),
        slowdowns_(plan.cluster),
        gpus_(plan.extent_tables.empty() && slowdowns_.empty() ? 1 : gpus_of_rank(plan)) {
    for (std::size_t r = 0; r < plan.programs.size(); ++r)
      for (std::size_t gpu = 0; gpu < gpus_; ++gpu) add_gpu(r, gpu);
    for (auto& [key, tasks] : exchanges_)
      for (const std::size_t t : tasks) tasks_[t].partners = tasks;
  }

  ReferenceRun run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t t = 0; t < tasks_.size(); ++t)
        if (!tasks_[t].time && can_start(tasks_[t])) {
          start(tasks_[t]);
          progress = true;
        }
    }
    ReferenceRun run;
    for (const Task& task : tasks_) {
      if (!task.time) throw std::runtime_error("reference: deadlock");
      run.times[{task.rank, task.entry, task.instruction}] = {task.time->start,
                                                              task.time->end - task.time->start};
      run.step = std::max(run.step, task.time->end);
    }
    run.gpus_per_rank = gpus_;
    for (std::size_t g = 0; g < plan_.programs.size() * gpus_; ++g) run.totals.push_back(divide(g, run.step));
    return run;
  }

 private:
  std::int64_t device_of(std::size_t rank, std::size_t gpu) const {
    return plan_.stages[rank].devices.at(0).first + static_cast<std::int64_t>(gpu);
  }
  static bool arrives(const Plan& plan, const Task& task) {
    return is_communication(task.what->opcode) && task.what->opcode != Opcode::send &&
           plan.streams[task.what->stream].traffic == Traffic::pipeline;
  }

  void add_gpu(std::size_t r, std::size_t gpu) {
    const Program& program = plan_.programs[r];
    for (Index e = 0; e < program.entries.size(); ++e) {
      const Entry& entry = program.entries[e];
      const Segment& segment = plan_.segments[entry.segment];
      if (entry.steps == Steps::first_only) continue;
      for (Index i = 0; i < segment.instructions.size(); ++i) {
        const Instruction& what = segment.instructions[i];
        if (what.opcode == Opcode::free || what.opcode == Opcode::init) continue;
        Task task;
        task.rank = r * gpus_ + gpu;
        task.entry = e;
        task.instruction = i;
        task.what = &what;
        task.kind = segment.kind;
        task.microbatch = program.bindings[entry.first_binding + what.binding].microbatch;
        task.duration = time_of(plan_, program.pipeline_rank, what, gpu, task.microbatch);
        if (what.stream == compute_stream)
          task.duration =
              std::llround(static_cast<double>(task.duration) * slowdowns_.of({device_of(r, gpu), e, i}));
        link(task);
        tasks_.push_back(task);
      }
    }
  }

  std::int64_t instance(Index buffer, std::int64_t microbatch) const {
    const Scope scope = plan_.buffers[buffer].scope;
    return scope == Scope::microbatch || scope == Scope::pass ? microbatch : 0;
  }
  // Who wrote the buffer last, by stream; `part`: who wrote a view of it last.
  void add_writers(Task& task, Index buffer, bool part) const {
    const std::int64_t at = instance(buffer, task.microbatch);
    for (const auto& [key, writer] : last_writer_) {
      const auto& [rank, written, written_at, by, by_part] = key;
      if (by == task.what->stream || by == compute_stream) continue;
      if (rank == task.rank && written == buffer && written_at == at && by_part == part)
        task.writers.push_back(writer);
    }
  }

  void link(Task& task) {
    const std::size_t self = tasks_.size();
    const auto stream = std::pair(task.rank, task.what->stream);
    if (const auto last = last_of_stream_.find(stream); last != last_of_stream_.end())
      task.before.push_back(last->second);
    const auto compute = last_of_stream_.find({task.rank, compute_stream});
    if (compute != last_of_stream_.end()) task.before.push_back(compute->second);
    std::vector<Index> inputs = task.what->inputs;
    inputs.insert(inputs.end(), task.what->waits_for.begin(), task.what->waits_for.end());
    if (task.what->accumulate)
      inputs.insert(inputs.end(), task.what->outputs.begin(), task.what->outputs.end());
    for (const Index input : inputs) {
      add_writers(task, input, true);
      for (Index up = input; up != no_index; up = plan_.buffers[up].parent) add_writers(task, up, false);
    }
    task.before.insert(task.before.end(), task.writers.begin(), task.writers.end());
    last_of_stream_[stream] = self;
    for (const Index output : task.what->outputs)
      for (Index up = output; up != no_index; up = plan_.buffers[up].parent)
        last_writer_[{task.rank, up, instance(up, task.microbatch), task.what->stream, up != output}] = self;
    if (!is_communication(task.what->opcode)) return;
    const Communication& communication = plan_.communications[task.what->communication];
    const std::size_t program = task.rank / gpus_, gpu = task.rank % gpus_;
    task.own_mesh = communication.channel == no_index;
    if (task.own_mesh) {
      if (gpus_ == 1) return;
      exchanges_[{no_index, task.entry, program, task.instruction}].push_back(self);
      task.ends = gpus_;
      return;
    }
    exchanges_[{communication.channel, task.microbatch, gpu, 0}].push_back(self);
    task.ends = std::max<std::size_t>(communication.group.pipeline_ranks.size(), 2);
  }

  bool inputs_done(const Task& task) const {
    return std::all_of(task.before.begin(), task.before.end(),
                       [&](std::size_t t) { return tasks_[t].time.has_value(); });
  }
  bool can_start(const Task& task) const {
    if (!inputs_done(task) || task.partners.size() < task.ends) return false;
    return std::all_of(task.partners.begin(), task.partners.end(),
                       [&](std::size_t t) { return inputs_done(tasks_[t]); });
  }
  Picoseconds ready(const Task& task) const {
    Picoseconds at = 0;
    for (const std::size_t t : task.before) at = std::max(at, tasks_[t].time->end);
    return at;
  }
  void start(Task& task) {
    Picoseconds at = ready(task), duration = task.duration;
    for (const std::size_t t : task.partners) {
      at = std::max(at, ready(tasks_[t]));
      duration = std::max(duration, tasks_[t].duration);
    }
    task.time = Span{at, at + duration};
    if (arrives(plan_, task)) {
      task.p2p = *task.time;
      return;
    }
    for (const std::size_t t : task.writers)
      if (std::pair(tasks_[t].p2p.end, tasks_[t].p2p.start) > std::pair(task.p2p.end, task.p2p.start))
        task.p2p = tasks_[t].p2p;
  }

  // Cuts [0, step] at every start and end of the rank and looks at each piece.
  RankTotals divide(std::size_t r, Picoseconds step) const {
    std::vector<const Task*> compute, others;
    std::set<Picoseconds> cuts = {0, step};
    for (const Task& task : tasks_) {
      if (task.rank != r) continue;
      if (task.own_mesh) cuts.insert(ready(task));
      (task.what->stream == compute_stream ? compute : others).push_back(&task);
      cuts.insert({task.time->start, task.time->end});
    }
    RankTotals totals;
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut)
      add_piece({*cut, *std::next(cut)}, compute, others, totals);
    return totals;
  }

  static bool covers(const Task* task, Span piece) {
    return task->time->start <= piece.start && piece.end <= task->time->end;
  }

  void add_piece(Span piece, const std::vector<const Task*>& compute, const std::vector<const Task*>& others,
                 RankTotals& totals) const {
    const Picoseconds length = piece.end - piece.start;
    const bool busy =
        std::any_of(compute.begin(), compute.end(), [&](const Task* t) { return covers(t, piece); });
    std::array<int, traffic_count> flying{};
    for (const Task* task : others)
      if (covers(task, piece)) ++flying[static_cast<std::size_t>(plan_.streams[task->what->stream].traffic)];
    if (busy) {
      totals.compute += length;
      for (std::size_t t = 0; t < flying.size(); ++t) totals.hidden[t] += flying[t] * length;
      return;
    }
    for (const Traffic traffic : {Traffic::tensor, Traffic::context, Traffic::expert, Traffic::data,
                                  Traffic::offload, Traffic::compute}) {
      if (flying[static_cast<std::size_t>(traffic)] == 0) continue;
      totals.exposed[static_cast<std::size_t>(traffic)] += length;
      return;
    }
    BubbleCause why = cause(piece, compute);
    const auto waits = [&](const Task* t) {
      return t->own_mesh && gpus_ > 1 && ready(*t) <= piece.start && piece.end <= t->time->start;
    };
    if (why != BubbleCause::p2p && std::any_of(others.begin(), others.end(), waits))
      why = BubbleCause::imbalance;
    totals.bubble[static_cast<std::size_t>(why)] += length;
  }

  BubbleCause cause(Span piece, const std::vector<const Task*>& compute) const {
    const auto next = std::find_if(compute.begin(), compute.end(),
                                   [&](const Task* t) { return t->time->start >= piece.end; });
    if (next == compute.end()) return BubbleCause::drain;
    for (const std::size_t t : (*next)->writers)
      if (tasks_[t].p2p.start <= piece.start && piece.end <= tasks_[t].p2p.end) return BubbleCause::p2p;
    const auto is_backward = [](const Task* t) {
      return t->kind == PassKind::backward || t->kind == PassKind::backward_input ||
             t->kind == PassKind::overlapped;
    };
    const auto is_forward = [](const Task* t) {
      return t->kind == PassKind::forward || t->kind == PassKind::overlapped;
    };
    if (std::any_of(compute.begin(), compute.end(), is_backward) &&
        std::none_of(compute.begin(), next, is_backward))
      return BubbleCause::warm_up;
    const bool forwards_left = std::any_of(next, compute.end(), is_forward);
    if (forwards_left && std::none_of(compute.begin(), compute.end(), is_backward))
      return BubbleCause::warm_up;
    return forwards_left ? BubbleCause::imbalance : BubbleCause::drain;
  }

  const Plan& plan_;
  const KernelSlowdowns slowdowns_;
  const std::size_t gpus_;  // simulated, per pipeline rank
  std::vector<Task> tasks_;
  std::map<std::pair<std::size_t, std::uint8_t>, std::size_t> last_of_stream_;
  std::map<std::tuple<std::size_t, Index, std::int64_t, std::uint8_t, bool>, std::size_t> last_writer_;
  // By channel, microbatch and GPU; or, of one rank's own mesh, by entry, rank and instruction.
  std::map<std::tuple<Index, std::int64_t, std::size_t, Index>, std::vector<std::size_t>> exchanges_;
};

}  // namespace

ReferenceRun reference_run(const Plan& plan) { return Replay(plan).run(); }

std::int64_t reference_peak(const Plan& plan, std::size_t rank, std::size_t gpu) {
  const Program& program = plan.programs[rank];
  const std::vector<Buffer> largest = sized_buffers(plan, gpu, -1);
  std::set<std::pair<Index, std::int64_t>> live;
  std::int64_t bytes = 0, peak = 0;
  const auto visit = [&](Index buffer, std::int64_t microbatch, bool frees) {
    while (plan.buffers[buffer].parent != no_index) buffer = plan.buffers[buffer].parent;
    const Scope scope = plan.buffers[buffer].scope;
    const std::pair key(buffer, scope == Scope::microbatch || scope == Scope::pass ? microbatch : 0);
    if (scope == Scope::run && frees) return;
    if (frees ? live.erase(key) > 0 : live.insert(key).second)
      bytes += (frees ? -1 : 1) * (scope == Scope::microbatch || scope == Scope::pass
                                       ? sized_buffers(plan, gpu, microbatch)
                                       : largest)[buffer]
                                      .bytes();
    peak = std::max(peak, bytes);
  };
  for (const Entry& entry : program.entries)
    for (const Instruction& i : plan.segments[entry.segment].instructions)
      for (const std::vector<Index>* list : {&i.inputs, &i.outputs})
        for (const Index buffer : *list)
          if (plan.buffers[buffer].scope == Scope::run) visit(buffer, 0, false);
  for (const Entry& entry : program.entries) {
    if (entry.steps == Steps::first_only) continue;
    for (const Instruction& i : plan.segments[entry.segment].instructions) {
      const std::int64_t microbatch = program.bindings[entry.first_binding + i.binding].microbatch;
      const bool frees = i.opcode == Opcode::free;
      for (const Index buffer : frees ? i.inputs : i.outputs) visit(buffer, microbatch, frees);
    }
  }
  return peak;
}

}  // namespace simrun
