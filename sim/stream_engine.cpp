#include "sim/stream_engine.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "configs/node_groups.h"
#include "sim/alarm_clock.h"
#include "sim/compute_overlap.h"
#include "sim/compute_stretch.h"
#include "sim/compute_times.h"
#include "sim/compute_waits.h"
#include "sim/deadlock.h"
#include "sim/device_state.h"
#include "sim/exchange_groups.h"
#include "sim/network.h"
#include "sim/rendezvous.h"
#include "sim/run_recorder.h"

namespace simrun {

namespace {

class Engine {
 public:
  explicit Engine(const EngineInput& input)
      : plan_(input.plan),
        compiled_(input.compiled),
        meetings_(input.meetings),
        network_(input.network),
        compute_(input.compiled, input.slowdowns),
        waits_are_imbalance_(input.compiled.has_classes() || input.slowdowns != nullptr),
        is_blocking_(input.plan.cluster.communication == CommunicationMode::blocking ||
                     input.plan.framework.kernels.blocks()),
        interferes_(communication_share(input.plan.cluster) > 0),
        streams_(static_cast<Index>(input.plan.streams.size())),
        recorder_(input),
        rendezvous_(input.meetings.rendezvous),
        clock_(input.network) {
    add_devices();
    if (!interferes_) return;
    std::vector<double> shares;
    for (const DeviceState& device : devices_)
      shares.push_back(communication_share(gpu_at(plan_.cluster, device.gpu)));
    overlap_.emplace(shares);
  }

  EngineRun run() {
    for (Index d = static_cast<Index>(devices_.size()); d-- > 0;) runnable_.push_back(d);
    drain();
    clock_.run([this](const InFlight& flight, Picoseconds now) { fire(flight, now); });
    if (std::any_of(devices_.begin(), devices_.end(), [](const DeviceState& d) { return !d.finished; }))
      throw_deadlock({plan_, compiled_, meetings_, devices_, rendezvous_});
    return finish();
  }

 private:
  void add_devices() {
    for (Index program = 0; program < plan_.programs.size(); ++program) {
      const auto rank = static_cast<std::size_t>(plan_.programs[program].pipeline_rank);
      for (Index local = 0; local < meetings_.gpus[rank]; ++local) {
        DeviceState& device = devices_.emplace_back(plan_.streams);
        const Index first = meetings_.gpus_like(plan_.programs[program].pipeline_rank, local).first;
        device.code = &compiled_.code(program, first);
        device.number = static_cast<Index>(devices_.size() - 1);
        device.program = program;
        device.local_gpu = local;
        device.gpu = device_at(plan_, plan_.programs[program].pipeline_rank, first);
        device.slots.resize(compiled_.ranks[program].slots);
      }
    }
  }

  static const CompiledStep& step_of(const DeviceState& device, const IssuedOperation& operation) {
    return device.code->steps[operation.step];
  }
  Index stream_number(const DeviceState& device, std::uint8_t stream) const {
    return device.number * streams_ + stream;
  }

  void drain() {
    while (!startable_.empty() || !runnable_.empty()) {
      if (!startable_.empty()) {
        const Index stream = startable_.back();
        startable_.pop_back();
        start_head(devices_[stream / streams_], static_cast<std::uint8_t>(stream % streams_));
      } else {
        const Index device = runnable_.back();
        runnable_.pop_back();
        advance(devices_[device]);
      }
    }
  }

  void fire(const InFlight& flight, Picoseconds now) {
    if (flight.computing != no_index) {
      const auto next = overlap_->reach(flight.computing, flight.foresight, now);
      if (next) clock_.set(next->end, {.computing = flight.computing, .foresight = next->number});
      if (overlap_->is_done(flight.computing)) runnable_.push_back(flight.computing);
    } else {
      if (interferes_ && flight.communicates) count_flights(flight.waiting, -1, now);
      end_exchange(flight.waiting, {flight.start, now});
    }
    drain();
  }

