#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

// A run in the terms of trace viewers (processes, threads, slices, counters, arrows), in no file format:
// chrome_trace.cpp and perfetto_trace.cpp write what stands here and nothing else.
namespace simrun {

struct TraceArgument {
  std::string name;
  std::variant<std::int64_t, std::string> value;
};

// What all slices of one instruction share, or all passes of one segment.
struct SliceLabel {
  std::string name;       // "gemm qkv"; "3B" if numbered, "(0F" of an overlapped pair
  bool numbered = false;  // the slice's microbatch is appended to the name: 3B17
  std::string second;     // ";7B" of a pair: appended behind, with the backward's microbatch and ")"
  std::string category;   // traffic of an instruction's stream, kind of a pass
  std::vector<TraceArgument> arguments;
};

struct TraceSlice {
  Picoseconds start = 0;
  Picoseconds duration = 0;  // may be 0
  Picoseconds wait = 0;
  Index label = 0;                      // into TraceEvents::labels
  std::int32_t microbatch = -1;         // -1: none
  std::int32_t second_microbatch = -1;  // of a pair's backward; -1: none
  Index arrow = no_index;               // into TraceEvents::arrows: the one that leaves or reaches it
};

// Slices in time order; they never overlap.
struct TraceThread {
  std::string name;
  std::vector<TraceSlice> slices;
};

// Values that hold from their time on, several series at once. values[sample x series count + series].
enum class TraceUnit : std::uint8_t { bytes, percent };
struct TraceCounter {
  std::string name;
  TraceUnit unit = TraceUnit::bytes;
  std::vector<std::string> series;
  std::vector<Picoseconds> times;  // non-decreasing
  std::vector<double> values;      // bytes are whole numbers
};

// "3B17", "(0F8;7B3)", "gemm qkv".
std::string slice_name(const SliceLabel& label, const TraceSlice& slice);

struct TraceProcess {
  std::string name;
  std::vector<TraceThread> threads;  // in the order to be shown
  std::vector<TraceCounter> counters;
};

struct SlicePlace {
  Index process = 0, thread = 0, slice = 0;
};

// From a SEND to its RECV. The times lie strictly inside the two slices as viewers see them (whole
// nanoseconds), and departs <= arrives; slices shorter than 2 ns have no inside: their start stands for it.
struct TraceArrow {
  SlicePlace from, to;
  std::int64_t departs_ns = 0, arrives_ns = 0;
};

struct TraceEvents {
  std::string job;
  std::vector<TraceArgument> facts;  // of the run as a whole
  Picoseconds step = 0;
  std::vector<SliceLabel> labels;
  std::vector<TraceProcess> processes;  // recorded GPUs by pipeline rank, then the links
  std::vector<TraceArrow> arrows;
};

// One process per rank that has lanes or passes. Its threads are the streams in use in the plan's order,
// compute first. With lanes, the passes have a thread of their own above; without, they are the slices of the
// compute thread. An arrow that would point back in time (an end of a transfer in the wrong order) is left
// out. The slice of an overlapped pair has the forward's stage, chunk and microbatch as arguments and, with
// backward_ before their names, those of the backward; an instruction in it has those of its own pass. Plans
// of two directions name each chunk's. The timeline is one of this plan, with times from 0.
TraceEvents trace_events(const Plan& plan, const Timeline& timeline);

// Viewers count in whole nanoseconds. Rounding down keeps the order of any two moments, so slices that do not
// overlap still do not: duration in nanoseconds = whole(end) - whole(start), never whole(duration).
constexpr std::int64_t whole_nanoseconds(Picoseconds time) { return time / 1000; }
constexpr std::int64_t start_ns(const TraceSlice& slice) { return whole_nanoseconds(slice.start); }
constexpr std::int64_t end_ns(const TraceSlice& slice) {
  return whole_nanoseconds(slice.start + slice.duration);
}

}  // namespace simrun
