#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/layout.h"
#include "sim/exchange_costs.h"
#include "sim/topology.h"

namespace simrun {

// What an operator in one layout costs, in seconds. What a kernel reads and writes is as large as the
// layout makes it on one rank, and priced by sim/kernel_cost.h.
struct OperatorSeconds {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
};

// Prices on the mesh of one stage: its devices are the first of the cluster. Those of the simulator, so that
// what is least here is least there, but for what overlaps.
class MeshPrices {
 public:
  // Graph and mesh must outlive it.
  MeshPrices(const Job& job, const Graph& graph, const DeviceMesh& mesh);
  MeshPrices(const MeshPrices&) = delete;
  MeshPrices& operator=(const MeshPrices&) = delete;

  OperatorSeconds operator_seconds(const Operator& op, const Layout& layout);

  // Of the conversions from one layout to another, one after the other. Infinite where there are none that
  // end there.
  double conversion_seconds(TensorId tensor, Dtype dtype, const Layout& from, const Layout& to);
  // The part of these that are gathers: they are repeated where the backward pass reads the tensor.
  double gather_seconds(TensorId tensor, Dtype dtype, const Layout& from, const Layout& to);

  // Of one collective; bytes as sim/collective_cost.h counts them.
  double collective_seconds(Opcode opcode, const std::vector<AxisId>& axes, double bytes);

  double local_elements(TensorId tensor, const Layout& layout) const;
  double local_bytes(TensorId tensor, Dtype dtype, const Layout& layout) const;
  // Of reading and writing so many bytes of the device's memory.
  double memory_seconds(double bytes) const;

 private:
  Index add_buffer(TensorId tensor, Dtype dtype, const Layout& layout);
  double kernel_seconds(Instruction& instruction);
  double step_seconds(const Conversion& step, double bytes_before, double bytes_after);

  const Graph& graph_;
  const DeviceMesh& mesh_;
  Dtype gradient_dtype_, main_gradient_dtype_;
  Plan plan_;
  Topology topology_;
  // A communication is kept where ExchangeCosts looks at it.
  struct PricedExchange {
    Communication communication;
    std::unique_ptr<ExchangeCosts> costs;
  };
  std::map<std::pair<Opcode, std::vector<AxisId>>, PricedExchange> exchanges_;
};

}  // namespace simrun
