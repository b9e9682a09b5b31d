#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sim/flow_engine.h"
#include "sim/worker.h"

namespace simrun {

// Numbers found in a worker process, where a FlowEngine can live.
inline std::vector<double> in_worker(const std::function<std::vector<double>()>& task) {
  const std::string bytes = run_in_worker([&task] {
    const std::vector<double> numbers = task();
    std::string result(numbers.size() * sizeof(double), '\0');
    if (!numbers.empty()) std::memcpy(result.data(), numbers.data(), result.size());
    return result;
  });
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

struct TestFlow {
  std::vector<LinkNumber> links;
  double bytes = 0;
  double date = 0;
};

struct TestNetwork {
  std::vector<double> bandwidths;  // by link
  std::vector<TestFlow> flows;
  std::vector<double> ceilings = {};  // numbered behind the links
};

inline std::vector<double> run_flows(FlowEngine& engine, const TestNetwork& network) {
  for (const double bandwidth : network.bandwidths) engine.link(bandwidth);
  for (const double most : network.ceilings) engine.ceiling(most);
  for (std::size_t f = 0; f < network.flows.size(); ++f)
    engine.start(network.flows[f].links, network.flows[f].bytes, network.flows[f].date, f);
  std::vector<double> ends(network.flows.size(), -1);
  engine.run([&](FlowNumber flow) { ends[flow] = engine.now(); }, [] {});
  return ends;
}

// The date at which each flow ends.
inline std::vector<double> ends_of(FlowSolver solver, const TestNetwork& network) {
  return in_worker([solver, &network] {
    FlowEngine engine(solver);
    return run_flows(engine, network);
  });
}

}  // namespace simrun
