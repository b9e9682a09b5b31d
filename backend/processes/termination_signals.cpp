#include "backend/processes/termination_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace simrun {

TerminationSignals::TerminationSignals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ours, signal);
  pthread_sigmask(SIG_BLOCK, &ours, &before_);
  descriptor_ = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
}

TerminationSignals::~TerminationSignals() {
  if (descriptor_ >= 0) close(descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

const char* TerminationSignals::take() {
  signalfd_siginfo info{};
  if (descriptor_ < 0 || read(descriptor_, &info, sizeof info) != sizeof info) return nullptr;
  switch (info.ssi_signo) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    default: return "SIGHUP";
  }
}

}  // namespace simrun
