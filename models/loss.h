#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/graph_builder.h"

// What every family's graph begins and ends with: data of the samples, and the loss.
namespace simrun {

// Indices (tokens, labels) of the microbatch. Every rank can read all of its samples, so the data need no
// exchange: `whole`, where it has one, is a dimension that no rank reads only a part of. `constants`: how
// far ahead of its place in the text an index is read, and how many kinds there are (0: words).
TensorId add_indices(GraphBuilder& graph, const std::string& name, std::vector<DimensionId> dims,
                     std::optional<DimensionId> whole = std::nullopt, std::vector<double> constants = {});

// Cross entropy of logits [rows, classes] and labels [rows]. The row maximum and the sums are separate
// operators, so that their all-reduces over split classes follow from layouts. `prefix` names a second loss.
struct Scored {
  TensorId logits = 0;
  TensorId labels = 0;
  double weight = 1;  // in the model's loss
};
void add_cross_entropy(GraphBuilder& graph, const std::string& prefix, Scored scored,
                       const std::vector<DimensionId>& rows);

// Logits as the loss reads them: cast to fp32 unless the job computes in it.
TensorId add_fp32(GraphBuilder& graph, const std::string& name, TensorId logits,
                  const std::vector<DimensionId>& dims, Dtype precision);

// Logits of rows y [batch, sequence, hidden] by a table [vocab, hidden], and the loss of every token.
struct TokenDims {
  DimensionId batch = 0, sequence = 0, vocab = 0;
};
void add_token_loss(GraphBuilder& graph, TensorId y, TensorId table, TokenDims dims);

}  // namespace simrun
