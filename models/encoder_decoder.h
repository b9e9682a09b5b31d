#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of an encoder-decoder transformer: T5 (Raffel et al. 2020, arXiv 1910.10683, section 2.1)
// and M6 (Lin et al. 2021, arXiv 2103.00823). Layers 0 to E - 1 are the encoder's, which attend to both
// sides, then its final norm; layers from E on the decoder's, each with cross attention to the encoder's
// output between self attention and MLP. One word table serves both stacks; the decoder's embedding belongs
// to layer E, so that a pipeline stage in between need not pass it on. The encoder's output crosses every
// border behind layer E - 1.
//
// T5's table of relative position biases [buckets, heads] is read, and its gradient written, by the attention
// kernel of each stack's first layer; the kernels of the others read the same few kilobytes, which is not
// priced. Dimensions as in models/decoder.h; both stacks' lengths are named `sequence`.
Graph encoder_decoder_graph(const Job& job);

}  // namespace simrun
