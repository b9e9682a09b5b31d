#include "visualizer/perfetto_trace.h"

#include <perfetto_trace.pb.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "example_run.h"
#include "pair_run.h"
#include "transfer_run.h"

namespace simrun {

namespace {

namespace pb = perfetto::protos;

struct ReadSlice {
  std::int64_t start = 0, end = 0;
  std::string name, category;
  std::map<std::string, std::string> arguments;  // numbers as text
};

struct ReadTrack {
  std::string name;
  std::uint64_t parent = 0;
  int order = 0;
  std::vector<ReadSlice> slices;
  std::vector<std::pair<std::int64_t, double>> values;
};

struct FlowEnd {
  std::uint64_t track = 0;
  std::int64_t time = 0;
};

using Texts = std::map<std::uint64_t, std::string>;

// Reads packets one by one, as Perfetto does, and checks what must hold of any trace.
class Reader {
 public:
  explicit Reader(const std::string& bytes) {
    pb::Trace trace;
    REQUIRE(trace.ParseFromString(bytes));
    for (const pb::TracePacket& packet : trace.packet()) {
      CHECK(packet.trusted_packet_sequence_id() == 1);
      if (packet.has_interned_data()) read_strings(packet);
      if (packet.has_track_descriptor()) read_track(packet.track_descriptor());
      if (packet.has_track_event()) read_event(packet);
    }
    CHECK(open_.empty());
  }
  std::map<std::uint64_t, ReadTrack> tracks;
  std::map<std::uint64_t, std::vector<FlowEnd>> departures, arrivals;  // by flow

  const ReadTrack& track(const std::string& name, const std::string& parent) const {
    for (const auto& [uuid, found] : tracks)
      if (found.name == name && found.parent != 0 && tracks.at(found.parent).name == parent) return found;
    throw std::out_of_range("no track " + name);
  }

