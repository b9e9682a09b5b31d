#include "visualizer/server_text.h"

#include <fmt/format.h>

#include <array>

#include "visualizer/quantity.h"

namespace simrun {

const char* to_string(ServerMode mode) {
  static constexpr std::array<const char*, 3> names = {"synchronous", "asynchronous", "bounded_staleness"};
  return names[static_cast<std::size_t>(mode)];
}

static const char* placement(const ParameterServers& servers) {
  return servers.dedicated ? "dedicated" : "colocated";
}

std::string servers_text(const ParameterServers& servers) {
  std::string mode = to_string(servers.mode);
  if (servers.mode == ServerMode::bounded_staleness) mode += fmt::format(" {}", servers.staleness);
  if (servers.delay > 0)
    mode +=
        fmt::format(" (weights lack {})",
                    servers.delay == 1 ? "a step's update" : fmt::format("{} steps' updates", servers.delay));
  return fmt::format("{} {}, {}, {} of weights each", servers.servers, placement(servers), mode,
                     memory_text(servers.bytes_per_server));
}

std::string servers_json(const ParameterServers& servers) {
  return fmt::format(
      R"({{"servers": {}, "placement": "{}", "mode": "{}", "staleness": {}, "delay": {}, "bytes_per_server": {}}})",
      servers.servers, placement(servers), to_string(servers.mode), servers.staleness, servers.delay,
      servers.bytes_per_server);
}

}  // namespace simrun
