#pragma once

#include <csignal>
#include <optional>

namespace simrun {

// SIGTERM, SIGINT and SIGHUP as news to be asked for instead of the end of the process: blocked in the thread
// that makes this object and in those that it starts from then on. Make it before any library starts threads.
class TerminationSignals {
 public:
  TerminationSignals();
  ~TerminationSignals();  // in the same thread; what is still pending then takes effect
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // The next one that has come ("SIGTERM"), or nullptr. Any thread may ask.
  const char* take();

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

}  // namespace simrun
