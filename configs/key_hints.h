#pragma once

#include <string>
#include <vector>

namespace simrun {

// What to write instead of an unknown key of a section: the section's own name for it where models' configs
// call it by several, the section it belongs to, our name for what another tool calls so, a near spelling
// here or elsewhere, up to three keys that share its words, which keys there are, where they are few, or a
// key elsewhere that has the same words. "" when nothing is known.
std::string hint_for_unknown_key(const std::string& section, const std::string& key,
                                 const std::vector<std::string>& known_keys);

}  // namespace simrun
