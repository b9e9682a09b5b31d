#include "cli/interrupt_note.h"

#include <csignal>

namespace simrun {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void note_interrupt(int) { interrupted = 1; }

}  // namespace

InterruptNote::InterruptNote() : before_(std::signal(SIGINT, note_interrupt)) { interrupted = 0; }
InterruptNote::~InterruptNote() { std::signal(SIGINT, before_); }
bool InterruptNote::was_interrupted() const { return interrupted != 0; }

}  // namespace simrun