  // Of the GPUs at a meeting.
  void count_flights(Index waiting, int change, Picoseconds now) {
    for (; waiting != no_index;) {
      const Index device = waiting / streams_;
      if (const auto next = overlap_->count_flight(device, change, now))
        clock_.set(next->end, {.computing = device, .foresight = next->number});
      waiting = devices_[device].streams[waiting % streams_].next_at_meeting;
    }
  }

  // ---- The compute stream and the order of issue ----

  // Runs a GPU until it finishes or is parked.
  void advance(DeviceState& device) {
    const CompiledRank& code = *device.code;
    device.parked = false;
    for (; device.entry < code.entries.size(); ++device.entry, device.step = 0) {
      const CompiledEntry& entry = code.entries[device.entry];
      const CompiledSegment& segment = code.segments[entry.segment];
      if (device.step == 0) recorder_.entry_begins(device);
      if (!advance_entry(device, segment)) return;
      if (compute_.are_as_compiled() && !interferes_) device.accounting.add_compute(segment.compute);
      recorder_.entry_ends(device);
    }
    for (Index s = 1; s < streams_; ++s)
      if (const StreamState& stream = device.streams[s]; stream.ended < stream.issued)
        return device.park({static_cast<std::uint8_t>(s), stream.issued});
    device.finished = true;
  }

  bool advance_entry(DeviceState& device, const CompiledSegment& segment) {
    const CompiledStep* const steps = device.code->steps.data() + segment.first_step;
    for (; device.step < segment.steps; ++device.step) {
      const CompiledStep& step = steps[device.step];
      if (interferes_ && overlap_->is_done(device.number)) {
        account_compute(device, step, overlap_->take(device.number));
        continue;
      }
      if (is_blocking_ && !waits_.for_communication(device, segment)) return false;
      if (step.stream != compute_stream) {
        issue(device, step);
        continue;
      }
      if (step.reads > 0 && !waits_.for_inputs(device, segment, step)) return false;
      if (device.step == segment.first_compute) device.pass_start = device.compute_tail;
      if (interferes_) {
        const auto next = overlap_->begin(device.number, compute_.of(device, step), device.compute_tail);
        clock_.set(next.end, {.computing = device.number, .foresight = next.number});
        return false;
      }
      if (compute_.are_as_compiled()) {
        recorder_.compute(device, step);
        device.compute_tail += step.duration;
      } else {
        account_compute(device, step, compute_.of(device, step));
      }
    }
    return true;
  }

  // A compute step of which the times are not as compiled.
  void account_compute(DeviceState& device, const CompiledStep& step, const std::vector<Picoseconds>& times) {
    recorder_.compute(device, step, times);
    for (const Picoseconds time : times) {
      device.accounting.add_compute(time);
      device.compute_tail += time;
    }
  }

  // ---- The other streams ----

  bool waits_for_end(const CompiledStep& step) const {
    if (!is_blocking_) return false;
    return step.exchange == no_index ? plan_.cluster.communication == CommunicationMode::blocking
                                     : blocks_compute(plan_, *compiled_.exchanges[step.exchange].instruction);
  }

  void issue(DeviceState& device, const CompiledStep& step) {
    const CompiledRank& code = *device.code;
    const CompiledEntry& entry = code.entries[device.entry];
    StreamState& stream = device.streams[step.stream];
    const bool is_head = stream.empty();
    IssuedOperation& operation = stream.queue.emplace_back();
    operation.ready = device.compute_tail;
    operation.entry = device.entry;
    operation.step = static_cast<Index>(&step - code.steps.data());
    operation.issue = device.issued++;
    for (Index i = step.first_read; i < step.first_read + step.reads; ++i) {
      const Slot& slot = device.slots[code.slot(code.references[i], entry)];
      if (!device.ended(slot.writer)) {
        operation.awaits.push_back(slot.writer);
      } else {
        operation.ready = std::max(operation.ready, slot.end);
        operation.p2p = later_transfer(operation.p2p, slot.p2p);
      }
    }
    if (!operation.awaits.empty()) ++device.awaiting;
    const OperationNumber own{step.stream, ++stream.issued};
    if (waits_for_end(step)) stream.waited_for = own.ordinal;
    for (Index i = step.first_write; i < step.first_write + step.writes; ++i)
      device.slots[code.slot(code.references[i], entry)].writer = own;
    if (is_head) start_head(device, step.stream);
  }

