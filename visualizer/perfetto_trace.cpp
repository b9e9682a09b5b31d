#include "visualizer/perfetto_trace.h"

#include <perfetto_trace.pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "visualizer/trace_events.h"

namespace simrun {

namespace {

namespace pb = perfetto::protos;

constexpr std::uint32_t sequence_id = 1;  // everything is on one packet sequence, whose strings all share

// Strings by number from 1, in the order of first use.
class Strings {
 public:
  std::uint64_t number(const std::string& text) {
    const auto [place, is_new] = numbers_.try_emplace(text, numbers_.size() + 1);
    if (is_new) in_order_.push_back(&place->first);
    return place->second;
  }
  const std::vector<const std::string*>& in_order() const { return in_order_; }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::vector<const std::string*> in_order_;
};

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

// A message (its bytes in up to two pieces, which protobuf merges) as the field `number` of what is in `out`.
void put_message(std::string& out, std::uint32_t number, const std::string& first,
                 const std::string& second = "") {
  constexpr std::uint32_t length_delimited = 2;
  put_varint(out, number << 3 | length_delimited);
  put_varint(out, first.size() + second.size());
  out += first;
  out += second;
}

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const TraceEvents& events) : events_(events) {
    for (const SliceLabel& label : events.labels) labels_.push_back(label_bytes(label));
    microbatch_ = argument_names_.number("microbatch");
    second_microbatch_ = argument_names_.number("backward_microbatch");
    wait_us_ = argument_names_.number("wait_us");
  }

  std::string write() {
    constexpr std::size_t typical_slice = 128;  // bytes
    std::size_t slices = 0;
    for (const TraceProcess& process : events_.processes)
      for (const TraceThread& thread : process.threads) slices += thread.slices.size();
    text_.reserve(typical_slice * slices);
    const pb::TrackEvent step = step_event();
    add_strings();
    const std::uint64_t job = add_track(0, events_.job, 0);
    add_step(step, job);
    for (std::size_t p = 0; p < events_.processes.size(); ++p) add_process(events_.processes[p], job, p);
    return std::move(text_);
  }

 private:
  void add_argument(pb::TrackEvent& event, const TraceArgument& argument) {
    pb::DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(argument_names_.number(argument.name));
    if (const std::int64_t* number = std::get_if<std::int64_t>(&argument.value))
      annotation.set_int_value(*number);
    else
      annotation.set_string_value_iid(texts_.number(std::get<std::string>(argument.value)));
  }

  // What all slices of a label share of their begin; a numbered name comes with each.
  std::string label_bytes(const SliceLabel& label) {
    pb::TrackEvent event;
    event.set_type(pb::TrackEvent::TYPE_SLICE_BEGIN);
    event.add_category_iids(categories_.number(label.category));
    if (!label.numbered) event.set_name_iid(names_.number(label.name));
    for (const TraceArgument& argument : label.arguments) add_argument(event, argument);
    return event.SerializeAsString();
  }

  pb::TrackEvent step_event() {
    pb::TrackEvent event;
    event.set_type(pb::TrackEvent::TYPE_SLICE_BEGIN);
    event.set_name_iid(names_.number("step"));
    for (const TraceArgument& fact : events_.facts) add_argument(event, fact);
    return event;
  }

  void add_packet(const pb::TracePacket& packet) {
    put_message(text_, pb::Trace::kPacketFieldNumber, packet.SerializeAsString());
  }

