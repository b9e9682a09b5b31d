#pragma once

#include <cstdint>

namespace simrun {

// GNMT (Wu et al. 2016, arXiv 1609.08144): an LSTM encoder whose first layer runs in both directions, and an
// LSTM decoder that attends to it. ModelConfig has hidden_size and vocab_size; its num_layers is the sum of
// both stacks.
struct GnmtConfig {
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  bool share_embedding = false;  // one word table for both stacks
  bool operator==(const GnmtConfig&) const = default;
};

}  // namespace simrun
