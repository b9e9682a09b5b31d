#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "sim/network.h"

namespace simrun {

// What ends at a later date: an exchange or a copy, or a compute kernel as it was foreseen.
struct InFlight {
  Index waiting = no_index;  // streams at the meeting
  Picoseconds start = 0;
  bool communicates = true;
  Index computing = no_index;  // the GPU of a compute kernel
  std::uint64_t foresight = 0;
};

// Dates to come, in order; of equal ones the first that was set comes first. Where there is a network its
// calendar has them, beside the ends of its transfers.
class AlarmClock {
 public:
  explicit AlarmClock(Network* network) : network_(network) {}

  // For what a network ends.
  Index ticket(const InFlight& flight) {
    if (free_tickets_.empty()) {
      in_flight_.push_back(flight);
      return static_cast<Index>(in_flight_.size() - 1);
    }
    const Index number = free_tickets_.back();
    free_tickets_.pop_back();
    in_flight_[number] = flight;
    return number;
  }

  void set(Picoseconds at, const InFlight& flight) {
    if (network_ != nullptr)
      network_->alarm(at, ticket(flight));
    else
      alarms_.emplace(at, ++order_, ticket(flight));
  }

  // Until nothing is to come; `fire` may set alarms and post transfers.
  void run(const std::function<void(const InFlight& flight, Picoseconds now)>& fire) {
    const auto take = [&](Index number, Picoseconds now) {
      const InFlight flight = in_flight_[number];
      free_tickets_.push_back(number);
      fire(flight, now);
    };
    if (network_ != nullptr) network_->run(take);
    while (!alarms_.empty()) {
      const auto [date, order, number] = alarms_.top();
      alarms_.pop();
      take(number, date);
    }
  }

 private:
  using Alarm = std::tuple<Picoseconds, std::uint64_t, Index>;  // date, order, ticket
  Network* const network_;
  std::vector<InFlight> in_flight_;  // by ticket
  std::vector<Index> free_tickets_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::uint64_t order_ = 0;
};

}  // namespace simrun
