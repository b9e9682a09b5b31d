#pragma once

#include <string>

#include "schedules/timeline.h"

namespace simrun {

// A Timeline as bytes for another process of the same program on the same machine; not a file format.
// from_bytes throws std::runtime_error if they are cut short or too many.
std::string to_bytes(const Timeline& timeline);
Timeline timeline_from_bytes(const std::string& bytes);

}  // namespace simrun
