#include "configs/model_family.h"

namespace simrun {

const ImageConfig* image_of(const ModelFamily& family) {
  if (const auto* vit = family_as<VisionTransformerConfig>(family)) return &vit->image;
  if (const auto* resnet = family_as<ResNetConfig>(family)) return &resnet->image;
  if (const auto* vgg = family_as<VggConfig>(family)) return &vgg->image;
  return nullptr;
}

}  // namespace simrun
