#include "backend/rank_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "backend/message_pieces.h"
#include "backend/row_copies.h"
#include "schedules/extent_tables.h"
#include "schedules/update_operands.h"

namespace simrun {
namespace {

bool runs_in_step(Steps steps, std::int64_t step) {
  return steps == Steps::every || (step == 0) == (steps == Steps::first_only);
}

bool same_dimensions(const Buffer& a, const Buffer& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const BufferDim& x, const BufferDim& y) { return x.name == y.name; });
}

Argument flat_range(const Argument& argument) {
  const std::int64_t count = elements(argument.part);
  return {argument.buffer, {{0, count, count}}, argument.data};
}

}  // namespace

RankRun::RankRun(const Shared& shared, Device& device, Transport& transport, const RankPlace& place,
                 RankClock* clock)
    : shared_(shared),
      plan_(shared.plan),
      program_(plan_.programs[static_cast<std::size_t>(place.pipeline_rank)]),
      device_(device),
      place_(place),
      memory_(plan_, device, place),
      exchange_(plan_, device, transport, place),
      clock_(clock) {}

void RankRun::run() {
  initialise();
  for (step_ = 0; step_ < shared_.steps; ++step_) {
    if (clock_ != nullptr) clock_->begin_step();
    for (std::size_t entry = 0; entry < program_.entries.size(); ++entry)
      if (runs_in_step(program_.entries[entry].steps, step_)) run_entry(entry);
    if (clock_ != nullptr) clock_->end_step();
    const std::vector<std::string> left = memory_.left_over();
    if (!left.empty())
      throw ExecutionError(
          fmt::format("step {} ends without a FREE of {}", global_step(), fmt::join(left, ", ")));
    end_step(memory_.end_step());
  }
  shared_.observed.add_rows(rows_);
}

// Of the steps behind the first the fullest is told.
void RankRun::end_step(RankMemory::Step memory) {
  if (step_ == 0) {
    rows_.of_first_step = std::move(memory.rows);
  } else if (memory.peak_bytes > fullest_) {
    fullest_ = memory.peak_bytes;
    rows_.of_further_steps = std::move(memory.rows);
  }
}

std::vector<Index> RankRun::buffers_touched() const {
  std::set<Index> segments, buffers;
  for (const Entry& entry : program_.entries) segments.insert(entry.segment);
  for (const Index segment : segments)
    for (const Instruction& what : plan_.segments[segment].instructions) {
      buffers.insert(what.inputs.begin(), what.inputs.end());
      buffers.insert(what.outputs.begin(), what.outputs.end());
    }
  return {buffers.begin(), buffers.end()};
}

// Weights, and what is kept of them: every rank draws its own part of each parameter.
void RankRun::initialise() {
  std::set<Index> weights;
  for (const Index buffer : buffers_touched()) {
    const Buffer& flat = plan_.buffers[buffer];
    if (flat.scope == Scope::run && flat.category == Category::weights)
      weights.insert(flat.parent == no_index ? buffer : flat.parent);
  }
  for (const Index buffer : weights) {
    const ModelParameter* of = nullptr;
    std::optional<InitialValues> drawn;
    fill(buffer, buffer, [&](const ModelParameter& parameter, std::int64_t at) {
      if (shared_.start != nullptr && shared_.start->is_trained(parameter.id))
        return shared_.start->value(parameter.id, 0, at);
      if (of != &parameter) drawn.emplace(parameter, shared_.training.seed);
      of = &parameter;
      return (*drawn)(at);
    });
  }
  std::set<Index> segments;
  for (const Entry& entry : program_.entries) segments.insert(entry.segment);
  for (const Index segment : segments)
    for (const Instruction& what : plan_.segments[segment].instructions)
      if (what.opcode == Opcode::optimizer) initialise_optimizer(what);
}

// Of the source what the target has of it, a message's length at a time. A payload is of one type: between
// two, numbers are copied.
void RankRun::copy(const Argument& from, const Argument& to) {
  const bool is_of_one_type = from.buffer->dtype == to.buffer->dtype;
  for (const TensorPart& piece : message_pieces(to.part))
    if (is_of_one_type)
      device_.unpack(device_.pack(from, piece), to, piece, Combine::assign);
    else
      device_.set_values(device_.values(from, piece), to, piece);
}

