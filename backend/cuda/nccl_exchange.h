#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/nccl_schedule.h"
#include "backend/cuda/nccl_table.h"
#include "backend/device.h"
#include "backend/transport.h"

namespace simrun::cuda {

// What the exchange needs of its rank's device. All is put on one stream, in the order of the calls.
struct NcclDevice {
  void* stream = nullptr;
  std::chrono::milliseconds limit{60'000};  // for making a communicator or an ncclGroup
  std::function<void*(std::int64_t bytes)> allocate;
  std::function<void(void* memory)> free;
  std::function<void(const Argument& from, const TensorPart& part, void* to)> pack;
  std::function<void(const void* from, const Argument& to, const TensorPart& part, Combine combine)> unpack;
  std::function<std::int64_t(Dtype dtype)> element_bytes;
  std::function<int(Dtype dtype)> type_of;  // as stored
  // Remembers what was put on the stream last, by its words; waits and says the first of these that has not
  // ended then (empty: none).
  std::function<void(const std::string& of)> mark;
  std::function<std::string(std::chrono::milliseconds patience)> first_pending;
};

// A rank's communication by NCCL: the calls of nccl_schedule.h. The communicators are made at once, in the
// plan's order; their ids go over the transport.
class NcclExchange final : public DeviceExchange {
 public:
  struct Rank {
    const Plan& plan;
    const RankPlace& place;
    Transport& transport;
  };
  // Throws std::runtime_error with NCCL's words, and TransportError.
  NcclExchange(const Rank& rank, const NcclTable& table, NcclDevice device);
  // Waits for what is still on its way, but for no partner that may never come: aborts where something failed
  // or the limit is over.
  ~NcclExchange() override;

  void run(const ExchangeCall& call) override;

 private:
  // A call with its memory.
  struct Bound {
    NcclCall call;
    const void* from = nullptr;
    void* to = nullptr;
  };
  // What is left to do when the calls are on the stream.
  struct Arriving {
    const void* memory = nullptr;
    const Argument* to = nullptr;
    TensorPart part;
    Combine combine = Combine::assign;
  };
  struct Group {
    NcclCommunicator communicator;
    std::vector<Bound> calls;
    std::vector<Arriving> arriving;
    std::vector<void*> staging;  // to be freed
  };

  void make(const NcclCommunicator& communicator, std::int64_t number, Transport& transport);
  void bind(const ExchangeCall& call, const NcclMove& move, Group& group);
  void bind_transfer(const ExchangeCall& call, const NcclMove& move, Group& group);
  void bind_whole(const ExchangeCall& call, const NcclMove& move, Group& group);
  void bind_pieces(const ExchangeCall& call, const NcclMove& move, Group& group);
  void* stage(Group& group, Dtype dtype, std::int64_t count);
  void issue(const Group& group, const std::string& of);
  int call_table(const Bound& bound, void* communicator) const;
  void finish(const Group& group);
  // Throws for a result that is neither success nor, as long as it does not last, in progress.
  void check(int result, void* communicator, const std::string& of) const;
  std::string ranks_text(const NcclCommunicator& communicator) const;

  const Plan& plan_;
  const RankPlace place_;
  const NcclTable& table_;
  const NcclDevice device_;
  std::map<NcclCommunicator, void*> communicators_;
  std::vector<Group> held_;  // SENDs along rings
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace simrun::cuda
