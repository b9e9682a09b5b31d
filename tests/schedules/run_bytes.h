#pragma once

#include <cstdint>
#include <map>

#include "schedules/plan.h"

namespace simrun {

// Of the buffers that live for ever on a rank, views not counted.
inline std::map<Category, std::int64_t> run_bytes(const Plan& plan) {
  std::map<Category, std::int64_t> bytes;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::run) bytes[buffer.category] += buffer.bytes();
  return bytes;
}

}  // namespace simrun