  // Lets the first operation of a stream go to its meeting, or run, if its inputs are there.
  void start_head(DeviceState& device, std::uint8_t number) {
    StreamState& stream = device.streams[number];
    if (stream.empty() || stream.posted || !stream.front().awaits.empty()) return;
    const IssuedOperation& operation = stream.front();
    const CompiledStep& step = step_of(device, operation);
    const Picoseconds ready = std::max(operation.ready, stream.tail);
    if (step.exchange == no_index) {
      end_alone(device, number, {ready, ready + step.duration});
    } else {
      stream.posted_at = ready;
      meet(device, step, ready);
    }
  }

  void meet(DeviceState& device, const CompiledStep& step, Picoseconds ready) {
    const Meeting& meeting = meetings_.of_exchange[step.exchange];
    const Index position = meeting.position[device.local_gpu];
    if (position == no_index) return end_operation(device, step.stream, {ready, ready});
    const Picoseconds duration = meeting.durations.empty() ? step.duration : meeting.durations[position];
    const bool carried = network_ != nullptr && network_->carries(step.exchange, position);
    if (meeting.expected[position] == 1 && !carried)
      return end_alone(device, step.stream, {ready, ready + duration});
    StreamState& stream = device.streams[step.stream];
    const Index instance = device.code->instance(device.code->entries[stream.front().entry], step.binding);
    Rendezvous& rendezvous = rendezvous_[meetings_.rendezvous_of(meeting, position, instance)];
    if (rendezvous.over)
      throw_posted_twice(plan_, compiled_.channels[compiled_.exchanges[step.exchange].channel]);
    stream.posted = true;
    stream.next_at_meeting = std::exchange(rendezvous.waiting, stream_number(device, step.stream));
    rendezvous.ready = std::max(rendezvous.ready, ready);
    if (duration >= rendezvous.duration) {
      rendezvous.duration = duration;
      rendezvous.exchange = step.exchange;
    }
    if (++rendezvous.arrived < meeting.expected[position]) return;
    const Rendezvous complete = rendezvous;
    rendezvous = {};
    rendezvous.over = meeting.per_instance;
    if (interferes_) count_flights(complete.waiting, +1, complete.ready);
    if (network_ != nullptr && network_->carries(complete.exchange, position))
      network_->post(complete.exchange, position, complete.ready,
                     clock_.ticket({complete.waiting, complete.ready}));
    else if (interferes_)
      clock_.set(complete.ready + complete.duration, {complete.waiting, complete.ready});
    else
      end_exchange(complete.waiting, {complete.ready, complete.ready + complete.duration});
  }

  // An operation that meets nobody.
  void end_alone(DeviceState& device, std::uint8_t number, Span span) {
    if (!interferes_) return end_operation(device, number, span);
    StreamState& stream = device.streams[number];
    stream.posted = true;
    stream.posted_at = span.start;
    stream.next_at_meeting = no_index;
    const bool communicates = step_of(device, stream.front()).exchange != no_index;
    const Index waiting = stream_number(device, number);
    if (communicates) count_flights(waiting, +1, span.start);
    clock_.set(span.end, {.waiting = waiting, .start = span.start, .communicates = communicates});
  }

  void end_exchange(Index waiting, Span span) {
    while (waiting != no_index) {
      DeviceState& device = devices_[waiting / streams_];
      const auto number = static_cast<std::uint8_t>(waiting % streams_);
      waiting = std::exchange(device.streams[number].next_at_meeting, no_index);
      end_operation(device, number, span);
    }
  }