  void add_strings() {
    pb::TracePacket packet;
    packet.set_trusted_packet_sequence_id(sequence_id);
    packet.set_sequence_flags(pb::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    pb::InternedData& data = *packet.mutable_interned_data();
    const auto add = [](const Strings& strings, const auto& add_one) {
      std::uint64_t number = 0;
      for (const std::string* text : strings.in_order()) add_one(++number, *text);
    };
    const auto set = [](auto& entry, std::uint64_t number, const std::string& text) {
      entry.set_iid(number);
      entry.set_name(text);
    };
    add(categories_, [&](auto number, const auto& text) { set(*data.add_event_categories(), number, text); });
    add(names_, [&](auto number, const auto& text) { set(*data.add_event_names(), number, text); });
    add(argument_names_,
        [&](auto number, const auto& text) { set(*data.add_debug_annotation_names(), number, text); });
    add(texts_, [&](auto number, const auto& text) {
      pb::InternedString& entry = *data.add_debug_annotation_string_values();
      entry.set_iid(number);
      entry.set_str(text);
    });
    add_packet(packet);
  }

  // parent 0: none. Returns its uuid.
  std::uint64_t add_track(std::uint64_t parent, const std::string& name, std::size_t order,
                          std::optional<pb::CounterDescriptor> counter = {}) {
    pb::TracePacket packet;
    packet.set_trusted_packet_sequence_id(sequence_id);
    pb::TrackDescriptor& track = *packet.mutable_track_descriptor();
    track.set_uuid(++tracks_);
    if (!name.empty()) track.set_name(name);
    if (parent != 0) track.set_parent_uuid(parent);
    track.set_child_ordering(pb::TrackDescriptor::EXPLICIT);
    track.set_sibling_order_rank(static_cast<std::int32_t>(order));
    track.set_sibling_merge_behavior(pb::TrackDescriptor::SIBLING_MERGE_BEHAVIOR_NONE);
    if (counter) *track.mutable_counter() = *counter;
    add_packet(packet);
    return tracks_;
  }

  void add_step(pb::TrackEvent begin, std::uint64_t track) {
    begin.set_track_uuid(track);
    add_event(0, "", begin);
    pb::TrackEvent end;
    end.set_type(pb::TrackEvent::TYPE_SLICE_END);
    end.set_track_uuid(track);
    add_event(whole_nanoseconds(events_.step), "", end);
  }

  void add_process(const TraceProcess& process, std::uint64_t job, std::size_t order) {
    const std::uint64_t parent = add_track(job, process.name, order);
    std::size_t child = 0;
    for (const TraceThread& thread : process.threads) {
      const std::uint64_t track = add_track(parent, thread.name, child++);
      for (const TraceSlice& slice : thread.slices) add_slice(slice, track);
    }
    for (const TraceCounter& counter : process.counters)
      for (std::size_t s = 0; s < counter.series.size(); ++s) add_series(counter, s, parent, child++);
  }

  // `label` is the serialized part of the event that it shares with others.
  void add_event(std::int64_t time_ns, const std::string& label, const pb::TrackEvent& event) {
    packet_.set_timestamp(static_cast<std::uint64_t>(time_ns));
    packet_.set_trusted_packet_sequence_id(sequence_id);
    packet_.set_sequence_flags(pb::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    packet_bytes_ = packet_.SerializeAsString();
    put_message(packet_bytes_, pb::TracePacket::kTrackEventFieldNumber, label, event.SerializeAsString());
    put_message(text_, pb::Trace::kPacketFieldNumber, packet_bytes_);
  }

  // The arrow leaves where its SEND begins and ends where its RECV ends: Perfetto takes the earlier event for
  // the source, and the two slices usually begin together.
  void add_slice(const TraceSlice& slice, std::uint64_t track) {
    const bool departs = slice.arrow != no_index && &slice == &sending_slice(slice.arrow);
    const SliceLabel& label = events_.labels[slice.label];
    event_.Clear();
    event_.set_track_uuid(track);
    if (label.numbered) event_.set_name(slice_name(label, slice));
    add_number(microbatch_, slice.microbatch);
    add_number(second_microbatch_, slice.second_microbatch);
    if (slice.wait > 0) {
      pb::DebugAnnotation& wait = *event_.add_debug_annotations();
      wait.set_name_iid(wait_us_);
      wait.set_double_value(static_cast<double>(slice.wait) / 1e6);
    }
    if (departs) event_.add_flow_ids(slice.arrow + std::uint64_t{1});
    add_event(start_ns(slice), labels_[slice.label], event_);
    event_.Clear();
    event_.set_type(pb::TrackEvent::TYPE_SLICE_END);
    event_.set_track_uuid(track);
    if (slice.arrow != no_index && !departs) event_.add_terminating_flow_ids(slice.arrow + std::uint64_t{1});
    add_event(end_ns(slice), "", event_);
  }

  // Nothing if it is negative.
  void add_number(std::uint64_t name, std::int64_t number) {
    if (number < 0) return;
    pb::DebugAnnotation& annotation = *event_.add_debug_annotations();
    annotation.set_name_iid(name);
    annotation.set_int_value(number);
  }

  const TraceSlice& sending_slice(Index arrow) const {
    const SlicePlace& from = events_.arrows[arrow].from;
    return events_.processes[from.process].threads[from.thread].slices[from.slice];
  }

  void add_series(const TraceCounter& counter, std::size_t series, std::uint64_t parent, std::size_t order) {
    const bool bytes = counter.unit == TraceUnit::bytes;
    pb::CounterDescriptor descriptor;
    if (bytes)
      descriptor.set_unit(pb::CounterDescriptor::UNIT_SIZE_BYTES);
    else
      descriptor.set_unit_name("%");
    descriptor.set_y_axis_share_key(bytes ? "memory" : "links");
    const bool alone = counter.series.size() == 1;
    const std::string name = alone ? counter.name : counter.name + " " + counter.series[series];
    const std::uint64_t track = add_track(parent, name, order, descriptor);
    std::optional<double> before;
    for (std::size_t i = 0; i < counter.times.size(); ++i) {
      const double value = counter.values[i * counter.series.size() + series];
      if (before == value) continue;
      before = value;
      event_.Clear();
      event_.set_type(pb::TrackEvent::TYPE_COUNTER);
      event_.set_track_uuid(track);
      if (bytes)
        event_.set_counter_value(static_cast<std::int64_t>(value));
      else
        event_.set_double_counter_value(value);
      add_event(whole_nanoseconds(counter.times[i]), "", event_);
    }
  }

  const TraceEvents& events_;
  Strings categories_, names_, argument_names_, texts_;
  std::vector<std::string> labels_;  // serialized TrackEvents, by label
  std::uint64_t microbatch_ = 0, second_microbatch_ = 0, wait_us_ = 0;
  std::uint64_t tracks_ = 0;
  std::string text_;
  pb::TracePacket packet_;  // these three are kept for their memory
  pb::TrackEvent event_;
  std::string packet_bytes_;
};

}  // namespace

std::string perfetto_trace(const Plan& plan, const Timeline& timeline) {
  return PerfettoWriter(trace_events(plan, timeline)).write();
}

}  // namespace simrun
