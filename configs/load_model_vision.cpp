// Families that read images: ViT and ResNet by Hugging Face's keys, Wide-ResNet and VGG by ours.
#include <fmt/format.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

ImageConfig read_image(const ModelKeys& keys) {
  ImageConfig image;
  image.size = keys.section.integer("image_size", limits::image, 224);
  image.channels = keys.section.integer("num_channels", limits::heads, 3);
  image.classes = keys.section.integer("num_labels", limits::vocabulary, 1000);
  return image;
}

// A classifier's classes are split over tensor-parallel ranks as a vocabulary is.
void use_classes(ModelConfig& model, const ImageConfig& image) {
  model.vocab_size = image.classes;
  model.position_embedding = PositionEmbedding::none;
  model.causal_attention = false;
}

// He et al. 2016, table 1: bottleneck blocks from 50 layers on.
std::vector<std::int64_t> residual_blocks(std::int64_t layers) {
  if (layers == 50) return {3, 4, 6, 3};
  return layers == 101 ? std::vector<std::int64_t>{3, 4, 23, 3} : std::vector<std::int64_t>{3, 8, 36, 3};
}

void use_residual(ModelConfig& model, const ResNetConfig& resnet) {
  model.num_layers = 0;
  for (const ResidualStage& stage : resnet.stages) model.num_layers += stage.blocks;
  use_classes(model, resnet.image);
  model.family = resnet;
}

void check_depth(const ModelKeys& keys, const char* key, std::int64_t layers,
                 const std::vector<std::int64_t>& known) {
  if (layers == 0 || std::ranges::find(known, layers) != known.end()) return;
  keys.reading.problem(keys.section.path_of(key), fmt::format("there is no variant of {} layers", layers),
                       fmt::format("one of {}.", fmt::join(known, ", ")));
}

}  // namespace

void read_vit(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  VisionTransformerConfig vit;
  vit.image = read_image(keys);
  vit.patch_size = section.integer("patch_size", limits::image, 16);
  if (vit.patch_size > 0 && vit.image.size % vit.patch_size != 0)
    keys.reading.problem(
        section.path_of("patch_size"),
        fmt::format("image_size {} does not split into patches of {}", vit.image.size, vit.patch_size),
        fmt::format("{} does.", std::max<std::int64_t>(vit.image.size / vit.patch_size, 1) * vit.patch_size));
  model.num_layers = section.integer("num_hidden_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("intermediate_size", limits::width);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.activation = read_activation(keys, "hidden_act", gelu_words());
  model.qkv_bias = section.boolean("qkv_bias", true);
  model.projection_bias = model.mlp_bias = true;
  read_dropout(keys, {"attention_probs_dropout_prob", "hidden_dropout_prob"}, 0);
  derive_head_size(keys, "hidden_size", "");
  section.ignore({"encoder_stride", "pooler_act", "pooler_output_size"});
  read_norm_epsilon(keys, "layer_norm_eps", 1e-12);
  ignore_bookkeeping(keys);
  use_classes(model, vit.image);
  model.family = vit;
}

void read_resnet(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ResNetConfig resnet;
  resnet.image = read_image(keys);
  resnet.stem_channels = section.integer("embedding_size", limits::width, 64);
  const std::vector<std::int64_t> widths =
      section.integer_list("hidden_sizes", limits::width, {256, 512, 1024, 2048});
  const std::vector<std::int64_t> depths = section.integer_list("depths", limits::layers, {3, 4, 6, 3});
  const std::string layer = section.word("layer_type", {{"bottleneck", "basic"}, {}}, "bottleneck");
  resnet.stride_in_reduction = section.boolean("downsample_in_bottleneck", false);
  section.word("hidden_act", {{"relu"}, {"gelu", "silu", "selu"}}, "relu");
  refuse_if_true(keys, "downsample_in_first_stage");
  section.ignore({"out_features", "out_indices", "stage_names"});
  ignore_bookkeeping(keys);
  const bool read = !depths.empty() && !widths.empty();
  if (read && (depths.size() != widths.size() || depths.size() > 8))
    keys.reading.problem(section.path_of("depths"),
                         fmt::format("{} depths for {} hidden_sizes; at most 8 resolutions, one each",
                                     depths.size(), widths.size()));
  const bool bottleneck = layer != "basic";
  for (std::size_t s = 0; s < std::min(depths.size(), widths.size()); ++s) {
    if (bottleneck && widths[s] % 4 != 0)
      keys.reading.problem(section.path_of("hidden_sizes"),
                           fmt::format("{} channels are no multiple of a bottleneck's 4", widths[s]));
    const std::int64_t inner = bottleneck ? widths[s] / 4 : widths[s];
    resnet.stages.push_back({depths[s], bottleneck ? inner : 0, inner, widths[s]});
  }
  use_residual(keys.model, resnet);
}

// `widens`: both inner convolutions of a bottleneck (Zagoruyko and Komodakis 2016, torchvision's
// wide_resnet50_2), or the 3x3 alone (Alpa's benchmark model, Zheng et al. 2022, table 6).
void read_wide_resnet(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ResNetConfig resnet;
  resnet.image = read_image(keys);
  const std::int64_t layers = section.integer("num_layers", limits::layers);
  check_depth(keys, "num_layers", layers, {50, 101, 152});
  const std::int64_t base = section.integer("base_channels", limits::width, 64);
  const std::int64_t factor = section.integer("width_factor", {1, 1024});
  const std::string widens = section.word("widens", {{"bottleneck", "3x3"}, {}}, "bottleneck");
  resnet.stem_channels = base;
  std::int64_t channels = base;
  for (const std::int64_t blocks : residual_blocks(layers)) {
    resnet.stages.push_back(
        {blocks, widens == "3x3" ? channels : channels * factor, channels * factor, 4 * channels});
    channels *= 2;
  }
  use_residual(keys.model, resnet);
}

// Simonyan and Zisserman 2015, table 1: columns A, B, D and E.
void read_vgg(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  VggConfig vgg;
  vgg.image = read_image(keys);
  const std::int64_t layers = section.integer("num_layers", limits::layers);
  check_depth(keys, "num_layers", layers, {11, 13, 16, 19});
  vgg.wide_features = section.integer("wide_features", limits::width, 4096);
  if (vgg.image.size > 0 && vgg.image.size % 32 != 0)
    keys.reading.problem(section.path_of("image_size"),
                         fmt::format("image_size {} does not halve five times", vgg.image.size),
                         fmt::format("{} does.", std::max<std::int64_t>(vgg.image.size / 32, 1) * 32));
  const std::int64_t late = layers == 19 ? 4 : layers == 16 ? 3 : 2;
  const std::int64_t early = layers == 11 ? 1 : 2;
  vgg.convolutions = {early, early, late, late, late};
  model.num_layers = 2 * early + 3 * late;
  read_hidden_dropout(keys, "dropout", 0.5);
  keys.reading.record("training.attention_dropout", "0", "default");
  use_classes(model, vgg.image);
  model.family = vgg;
}

}  // namespace simrun
