#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of BERT as it is pre-trained (Devlin et al. 2019, arXiv 1810.04805, section 3.1;
// Hugging Face's BertForPreTraining): word, position and segment embeddings behind one norm, post-norm layers
// that attend to both sides, and two heads.
//
//   masked LM       every token: dense h x h, GELU, norm, the tied word table with a bias per word
//   next sentence   the first token: dense h x h, tanh (the pooler), two classes
//
// Every token's loss is computed, as both Hugging Face's and Megatron-LM's code do; masking changes labels
// only. Dimensions as in models/decoder.h; `transform` and `pooled` are the dense layers' outputs.
Graph bert_graph(const Job& job);

}  // namespace simrun
