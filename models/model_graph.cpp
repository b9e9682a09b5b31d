#include "models/model_graph.h"

#include "models/bert.h"
#include "models/decoder.h"
#include "models/encoder_decoder.h"
#include "models/gnmt.h"
#include "models/residual_net.h"
#include "models/vgg.h"
#include "models/vision_language.h"
#include "models/vision_transformer.h"

namespace simrun {
namespace {

struct Build {
  const Job& job;
  Graph operator()(const std::monostate&) const { return decoder_graph(job); }
  Graph operator()(const BertConfig&) const { return bert_graph(job); }
  Graph operator()(const VisionTransformerConfig&) const { return vision_transformer_graph(job); }
  Graph operator()(const ResNetConfig&) const { return residual_net_graph(job); }
  Graph operator()(const VggConfig&) const { return vgg_graph(job); }
  Graph operator()(const EncoderDecoderConfig&) const { return encoder_decoder_graph(job); }
  Graph operator()(const VisionLanguageConfig&) const { return vision_language_graph(job); }
  Graph operator()(const GnmtConfig&) const { return gnmt_graph(job); }
};

}  // namespace

Graph build_graph(const Job& job) { return std::visit(Build{job}, job.model.family); }

}  // namespace simrun
