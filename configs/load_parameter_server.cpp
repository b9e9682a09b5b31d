// Of the optimizer section: the parameter server that takes the place of the all-reduce.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

void read_staleness(SectionReader& section, Reading& reading, ParameterServerConfig& server) {
  section.ignore({"staleness"});
  if (server.mode == ServerMode::bounded_staleness) {
    server.staleness = section.integer("staleness", {0, limits::parallel.most});
    if (section.has("staleness") && server.staleness == 0 && reading.problems.empty())
      reading.problem(section.path_of("staleness"), "a staleness of 0 waits for every step",
                      "that is mode: synchronous.");
  } else if (section.has("staleness")) {
    section.integer("staleness", {0, limits::parallel.most});
    reading.problem(section.path_of("staleness"),
                    fmt::format("staleness means nothing with mode: {}",
                                server.mode == ServerMode::synchronous ? "synchronous" : "asynchronous"),
                    "it belongs to mode: bounded_staleness.");
  }
}

}  // namespace

void read_parameter_server(SectionReader& optimizer, Reading& reading, OptimizerConfig& config) {
  const ConfigNode* node = optimizer.section("parameter_server");
  if (node == nullptr) return;
  ParameterServerConfig server;
  SectionReader section(reading, node, optimizer.path_of("parameter_server"));
  if (section.is_no_map()) return;
  server.servers = section.integer("servers", limits::parallel);
  const std::string placement = section.word("placement", {{"colocated", "dedicated"}, {}}, "colocated");
  if (placement == "dedicated") server.placement = ServerPlacement::dedicated;
  const std::string mode =
      section.word("mode", {{"synchronous", "asynchronous", "bounded_staleness"}, {}}, "synchronous");
  if (mode == "asynchronous") server.mode = ServerMode::asynchronous;
  if (mode == "bounded_staleness") server.mode = ServerMode::bounded_staleness;
  if (mode.empty())
    section.ignore({"staleness"});
  else
    read_staleness(section, reading, server);
  section.finish();
  config.parameter_server = server;
}

}  // namespace simrun
