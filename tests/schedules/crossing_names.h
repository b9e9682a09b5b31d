#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedules/lower_model.h"

namespace simrun {

// The tensors that stage `border` hands on to the next one.
inline std::vector<std::string> crossing_names(const LoweredModel& model, std::size_t border) {
  std::vector<std::string> names;
  for (const Crossing& crossing : model.partition.borders[border])
    names.push_back(model.graph.tensors[crossing.tensor].name);
  return names;
}

}  // namespace simrun