// Main weights are the weights, moments are zero, unless a checkpoint says what they are.
void RankRun::initialise_optimizer(const Instruction& what) {
  const auto main = main_weights_of(plan_, what);
  const auto kept = [&](std::size_t output) { return shared_.buckets.kept_of(what.outputs.at(output)); };
  if (shared_.start == nullptr) {
    if (!main) return;
    const Argument from = flat_range(memory_.read({kept(0), 0}));
    const Argument to = flat_range(memory_.read({kept(*main), 0}));
    copy(from, to);
    return;
  }
  for (std::size_t state = 1; state <= moments_of(what) + (main ? 1 : 0); ++state)
    fill(kept(state), what.outputs.front(), [&](const ModelParameter& parameter, std::int64_t at) {
      return shared_.start->value(parameter.id, state == main ? 0 : state, at);
    });
}

template <class ValueOf>
void RankRun::fill(Index buffer, Index like, ValueOf value_of) {
  const Argument flat = flat_range(memory_.read({buffer, 0}));
  if (flat.data == nullptr) return;
  for (const BucketViews::Overlap& overlap : shared_.buckets.overlaps(like, place_)) {
    const Buffer& view = plan_.buffers[overlap.view];
    const auto parameter = std::find_if(plan_.parameters.begin(), plan_.parameters.end(),
                                        [&](const ModelParameter& of) { return of.id == view.parameter; });
    const TensorPart part = part_of(plan_, view, place_, 0);
    const std::vector<std::int64_t> extents = whole_extents(plan_, view, part);
    const TensorPart all{{overlap.flat_first, overlap.count, flat.part.front().whole}};
    for (const TensorPart& piece : message_pieces(all)) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < piece.front().extent; ++i) {
        const std::int64_t in_view = overlap.view_first + piece.front().first - overlap.flat_first + i;
        const std::int64_t at = whole_index(part, extents, in_view);
        values.push_back(at < 0 ? 0 : value_of(*parameter, at));
      }
      device_.set_values(values, flat, piece);
    }
  }
}

void RankRun::run_entry(std::size_t entry) {
  const Entry& of = program_.entries[entry];
  const std::vector<Instruction>& instructions = plan_.segments[of.segment].instructions;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& what = instructions[i];
    Place at{entry, i, 0};
    if (what.binding < of.binding_count)
      at.microbatch = program_.bindings[of.first_binding + what.binding].microbatch;
    try {
      if (clock_ != nullptr) begin_clock();
      run(at, what);
    } catch (const TransportError&) {
      throw;
    } catch (const Disagreement& error) {
      throw ExecutionError(fmt::format("{}: {}", describe(at, what), error.what()));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", describe(at, what), error.what()));
    }
    ++instructions_;
  }
}

std::string RankRun::describe(const Place& at, const Instruction& what) const {
  const Segment& segment = plan_.segments[program_.entries[at.entry].segment];
  return fmt::format("step {}, entry {} ('{}' of microbatch {}), instruction {} ({} {})", global_step(),
                     at.entry, segment.name, at.microbatch, at.instruction, to_string(what.opcode),
                     what.label);
}

void RankRun::run(const Place& at, const Instruction& what) {
  if (what.opcode == Opcode::free) {
    for (const Index buffer : what.inputs) memory_.release({buffer, at.microbatch});
    end_clock(at);
    return;
  }
  std::vector<Argument> inputs, outputs;
  for (const Index buffer : what.waits_for) memory_.read({buffer, at.microbatch});
  for (const Index buffer : what.inputs) inputs.push_back(memory_.read({buffer, at.microbatch}));
  if (what.phase == Phase::optimizer && !what.waits_for.empty() && !what.constants.empty() &&
      what.constants.front() > 0)
    inputs.push_back(memory_.read({what.waits_for.front(), at.microbatch}));  // the norm, as a number
  for (std::size_t o = 0; o < what.outputs.size(); ++o) {
    const Index buffer = what.outputs[o];
    const bool adds = what.accumulate && plan_.buffers[buffer].category == Category::gradients;
    outputs.push_back(adds ? memory_.read({buffer, at.microbatch})
                           : memory_.write({buffer, at.microbatch}, rows_of_output(at, what, inputs, o)));
  }
  if (is_communication(what.opcode))
    exchange_.run({what, inputs, outputs, at.microbatch, describe(at, what)});
  else
    compute(at, what, inputs, outputs);
  end_clock(at);
  observe(what, outputs);
}

