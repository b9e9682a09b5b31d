#include "schedules/flat_buffer.h"

#include <algorithm>
#include <utility>

namespace simrun {

Index add_flat_buffer(Plan& plan, const std::string& name, Category category, Dtype dtype,
                      std::int64_t elements) {
  Buffer buffer;
  buffer.name = name;
  buffer.category = category;
  buffer.scope = Scope::run;
  buffer.dtype = dtype;
  const auto flat = std::find(plan.dimension_names.begin(), plan.dimension_names.end(), "elements");
  buffer.dims = {{static_cast<std::uint16_t>(flat - plan.dimension_names.begin()), -1, elements}};
  plan.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan.buffers.size() - 1);
}

}  // namespace simrun
