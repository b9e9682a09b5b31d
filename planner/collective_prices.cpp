#include "planner/collective_prices.h"

#include <utility>

namespace simrun {

CollectivePrices::Price& CollectivePrices::price(const Mesh& mesh, Opcode opcode,
                                                 const std::vector<AxisId>& axes) {
  std::vector<std::int64_t> sizes;
  std::int64_t ranks = 1;
  for (const Axis& axis : mesh.axes) {
    sizes.push_back(axis.size);
    ranks *= axis.size;
  }
  Price* price = nullptr;
  {
    const std::lock_guard lock(mutex_);
    price = &known_[{std::move(sizes), opcode, axes}];
  }
  const std::lock_guard lock(price->mutex_);
  if (price->costs_) return *price;
  price->plan_.cluster = cluster_;
  price->plan_.stages.push_back({{{0, ranks}}, {mesh}});
  price->communication_.group.axes.assign(axes.begin(), axes.end());
  price->costs_.emplace(topology_, price->plan_, 0, opcode, price->communication_);
  return *price;
}

double CollectivePrices::Price::seconds(double bytes) {
  const std::lock_guard lock(mutex_);
  return to_seconds(costs_->together(bytes));
}

}  // namespace simrun
