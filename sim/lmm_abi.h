#pragma once

// Those members of SimGrid's max-min solver that its library exports and its packages have no header for,
// alike from 3.32 to 4.1. cmake/checks/lmm_check.cpp finds out whether the installed library is as it says
// here.
#include <simgrid/forward.h>

#include <cstddef>
#include <string_view>

namespace simgrid::kernel::lmm {

class Constraint {
 public:
  double get_usage() const;
  Constraint() = delete;
  ~Constraint() = delete;
};

class System {
 public:
  static System* build(std::string_view solver, bool selective_update);
  Constraint* constraint_new(resource::Resource* resource, double bound);
  Variable* variable_new(resource::Action* action, double penalty, double bound, std::size_t constraints);
  void expand(Constraint* constraint, Variable* variable, double weight, bool force_creation);
  System() = delete;
  ~System() = delete;  // the library's own, which is virtual, does it
};

}  // namespace simgrid::kernel::lmm
