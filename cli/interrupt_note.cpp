#include "cli/interrupt_note.h"

#include <csignal>

namespace simrun {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// What is being simulated is finished first, which may take long: Ctrl-C once more ends the program.
void note_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

InterruptNote::InterruptNote() : before_(std::signal(SIGINT, note_interrupt)) { interrupted = 0; }
InterruptNote::~InterruptNote() { std::signal(SIGINT, before_); }
bool InterruptNote::was_interrupted() const { return interrupted != 0; }

}  // namespace simrun
