#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of LLaVA (Liu et al. 2023, arXiv 2310.03744): a vision transformer, a projector of two
// linear layers with a GELU between them, and a decoder in whose sequence the projected features stand.
//
//   vision_*      CLIP's tower: patches, class token, positions, a norm, layers that attend to both sides.
//                 Layers 0 to T - 1. Those behind the one whose output is read, and the last norm, are run,
//                 as Hugging Face's code does, and discarded.
//   projector_*   features [images, patches, vision hidden] to [images, patches, hidden]
//   merge_images  images' rows and the text's word embeddings: [batch, sequence, hidden]. Where in the
//                 sequence the images stand costs nothing.
//   decoder       layers T to T + L - 1, head and loss over every position; labels decide which count
//
// The projector, the word embedding and the merge belong to layer T, so that a pipeline border within or
// behind the tower carries the tower's rows alone. Sequence parallelism splits the decoder's sequence; the
// tower's and the projector's rows are whole on every tensor-parallel rank, and the word embedding is summed
// before the merge, as in Megatron-LM (pretrain_vlm.py: "Disabling Sequence parallelism in Vision
// Transformer", LLaVAModel's scatter_embedding_sequence_parallel=False).
//
// Dimensions as in models/decoder.h, once for the decoder and once more, under the same names, for the tower,
// whose batch counts images.
Graph vision_language_graph(const Job& job);

}  // namespace simrun
