#include "models/classifier.h"

#include "models/loss.h"

namespace simrun {

void add_classifier(GraphBuilder& graph, const Job& job, TensorId features, ClassifierDims dims) {
  const std::int64_t parts = job.parallelism.tensor_model_parallel_size;
  const std::int64_t classes = job.model.vocab_size;
  const DimensionId vocab = graph.dimension("vocab", classes, (classes + parts - 1) / parts * parts);
  const TensorId weight = graph.parameter("classifier_weight", {vocab, dims.features});
  const TensorId bias = graph.parameter("classifier_bias", {vocab});
  const TensorId logits = graph.activation("logits", {dims.batch, vocab});
  graph.add("logits", Opcode::gemm, Function::none, {features, weight, bias}, {logits});
  const TensorId wide = add_fp32(graph, "logits", logits, {dims.batch, vocab}, job.training.precision);
  add_cross_entropy(graph, "", {wide, add_indices(graph, "labels", {dims.batch})}, {dims.batch});
}

}  // namespace simrun
