#pragma once

#include <map>
#include <vector>

#include "schedules/chunk_code.h"

namespace simrun {

// Tensors that ranks exchange beside one of the same rows (Tensor::travels_with): their operands are further
// ones of its exchange, as those of one kernel of DeepEP are (deepseek-ai/DeepEP, deep_ep/buffer.py: dispatch
// and combine take topk_weights beside x).

// Makes the last step, a conversion, part of the one before it that converts the other tensor alike, if there
// is one. REQUIRES: what it converts was written before that one.
void join_exchange(const ChunkContext& context, const ChunkCode& code, std::vector<CodeStep>& steps);

// Gradients that are known before that of the tensor beside which theirs is exchanged.
class WaitingGradients {
 public:
  explicit WaitingGradients(const Graph& graph) : graph_(graph) {}

  // Whether a gradient that is known is to wait for one that is not. `expected`: tensors that get gradients.
  bool waits(TensorId tensor, const std::map<TensorId, ValueId>& known,
             const std::map<TensorId, std::size_t>& expected);
  // Those that waited for this one.
  std::vector<TensorId> released(TensorId tensor);

 private:
  const Graph& graph_;
  std::map<TensorId, std::vector<TensorId>> waiting_;
};

}  // namespace simrun
