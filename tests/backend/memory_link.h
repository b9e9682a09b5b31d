#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/processes/link.h"

namespace simrun {

// Processes as threads of a test: frames go from queue to queue, late if asked, and not at all to or from a
// process that is cut off.
class FrameNetwork {
 public:
  explicit FrameNetwork(int processes)
      : queues_(static_cast<std::size_t>(processes)), cut_off_(static_cast<std::size_t>(processes)) {}

  std::chrono::milliseconds delay{0};
  std::unique_ptr<ProcessLink> link(int process) { return std::make_unique<Link>(*this, process); }
  void cut_off(int process) {
    const std::lock_guard lock(mutex_);
    cut_off_[static_cast<std::size_t>(process)] = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    Clock::time_point due;
    ProcessLink::Arrived arrived;
  };

  class Link final : public ProcessLink {
   public:
    Link(FrameNetwork& network, int process) : network_(network), process_(process) {}
    int process() const override { return process_; }
    int processes() const override { return static_cast<int>(network_.queues_.size()); }
    void send(int to, Frame frame) override {
      const std::lock_guard lock(network_.mutex_);
      if (network_.cut_off_[static_cast<std::size_t>(process_)]) return;
      if (network_.cut_off_[static_cast<std::size_t>(to)]) return;
      network_.queues_[static_cast<std::size_t>(to)].push_back(
          {Clock::now() + network_.delay, {process_, std::move(frame)}});
    }
    std::optional<Arrived> poll() override {
      const std::lock_guard lock(network_.mutex_);
      std::deque<UnderWay>& queue = network_.queues_[static_cast<std::size_t>(process_)];
      if (queue.empty() || queue.front().due > Clock::now()) return {};
      Arrived arrived = std::move(queue.front().arrived);
      queue.pop_front();
      return arrived;
    }
    bool sent_all() override { return true; }
    void leave() override {}

   private:
    FrameNetwork& network_;
    const int process_;
  };

  std::mutex mutex_;
  std::vector<std::deque<UnderWay>> queues_;  // by receiving process
  std::vector<bool> cut_off_;
};

}  // namespace simrun
