#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/processes/roll.h"
#include "backend/run_failure.h"
#include "backend/thread_fabric.h"

// What processes of a run say to each other (backend/processes/group.h): the kinds of frames and their
// payloads.
namespace simrun {

enum class FrameKind : std::uint32_t {
  hello,      // each to each: who it is
  beat,       // each to each: it is there
  data,       // a message from one rank to another
  state,      // to process 0: what its ranks do; head.instance: the wave that it answers, 0: unasked
  ask,        // from process 0: for the state; head.instance: the wave
  agreement,  // to process 0: what it is about to run
  start,      // from process 0: all agree
  done,       // to process 0: its ranks have ended well, and what they tell
  finished,   // from process 0: all ranks have
  shared,     // from process 0: bytes for all
  failure,    // to process 0: why the run must end
  end,        // to all: that they part, and why
};

std::vector<std::byte> to_bytes(const ProcessIdentity& identity);
ProcessIdentity identity_from(const std::vector<std::byte>& bytes);

std::vector<std::byte> bytes_from(std::string_view text);
std::string text_from(const std::vector<std::byte>& bytes);

std::vector<std::byte> to_bytes(const RunFailure& failure);
RunFailure failure_from(const std::vector<std::byte>& bytes);

// Without the failure, which is told at once.
std::vector<std::byte> to_bytes(const ThreadFabric::State& state);
ThreadFabric::State state_from(const std::vector<std::byte>& bytes);

}  // namespace simrun
