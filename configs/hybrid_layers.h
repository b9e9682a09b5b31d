#pragma once

#include <string>
#include <vector>

#include "configs/load_model_keys.h"

namespace simrun {

// A key whose characters are the layers of a hybrid model: * attention, - an MLP, E experts, M Mamba-2
// (Megatron-LM, megatron/core/ssm/mamba_hybrid_layer_allocation.py, class Symbols). The experts are read
// before it. A mistake is reported at its character.
class HybridLayers {
 public:
  HybridLayers(const char* key, const ModelKeys& keys);
  // The same as a list of words: attention, mlp, moe, mamba (Hugging Face's layers_block_type).
  static HybridLayers of_words(const char* key, const ModelKeys& keys, std::vector<std::string> fallback);

  bool is_readable() const { return is_readable_; }
  bool has_mamba() const;
  void read();          // the model's own layers
  void read_further();  // those that predict further tokens

 private:
  HybridLayers(const char* key, std::string pattern, bool is_list, const ModelKeys& keys);
  std::vector<LayerKind> kinds() const;
  bool are_symbols();  // reports what is none
  bool is_symbol(std::size_t at);
  void refused(std::size_t at, std::string message, std::string hint);

  const char* key_;
  std::string pattern_;
  bool is_list_;
  const ModelKeys& keys_;
  bool has_experts_;
  bool is_readable_ = false;
};

// The sizes of Mamba-2 layers: the keys of a family, and what holds where they are not written (0: they are
// required).
struct MambaKeys {
  const char *state, *head_dim, *groups, *heads;
  std::int64_t state_default = 0, head_dim_default = 0, groups_default = 0;
  std::int64_t width_default = 0;  // heads x head_dim
};
void read_mamba(const MambaKeys& names, const ModelKeys& keys);

}  // namespace simrun
