#pragma once

#include <cstdint>
#include <functional>

namespace simrun {

// What is going on, and how much of it is done (of `all`; 0: it is not known); false stops the search. Called
// on the searching thread. May be empty.
using PlanProgress = std::function<bool(const char* phase, std::int64_t done, std::int64_t all)>;

}  // namespace simrun
