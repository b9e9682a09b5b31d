#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// Megatron-LM's --hybrid-layer-pattern, "M*-|ME*E/*E/*E": a symbol per layer, | between pipeline segments,
// and behind each / the layers that predict one more token. What the symbols are is not judged. Source:
// megatron/core/models/hybrid/hybrid_layer_allocation.py, parse_hybrid_pattern and select_pipeline_segment.
struct HybridLayerPattern {
  std::string layers;                      // without separators
  std::vector<std::int64_t> stage_layers;  // by global virtual stage; one entry: it says nothing of stages
  std::string further;                     // the layers that predict one more token
  std::int64_t further_tokens = 0;         // how many are predicted so
  std::string problem, hint;               // empty, or why it cannot be read

  bool has_stages() const { return stage_layers.size() > 1; }
};

HybridLayerPattern parse_hybrid_layer_pattern(const std::string& text);

}  // namespace simrun