// The rows of an experts' buffer that is about to be written; none on a device without memory, where the plan
// decides.
SharedRows RankRun::rows_of_output(const Place& at, const Instruction& what,
                                   const std::vector<Argument>& inputs, std::size_t output) {
  const Buffer& buffer = plan_.buffers[what.outputs[output]];
  if (!has_expert_rows(plan_, buffer)) return nullptr;
  if (what.opcode == Opcode::gather && what.function == Function::dispatch && inputs.size() > 1) {
    const TensorPart& tokens = inputs[1].part;
    const std::vector<std::int64_t> chosen = device_.indices(inputs[1], tokens);
    if (chosen.empty()) return nullptr;
    return std::make_shared<const ExpertRows>(
        dispatched_rows({plan_, what, place_, tokens, chosen}, at.microbatch));
  }
  if (what.opcode == Opcode::recv)
    return exchange_.rows_announced(what, buffer, at.microbatch, describe(at, what));
  if (is_communication(what.opcode) || what.opcode == Opcode::copy) {
    const Argument& input = inputs.at(output);
    if (input.rows == nullptr) return nullptr;
    return exchange_.rows_behind({what, input, buffer, at.microbatch, describe(at, what)});
  }
  const auto with_rows =
      std::find_if(inputs.begin(), inputs.end(), [](const Argument& input) { return input.rows != nullptr; });
  return with_rows == inputs.end() ? nullptr : rows_as_in(with_rows->rows, plan_, buffer, place_);
}

void RankRun::begin_clock() {
  clock_->begin();
  device_.begin_work();
}

void RankRun::end_clock(const Place& at) {
  if (clock_ == nullptr) return;
  const std::int64_t worked_ns = device_.worked_ns();
  clock_->end(static_cast<Index>(at.entry), static_cast<Index>(at.instruction), worked_ns);
}

void RankRun::compute(const Place& at, const Instruction& what, const std::vector<Argument>& inputs,
                      const std::vector<Argument>& outputs) {
  if (what.opcode == Opcode::optimizer && step_ == 0 && shared_.compares) {
    // Gradients as summed, before the update.
    shared_.observed.with_gradients(
        [&](ParameterValues& values) { record(values, what.inputs.front(), inputs.front()); });
  }
  if (what.opcode == Opcode::copy && inputs.size() == outputs.size() &&
      same_dimensions(*inputs[0].buffer, *outputs[0].buffer)) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].rows != nullptr)
        copy_rows(device_, {inputs[i], outputs[i]},
                  rows_of_part(*inputs[i].rows, plan_, *outputs[i].buffer, place_));
      else
        copy(inputs[i], outputs[i]);
    return;
  }
  KernelCall call{plan_, what, inputs, outputs, at.microbatch, global_step(), shared_.training};
  if (what.opcode == Opcode::reduce && what.function == Function::sum_squares)
    for (const Index input : what.inputs) call.counted.push_back(shared_.buckets.counted(input, place_));
  device_.run(call);
}

// The loss by its rows, each counted once however many ranks have it, and the weights behind the last step.
void RankRun::observe(const Instruction& what, const std::vector<Argument>& outputs) {
  if (what.opcode == Opcode::map && what.function == Function::log_loss && what.phase == Phase::forward) {
    const std::vector<double> rows = device_.values(outputs.front(), outputs.front().part);
    const auto ranks = static_cast<double>(copies_of_part(plan_, *outputs.front().buffer, place_));
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    const double all = rows_of_step(plan_, outputs.front().part, /*has_classes=*/false);
    shared_.observed.add_loss(step_, weight_of_loss(what) * sum / ranks / all);
  }
  if (what.opcode != Opcode::optimizer || step_ + 1 != shared_.steps || !shared_.compares) return;
  const std::size_t kept = main_weights_of(plan_, what).value_or(0);
  shared_.observed.with_parameters(
      [&](ParameterValues& values) { record(values, what.outputs.front(), outputs[kept]); });
  for (std::size_t m = 0; m < shared_.observed.kept_moments(); ++m)
    shared_.observed.with_moment(
        m, [&](ParameterValues& values) { record(values, what.outputs.front(), outputs[1 + m]); });
}

void RankRun::record(ParameterValues& values, Index flat, const Argument& argument) {
  const Argument whole = flat_range(argument);
  for (const BucketViews::Overlap& overlap : shared_.buckets.overlaps(flat, place_)) {
    const Buffer& view = plan_.buffers[overlap.view];
    const std::vector<double> numbers =
        device_.values(whole, {{overlap.flat_first, overlap.count, whole.part.front().whole}});
    values.record(view, part_of(plan_, view, place_, 0), overlap.view_first, numbers);
  }
}

}  // namespace simrun
