#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "sim/bus_bandwidth.h"
#include "sim/collective_table.h"

namespace simrun {
namespace {

struct Published {
  std::string source, cluster, collective, algorithm;
  std::int64_t nodes = 0, gpus_per_node = 0, bytes = 0;
  double busbw = 0;  // GB/s
  bool held = false;
};

std::vector<Published> published_rows() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/nccl_busbw.csv");
  std::vector<Published> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("source,")) continue;
    std::vector<std::string> cells;
    std::istringstream words(line);
    for (std::string cell; std::getline(words, cell, ',');) cells.push_back(cell);
    REQUIRE(cells.size() == 9);
    rows.push_back({cells[0], cells[1], cells[2], cells[5], std::stoll(cells[3]), std::stoll(cells[4]),
                    std::stoll(cells[6]), std::stod(cells[7]), cells[8] == "yes"});
  }
  return rows;
}

Opcode opcode_of(const std::string& collective) {
  for (const Opcode opcode :
       {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all})
    if (to_string(opcode) == collective) return opcode;
  return Opcode::send;  // send_recv
}

// GB/s, from the time on idle links, which SimGrid's is to 1e-6 (test_collective_algorithms.cpp).
double predicted_busbw(const Published& row) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  options.overrides = {{"cluster.nodes", std::to_string(row.nodes)}};
  if (row.algorithm != "auto") options.overrides.push_back({"cluster.collectives.algorithm", row.algorithm});
  const CollectiveQuery query{
      load_cluster(SIMRUN_SOURCE_DIR "/tests/data/collectives/" + row.cluster + ".yaml", options),
      opcode_of(row.collective),
      {row.nodes},
      row.gpus_per_node,
      {row.bytes}};
  const Topology topology(query.cluster);
  const ExchangeFlows flows = collective_of(query, topology, row.nodes, row.bytes).flows;
  const auto bytes = static_cast<double>(row.bytes);
  return 1e-9 * bytes / lockstep_seconds(topology, {&flows, 1}, bytes) *
         bus_factor(query.opcode, static_cast<double>(row.nodes * row.gpus_per_node));
}

}  // namespace

TEST_CASE(
    "published bus bandwidths at 16 MiB and above: those that are said to be within 15 % are, no others") {
  int held = 0, large = 0;
  for (const Published& row : published_rows()) {
    const double predicted = predicted_busbw(row);
    const double error = std::abs(predicted / row.busbw - 1);
    CAPTURE(row.source, row.collective, row.nodes, row.gpus_per_node, row.bytes, row.busbw, predicted);
    const bool is_large = row.bytes >= 1 << 24;
    CHECK(row.held == (is_large && error <= 0.15));
    held += row.held;
    large += is_large;
  }
  CHECK(large == 61);
  CHECK(held == 45);
}

}  // namespace simrun
