#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simrun {

// What goes from one process to another: a few numbers and any bytes. What they mean is the fabric's affair
// (backend/processes/frames.h).
struct Frame {
  struct Head {
    std::uint32_t kind = 0, channel = 0;
    std::int64_t from = 0, to = 0, instance = 0, elements = 0;
    std::int64_t bytes = 0;  // of the payload
  };
  Head head;
  std::vector<std::byte> payload;
};

// The seam between processes of one run: whole frames from each to each, in the order of sending between any
// two. One thread at a time may call it. No call waits for another process, but leave().
class ProcessLink {
 public:
  virtual ~ProcessLink() = default;
  ProcessLink() = default;
  ProcessLink(const ProcessLink&) = delete;
  ProcessLink& operator=(const ProcessLink&) = delete;

  virtual int process() const = 0;  // this one's number, from 0
  virtual int processes() const = 0;
  // Takes the frame and returns at once. Throws TransportError where the library says why it cannot.
  virtual void send(int to, Frame frame) = 0;
  struct Arrived {
    int from = 0;
    Frame frame;
  };
  // The next frame that is complete, or nothing yet.
  virtual std::optional<Arrived> poll() = 0;
  // Whether everything sent has left this process.
  virtual bool sent_all() = 0;
  // The last call, by all processes: waits until all have called it.
  virtual void leave() = 0;
};

}  // namespace simrun
