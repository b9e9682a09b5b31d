// GNMT (Wu et al. 2016, arXiv 1609.08144).
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_gnmt(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  GnmtConfig gnmt;
  gnmt.encoder_layers = section.integer("encoder_layers", limits::layers);
  gnmt.decoder_layers = section.integer("decoder_layers", limits::layers, gnmt.encoder_layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  gnmt.share_embedding = section.boolean("share_embedding", false);
  model.num_layers = gnmt.encoder_layers + gnmt.decoder_layers;
  model.position_embedding = PositionEmbedding::none;
  read_hidden_dropout(keys, "dropout", 0.2);
  keys.reading.record("training.attention_dropout", "0", "default");
  model.family = gnmt;
}

}  // namespace simrun