 private:
  void read_strings(const pb::TracePacket& packet) {
    CHECK(packet.sequence_flags() == pb::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    for (const auto& entry : packet.interned_data().event_names()) names_[entry.iid()] = entry.name();
    for (const auto& entry : packet.interned_data().event_categories())
      categories_[entry.iid()] = entry.name();
    for (const auto& entry : packet.interned_data().debug_annotation_names())
      arguments_[entry.iid()] = entry.name();
    for (const auto& entry : packet.interned_data().debug_annotation_string_values())
      texts_[entry.iid()] = entry.str();
  }

  void read_track(const pb::TrackDescriptor& descriptor) {
    CHECK((descriptor.parent_uuid() == 0 || tracks.count(descriptor.parent_uuid()) == 1));
    ReadTrack& track = tracks[descriptor.uuid()];
    CHECK(track.order == 0);  // described once
    track.name = descriptor.name();
    track.parent = descriptor.parent_uuid();
    track.order = descriptor.sibling_order_rank();
    CHECK(descriptor.child_ordering() == pb::TrackDescriptor::EXPLICIT);
  }

  void read_event(const pb::TracePacket& packet) {
    const pb::TrackEvent& event = packet.track_event();
    REQUIRE(packet.sequence_flags() == pb::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    REQUIRE(tracks.count(event.track_uuid()) == 1);
    ReadTrack& track = tracks[event.track_uuid()];
    const auto time = static_cast<std::int64_t>(packet.timestamp());
    const auto [last, is_first] = last_.try_emplace(event.track_uuid(), time);
    REQUIRE(time >= last->second);
    last->second = time;
    if (event.type() == pb::TrackEvent::TYPE_COUNTER) {
      track.values.emplace_back(time, event.has_counter_value() ? static_cast<double>(event.counter_value())
                                                                : event.double_counter_value());
    } else if (event.type() == pb::TrackEvent::TYPE_SLICE_BEGIN) {
      REQUIRE(open_.count(event.track_uuid()) == 0);  // no nesting, no overlap
      open_[event.track_uuid()] = begun(event, time);
    } else {
      REQUIRE(event.type() == pb::TrackEvent::TYPE_SLICE_END);
      REQUIRE(open_.count(event.track_uuid()) == 1);
      track.slices.push_back(open_.at(event.track_uuid()));
      track.slices.back().end = time;
      open_.erase(event.track_uuid());
    }
    for (const std::uint64_t flow : event.flow_ids()) departures[flow].push_back({event.track_uuid(), time});
    for (const std::uint64_t flow : event.terminating_flow_ids())
      arrivals[flow].push_back({event.track_uuid(), time});
  }

  ReadSlice begun(const pb::TrackEvent& event, std::int64_t time) const {
    ReadSlice slice;
    slice.start = time;
    slice.name = event.has_name() ? event.name() : names_.at(event.name_iid());
    for (const std::uint64_t category : event.category_iids()) slice.category = categories_.at(category);
    for (const pb::DebugAnnotation& argument : event.debug_annotations())
      slice.arguments[arguments_.at(argument.name_iid())] =
          argument.has_string_value_iid() ? texts_.at(argument.string_value_iid())
          : argument.has_double_value()   ? std::to_string(argument.double_value())
                                          : std::to_string(argument.int_value());
    return slice;
  }

  Texts names_, categories_, arguments_, texts_;
  std::map<std::uint64_t, ReadSlice> open_;
  std::map<std::uint64_t, std::int64_t> last_;  // time of the track's last event
};

}  // namespace

TEST_CASE("perfetto trace: a kernel, a pass and a transfer, written by hand") {
  const TransferRun run = transfer_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  const ReadTrack& compute = trace.track("compute", "pp 0 gpu 0 (x16)");
  REQUIRE(compute.slices.size() == 1);
  const ReadSlice& kernel = compute.slices[0];
  CHECK(kernel.name == "gemm qkv");
  CHECK(kernel.category == "compute");
  CHECK(kernel.start == 0);
  CHECK(kernel.end == 1234);  // 1,234,567 ps
  CHECK(kernel.arguments == std::map<std::string, std::string>{{"stage", "0"},
                                                               {"chunk", "0"},
                                                               {"layer", "0"},
                                                               {"phase", "forward"},
                                                               {"bytes", "112"},
                                                               {"flops", "128"},
                                                               {"microbatch", "5"}});
  const ReadSlice& receive = trace.track("pp", "pp 1 gpu 8").slices.at(0);
  CHECK(receive.name == "recv");
  CHECK(receive.end - receive.start == 2000);  // 3,234 - 1,234
  CHECK(receive.arguments.at("wait_us") == "1.500000");
  CHECK(receive.arguments.at("cause") == R"(a "quoted" <cause>)");
  CHECK(trace.track("passes", "pp 1 gpu 8").slices.at(0).name == "1F5");
  const ReadSlice& optimizer = trace.track("compute", "pp 1 gpu 8").slices.at(1);
  CHECK(optimizer.start == 4235);
  CHECK(optimizer.end == 4235);
}

TEST_CASE("perfetto trace: the job is the root and carries the facts of the run") {
  const TransferRun run = transfer_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  const ReadTrack& job = trace.tracks.at(1);
  CHECK(job.name == "two \"ranks\"");
  CHECK(job.parent == 0);
  REQUIRE(job.slices.size() == 1);
  CHECK(job.slices[0].end == 4235);
  CHECK(job.slices[0].arguments.at("engine") == "by hand");
  CHECK(job.slices[0].arguments.at("step_time_ps") == "4235000");
  CHECK(job.slices[0].arguments.at("config_sha256") == "0123abcd");
}

TEST_CASE("perfetto trace: tracks are ranked in pipeline order, passes, compute, other streams, counters") {
  const TransferRun run = transfer_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  const char* first = "pp 0 gpu 0 (x16)";
  CHECK(trace.track(first, "two \"ranks\"").order == 0);
  CHECK(trace.track("pp 1 gpu 8", "two \"ranks\"").order == 1);
  CHECK(trace.track("links", "two \"ranks\"").order == 2);
  CHECK(trace.track("passes", first).order == 0);
  CHECK(trace.track("compute", first).order == 1);
  CHECK(trace.track("pp", first).order == 2);
  CHECK(trace.track("memory weights", first).order == 3);
}

TEST_CASE("perfetto trace: a transfer's arrow leaves its send and ends at its receive, later") {
  const TransferRun run = transfer_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  REQUIRE(trace.departures.size() == 1);
  REQUIRE(trace.arrivals.size() == 1);
  for (const auto& [flow, ends] : trace.departures) {
    REQUIRE(ends.size() == 1);
    REQUIRE(trace.arrivals.at(flow).size() == 1);
    CHECK(trace.arrivals.at(flow)[0].time > ends[0].time);
    CHECK(trace.tracks.at(ends[0].track).slices.at(0).name == "send");
    CHECK(trace.tracks.at(trace.arrivals.at(flow)[0].track).slices.at(0).name == "recv");
  }
}

TEST_CASE("perfetto trace: counters hold the memory events, written where they change") {
  const TransferRun run = transfer_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  using Values = std::vector<std::pair<std::int64_t, double>>;
  CHECK(trace.track("memory weights", "pp 0 gpu 0 (x16)").values == Values{{0, 100}});
  CHECK(trace.track("memory activations", "pp 0 gpu 0 (x16)").values == Values{{0, 20}, {0, 28}, {3234, 20}});
  CHECK(trace.track("node0.nic0.tx (x4)", "links").values ==
        Values{{0, 0}, {1058, 50}, {2117, 25}, {3176, 0}});
}

TEST_CASE("perfetto trace: every interval is a slice at its time, on its stream's track") {
  const ExampleRun run =
      example_run({.ranks = 4, .microbatches = 8, .layers = 2, .jitter = GENERATE(false, true)});
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  for (const RankTimeline& rank : run.timeline.ranks)
    for (const Lane& lane : rank.lanes) {
      const std::string process = "pp " + std::to_string(rank.pipeline_rank) + " gpu 0 (x8)";
      const ReadTrack& track = trace.track(run.plan.streams[lane.stream].name, process);
      REQUIRE(track.slices.size() == lane.intervals.size());
      for (std::size_t i = 0; i < lane.intervals.size(); ++i) {
        CHECK(track.slices[i].start == lane.intervals[i].start / 1000);
        CHECK(track.slices[i].end == (lane.intervals[i].start + lane.intervals[i].duration) / 1000);
      }
    }
}

TEST_CASE("perfetto trace: an overlapped pair is named by both passes and carries both microbatches") {
  const PairRun run = pair_run();
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  std::size_t found = 0;
  for (const ReadSlice& slice : trace.track("passes", "pp 0 gpu 0").slices) {
    if (slice.name != "(0F3;3B5)") continue;
    ++found;
    CHECK(slice.category == "overlapped");
    CHECK(slice.arguments.at("stage") == "0");
    CHECK(slice.arguments.at("microbatch") == "3");
    CHECK(slice.arguments.at("backward_stage") == "3");
    CHECK(slice.arguments.at("backward_microbatch") == "5");
  }
  CHECK(found == 1);
  CHECK(trace.departures.size() == std::size_t{8} * 3 * 2);  // microbatches x borders x (forward, backward)
}

TEST_CASE("perfetto trace: passes are slices at their times, to the nanosecond") {
  const ExampleRun run = example_run({.ranks = 4, .microbatches = 8, .layers = 2, .jitter = true});
  const Reader trace(perfetto_trace(run.plan, run.timeline));
  for (const RankTimeline& rank : run.timeline.ranks) {
    const ReadTrack& track =
        trace.track("passes", "pp " + std::to_string(rank.pipeline_rank) + " gpu 0 (x8)");
    REQUIRE(track.slices.size() == rank.passes.size());
    for (std::size_t i = 0; i < rank.passes.size(); ++i) {
      CHECK(track.slices[i].start == rank.passes[i].start / 1000);
      CHECK(track.slices[i].end == (rank.passes[i].start + rank.passes[i].duration) / 1000);
    }
  }
}

TEST_CASE("perfetto trace: fields have Perfetto's numbers") {
  // protos/perfetto/trace/trace_packet.proto at commit 02603952 of google/perfetto, track_event.proto at
  // 005055c9, and as perfetto_trace.proto says of the others
  CHECK(pb::Trace::kPacketFieldNumber == 1);
  CHECK(pb::TracePacket::kTimestampFieldNumber == 8);
  CHECK(pb::TracePacket::kTrustedPacketSequenceIdFieldNumber == 10);
  CHECK(pb::TracePacket::kTrackEventFieldNumber == 11);
  CHECK(pb::TracePacket::kInternedDataFieldNumber == 12);
  CHECK(pb::TracePacket::kSequenceFlagsFieldNumber == 13);
  CHECK(pb::TracePacket::kTrackDescriptorFieldNumber == 60);
  CHECK(pb::TrackEvent::kCategoryIidsFieldNumber == 3);
  CHECK(pb::TrackEvent::kDebugAnnotationsFieldNumber == 4);
  CHECK(pb::TrackEvent::kTypeFieldNumber == 9);
  CHECK(pb::TrackEvent::kNameIidFieldNumber == 10);
  CHECK(pb::TrackEvent::kTrackUuidFieldNumber == 11);
  CHECK(pb::TrackEvent::kNameFieldNumber == 23);
  CHECK(pb::TrackEvent::kCounterValueFieldNumber == 30);
  CHECK(pb::TrackEvent::kDoubleCounterValueFieldNumber == 44);
  CHECK(pb::TrackEvent::kFlowIdsFieldNumber == 47);
  CHECK(pb::TrackEvent::kTerminatingFlowIdsFieldNumber == 48);
  CHECK(pb::TrackDescriptor::kUuidFieldNumber == 1);
  CHECK(pb::TrackDescriptor::kNameFieldNumber == 2);
  CHECK(pb::TrackDescriptor::kParentUuidFieldNumber == 5);
  CHECK(pb::TrackDescriptor::kCounterFieldNumber == 8);
  CHECK(pb::InternedData::kEventCategoriesFieldNumber == 1);
  CHECK(pb::InternedData::kEventNamesFieldNumber == 2);
  CHECK(pb::InternedData::kDebugAnnotationNamesFieldNumber == 3);
  CHECK(pb::DebugAnnotation::kNameIidFieldNumber == 1);
  CHECK(pb::DebugAnnotation::kIntValueFieldNumber == 4);
  CHECK(pb::DebugAnnotation::kDoubleValueFieldNumber == 5);
  pb::TrackEvent event;  // as that schema writes it: fields 9 and 11 varints, field 47 eight bytes
  event.set_type(pb::TrackEvent::TYPE_SLICE_END);
  event.set_track_uuid(5);
  event.add_flow_ids(1);
  CHECK(event.SerializeAsString() ==
        std::string("\x48\x02\x58\x05\xf9\x02\x01\x00\x00\x00\x00\x00\x00\x00", 14));
}

TEST_CASE("perfetto trace: one run is always the same bytes") {
  CHECK(perfetto_trace(example_run().plan, example_run().timeline) ==
        perfetto_trace(example_run().plan, example_run().timeline));
}

}  // namespace simrun
