#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "backend/processes/link.h"

namespace simrun {

// Frames over MPI: a head of fixed size, then the payload, if any, in pieces of at most one GiB (counts are
// ints), all by MPI_Isend. Messages between two processes do not overtake each other, so the receiver knows
// what comes next of each. Nothing waits for the other side: two blocking sends to each other hang from 4
// KiB.
class MpiLink final : public ProcessLink {
 public:
  MpiLink();
  ~MpiLink() override;

  int process() const override { return process_; }
  int processes() const override { return static_cast<int>(incoming_.size()); }
  void send(int to, Frame frame) override;
  std::optional<Arrived> poll() override;
  bool sent_all() override;
  void leave() override;

 private:
  struct Outgoing {
    Frame frame;
    std::vector<MPI_Request> requests;
  };
  // Frames on their way from one process, in their order: the last may still lack its payload.
  struct Incoming {
    Frame::Head head;
    MPI_Request next_head = MPI_REQUEST_NULL;
    std::deque<Outgoing> frames;  // whose payload is under way
  };
  void expect_head(int from);
  void start_payload(int from);
  void forget_sent();

  MPI_Comm world_ = MPI_COMM_NULL;
  int process_ = 0;
  std::vector<Incoming> incoming_;  // by process
  std::list<Outgoing> outgoing_;
  std::size_t next_ = 0;  // process to look at first, so that none is neglected
};

}  // namespace simrun