  // The first operation of the stream has ended: its results are known to whoever awaits them.
  void end_operation(DeviceState& device, std::uint8_t number, Span span) {
    StreamState& stream = device.streams[number];
    const CompiledStep& step = step_of(device, stream.front());
    const IssuedOperation& operation = stream.front();
    const Picoseconds wait = stream.posted ? span.start - stream.posted_at : 0;
    if (wait > 0 && waits_are_imbalance_ && compiled_.exchanges[step.exchange].channel == no_index)
      device.accounting.add_wait(number, {span.start - wait, span.start}, device.compute_tail);
    device.accounting.add_flight(number, span, device.compute_tail);
    recorder_.operation(device, operation, span, wait);
    const OperationNumber own{number, ++stream.ended};
    const Span p2p = step.pipeline_arrival ? span : operation.p2p;
    const CompiledRank& code = *device.code;
    for (Index i = step.first_write; i < step.first_write + step.writes; ++i) {
      Slot& slot = device.slots[code.slot(code.references[i], device.code->entries[operation.entry])];
      if (slot.writer.ordinal != own.ordinal) continue;  // overwritten by a later operation of the stream
      slot.end = span.end;
      slot.p2p = p2p;
    }
    stream.tail = span.end;
    if (waits_for_end(step)) {
      stream.waited_until = span.end;
      if (step.pipeline_arrival) stream.arrival = span;
    }
    stream.posted = false;
    stream.pop();
    if (!stream.empty()) startable_.push_back(stream_number(device, number));
    if (device.awaiting > 0) tell(device, own, span.end, p2p);
    if (device.parked && device.ended(device.parked_on)) {
      device.parked = false;
      runnable_.push_back(device.number);
    }
    if (device.accounting.defers()) device.accounting.settle(device.first_outstanding());
  }

  void tell(DeviceState& device, OperationNumber writer, Picoseconds end, Span p2p) {
    for (Index s = 1; s < streams_; ++s) {
      StreamState& stream = device.streams[s];
      for (std::size_t i = stream.head; i < stream.queue.size(); ++i) {
        IssuedOperation& operation = stream.queue[i];
        const std::size_t awaited = operation.awaits.size();
        if (awaited == 0) continue;
        std::erase_if(operation.awaits, [&](OperationNumber other) {
          return other.stream == writer.stream && other.ordinal == writer.ordinal;
        });
        if (operation.awaits.size() == awaited) continue;
        operation.ready = std::max(operation.ready, end);
        operation.p2p = later_transfer(operation.p2p, p2p);
        if (!operation.awaits.empty()) continue;
        --device.awaiting;
        if (i == stream.head) startable_.push_back(stream_number(device, static_cast<std::uint8_t>(s)));
      }
    }
  }

  // ---- The end ----

  // What remains of each GPU's step after its last compute instruction, and its totals.
  EngineRun finish() {
    Picoseconds step = 0;
    for (const DeviceState& device : devices_) {
      step = std::max(step, device.compute_tail);
      for (const StreamState& stream : device.streams) step = std::max(step, stream.tail);
    }
    for (DeviceState& device : devices_) {
      if (device.compute_tail < step)
        device.accounting.add_gap({device.compute_tail, step}, {}, BubbleCause::drain,
                                  {device.issued, no_index});
      const RankTotals& totals = device.accounting.totals();
      assert(totals.compute + totals.exposed_total() + totals.bubble_total() == step &&
             "a rank's step is not all compute, exposed or bubble");
      recorder_.totals(device, totals);
    }
    return recorder_.take(step);
  }

  const Plan& plan_;
  const CompiledPlan& compiled_;
  const Meetings& meetings_;
  Network* const network_;
  ComputeTimes compute_;
  ComputeWaits waits_;
  const bool waits_are_imbalance_;  // GPUs of one pipeline rank have different work, or speeds
  const bool is_blocking_;          // CommunicationMode
  // Communication slows compute down: compute, too, goes in order of time over all GPUs, and every end is an
  // alarm.
  const bool interferes_;
  const Index streams_;  // per GPU
  RunRecorder recorder_;
  std::vector<DeviceState> devices_;
  std::vector<Rendezvous> rendezvous_;
  AlarmClock clock_;
  std::optional<ComputeOverlap> overlap_;
  std::vector<Index> startable_;  // streams, numbered over all GPUs
  std::vector<Index> runnable_;   // GPUs
};

}  // namespace

EngineRun run_streams(const EngineInput& input) { return Engine(input).run(); }

}  // namespace simrun
