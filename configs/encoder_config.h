#pragma once

#include <cstdint>

// What encoders and encoder-decoders have besides a ModelConfig's transformer layers.
namespace simrun {

// BERT (Devlin et al. 2019, arXiv 1810.04805): the layers attend to both sides; a masked-language-model head
// reads every token, and a next-sentence head the first one.
struct BertConfig {
  std::int64_t token_types = 2;    // rows of the segment table; 0: no table
  bool next_sentence_head = true;  // pooler and two-class head (Megatron-LM's bert_binary_head)
  bool operator==(const BertConfig&) const = default;
};

// T5 (Raffel et al. 2020, arXiv 1910.10683) and M6 (Lin et al. 2021, arXiv 2103.00823): encoder layers that
// attend to both sides, then decoder layers that attend to those before and to all of the encoder's output.
// ModelConfig::num_layers is the sum of both.
struct EncoderDecoderConfig {
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t relative_buckets = 0;     // rows of each stack's table of relative position biases; 0: none
  std::int64_t relative_distance = 128;  // beyond which all distances share a row
  bool operator==(const EncoderDecoderConfig&) const = default;
};

}  // namespace simrun
