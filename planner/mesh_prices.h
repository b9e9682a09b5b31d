#pragma once

#include <map>
#include <utility>
#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "planner/collective_prices.h"
#include "schedules/layout.h"

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
  // Graph, mesh and the prices, which are those of the job's cluster, must outlive it.
  MeshPrices(const Job& job, const Graph& graph, const DeviceMesh& mesh, CollectivePrices& collectives);
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
  CollectivePrices& collectives_;
  std::map<std::pair<Opcode, std::vector<AxisId>>, CollectivePrices::Price*> known_;
};

}  // namespace simrun
