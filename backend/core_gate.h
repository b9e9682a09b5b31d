#pragma once

#include <condition_variable>
#include <mutex>

namespace simrun {

// Cores that this process may run on: those of its affinity mask.
int available_cores();

// Lets as many rank threads work at once as there are cores. A thread holds one permit while it works and
// gives it back while it waits for another rank, so that ranks beyond the cores do not slow one another down
// in the middle of an instruction, and the time of an instruction is its own.
class CoreGate {
 public:
  explicit CoreGate(int permits) : free_(permits) {}

  void enter();
  void leave();

  // Holds a permit for as long as it lives.
  class Hold {
   public:
    explicit Hold(CoreGate& gate) : gate_(gate) { gate_.enter(); }
    ~Hold() { gate_.leave(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    CoreGate& gate_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int free_;
};

}  // namespace simrun
