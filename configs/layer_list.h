#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/scope_pattern.h"

namespace simrun {

struct Reading;
class SectionReader;

// Some of a model's layers, counted from 0, as a job writes them: "0-5,9". Empty: none are named.
using LayerList = std::vector<ScopePattern::Layers>;

bool has_layer(const LayerList& list, std::int64_t layer);

// "0-5,9" of {0, 1, 2, 3, 4, 5, 9}. REQUIRES: ascending.
std::string layer_list_text(const std::vector<std::int64_t>& layers);

// The value of a key that may be left out; empty after a problem.
LayerList read_layer_list(SectionReader& section, Reading& reading, const std::string& key);

// Reports what is named at `path` and beyond the last of so many layers.
void check_layer_list(Reading& reading, const std::string& path, const LayerList& list, std::int64_t layers);

}  // namespace simrun
