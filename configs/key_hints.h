#pragma once

#include <string>
#include <vector>

namespace simrun {

// What to write instead of an unknown key of a section: a near spelling, the section it belongs to, our name
// for what another tool calls so, or which keys there are, where they are few. "" when nothing is known.
std::string hint_for_unknown_key(const std::string& section, const std::string& key,
                                 const std::vector<std::string>& known_keys);

}  // namespace simrun
