#pragma once

#include <string>
#include <vector>

#include "schedules/chosen_collectives.h"

namespace simrun {

std::string chosen_collectives_table(const std::vector<ChosenCollective>& chosen);

// A list, without a line end after it.
std::string chosen_collectives_json(const std::vector<ChosenCollective>& chosen);

}  // namespace simrun
