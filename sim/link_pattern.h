#pragma once

#include <string_view>

namespace simrun {

// Whether a link's name is what a pattern says: * stands for any characters, also none, ? for just one.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace simrun
