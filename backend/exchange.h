#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/rank_memory.h"
#include "backend/transport.h"

namespace simrun {

// The ranks of a communication group in its order: pipeline ranks first, then its axes, the first outermost.
std::vector<RankPlace> members_of(const Plan& plan, const Group& group, const RankPlace& place);

MessageTag tag_of(const Plan& plan, const Instruction& what, std::int32_t microbatch);

// Whether anything is at the other end of a SEND or RECV: between unlike pipeline ranks some have no partner.
bool has_peer(const Communication& communication, const RankPlace& place);
// The rank there. REQUIRES: has_peer.
RankPlace peer_of(const Plan& plan, const Communication& communication, const RankPlace& place);

// Runs one communication instruction of a rank over a transport. Messages are what two members' parts have in
// common; sums add in the group's order, whatever arrives first, so their bits do not depend on timing.
class RankExchange {
 public:
  RankExchange(const Plan& plan, Device& device, Transport& transport, const RankPlace& place)
      : plan_(plan),
        device_(device),
        transport_(transport),
        place_(place),
        own_(device.connect(plan, place, transport)) {}

  // Throws TransportError, and ExecutionError where a partner sent another number of elements.
  using Call = ExchangeCall;
  void run(const Call& call);

  // The rows of an experts' buffer behind the exchange (or the copy of a part) of another; its members tell
  // one another.
  struct RowsCall {
    const Instruction& what;
    const Argument& input;
    const Buffer& output;
    std::int32_t microbatch = 0;
    std::string of;
  };
  SharedRows rows_behind(const RowsCall& call);

  // The rows of an experts' buffer that a RECV is about to bring, as its SEND told; called once per such
  // output, in their order, before run(). Nothing from a device without memory.
  SharedRows rows_announced(const Instruction& what, const Buffer& output, std::int32_t microbatch,
                            const std::string& of);

 private:
  void announce_rows(const Call& call, std::int64_t to);
  void collect(const Call& call, std::size_t operand);
  void collect_rows(const Call& call, std::size_t operand);
  void all_reduce(const Call& call, std::size_t operand);
  // A range of the elements of flat operands.
  struct Sum {
    const Call& call;
    const std::vector<RankPlace>& members;
    const Argument &input, &output;
    DimPart range;
  };
  void sum_in_pieces(const Sum& sum);
  void broadcast(const Call& call, std::size_t operand);
  void push(const Call& call);
  void pull(const Call& call);
  void send(const Call& call, std::int64_t to, const Argument& from, const TensorPart& part);
  Message receive(const Call& call, const RankPlace& from, std::int64_t elements);

  const Plan& plan_;
  Device& device_;
  Transport& transport_;
  const RankPlace place_;
  const std::unique_ptr<DeviceExchange> own_;  // of the device; nullptr: messages
};

}  // namespace simrun
