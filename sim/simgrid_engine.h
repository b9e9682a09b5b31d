#pragma once

#include <simgrid/forward.h>

namespace simrun {

// SimGrid's engine, with logging off, its signal handlers removed and dates to 1 ps. It lives until the
// process ends: SimGrid allows one, its clock cannot be reset, and taking it down with flows alive crashes.
// Throws std::logic_error if there is one.
simgrid::s4u::Engine& simgrid_engine();

}  // namespace simrun
