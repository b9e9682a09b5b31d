#pragma once

#include <optional>

namespace simrun {

constexpr int default_serve_port = 8000;

// The command line of simrun --serve.
struct ServeFlags {
  bool serve = false;
  std::optional<int> port;  // 0: any that is free
};

}  // namespace simrun
