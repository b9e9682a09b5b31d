#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace simrun {

// What two ranks agree on before a message is one: messages of one tag between two ranks arrive in the order
// in which they were sent.
struct MessageTag {
  std::uint32_t channel = 0;
  std::int64_t instance = 0;                            // microbatch and slice
  auto operator<=>(const MessageTag&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Message {
  std::int64_t elements = 0;
  std::vector<std::byte> payload;
};

// Ranks, plan or processes do not fit together. Whatever else ends a rank is a crash.
class Disagreement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Ranks disagree, one has died, or none can go on. `what` names them.
class TransportError : public Disagreement {
 public:
  using Disagreement::Disagreement;
};

// The transport seam: messages from one rank to all others. Collectives are made of these
// (backend/exchange.h), so that every transport gives the same bits.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Takes the message and returns at once.
  virtual void send(std::int64_t to, const MessageTag& tag, Message message) = 0;
  // The oldest message of the tag. Waits for it; throws TransportError where it cannot come any more, or did
  // not within the transport's limit. `waiting_for`: what this rank would say that it waits for.
  virtual Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) = 0;
};

}  // namespace simrun
