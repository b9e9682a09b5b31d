#pragma once

#include <string>
#include <vector>

#include "planner/alpa_graph.h"
#include "planner/mesh_prices.h"
#include "planner/parameter_state.h"
#include "schedules/chunk_code.h"

namespace simrun {

struct OperatorCost {
  double seconds = 0;  // per microbatch
  double static_bytes = 0, activation_bytes = 0;
  double exchange_seconds = 0;  // per microbatch: of what data-parallel ranks exchange, hidden or not
};

// The numbers of a StageGraph, one operator or pair of neighbours at a time.
class AlpaCosts {
 public:
  // `stage` has graph, mesh and axes; its strategies are read by edge_costs(). It and the prices must outlive
  // this.
  AlpaCosts(const Job& job, const StageShape& shape, const StageGraph& stage, CollectivePrices& collectives);

  // Equal for operators whose costs are.
  std::string key_of(std::size_t o) const;
  OperatorCost operator_cost(std::size_t o, const Layout& layout);
  // [strategies of writer][of reader], of the reader's inputs that the writer writes, or that are parameters
  // of both: those must lie alike and have their gradients summed over the same ranks.
  std::vector<double> edge_costs(std::size_t writer, std::size_t reader,
                                 const std::vector<std::size_t>& inputs);

 private:
  bool counts(const Operator& op, TensorId parameter) const;
  struct DataParallelSeconds {
    double taken = 0, exchanged = 0;
  };
  DataParallelSeconds data_parallel_seconds(const Operator& op, const Layout& layout,
                                            const OperatorSeconds& own);
  double kept_outputs(std::size_t o, const Layout& layout) const;
  Layout held(const Operator& writer, TensorId tensor, const Layout& layout) const;
  struct Use {
    TensorId tensor = 0;
    bool is_repeated = false;  // recompute reads it again
    bool is_read_backward = false, is_differentiated = false;
  };
  // How a reader's strategy wants a tensor, and leaves its gradient; what it computes beside a gather that is
  // repeated.
  struct Arrival {
    Layout wanted, gradient;
    double hidden_seconds = 0;
    bool operator==(const Arrival&) const = default;
  };
  Use use_of(std::size_t reader, std::size_t input) const;
  Arrival arrival(std::size_t reader, std::size_t input, const Use& use, const Layout& layout);
  double tensor_seconds(const Use& use, const Layout& held, const Arrival& arrival);

  Job job_;
  double microbatches_ = 1;
  bool hides_data_parallel_ = false;
  const StageGraph& stage_;
  MeshPrices prices_;
  ParameterState state_;
  std::vector<std::int32_t> region_of_;     // by operator: recompute region, -1: none
  std::vector<const Operator*> counts_at_;  // by tensor: the last reader of a parameter; null: every one
  std::vector<bool> is_read_backward_;      // by tensor: by an operator that does not compute it again
};

}  // namespace simrun
