#include "backend/cpu/kernels.h"
#include "models/philox.h"

// Data of models that read images: what a sample shows and what it is called.
namespace simrun::cpu {

template <class Real>
void run_images(const KernelCall& call) {
  const Argument& out = call.outputs[0];
  const RandomStream stream(call.training.seed, call.what.label, 0);
  if (out.buffer->dtype == Dtype::int64) {
    const DimPart& batch = part_named(call, out, "batch");
    const auto vocab = std::find(call.plan.dimension_names.begin(), call.plan.dimension_names.end(), "vocab");
    const auto classes = static_cast<std::uint32_t>(
        call.plan.dimension_sizes[static_cast<std::size_t>(vocab - call.plan.dimension_names.begin())]);
    auto* to = static_cast<std::int64_t*>(out.data);
    for (std::int64_t b = 0; b < batch.extent; ++b)
      *to++ = stream.word(call.microbatch * batch.whole + batch.first + b, call.step) % classes;
    return;
  }
  const WholeRows whole(call, out);
  const std::int64_t n = last_extent(out), rows = rows_of(out);
  Real* to = reals<Real>(out);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = whole.begin(row);
    for (std::int64_t i = 0; i < n; ++i) *to++ = static_cast<Real>(stream.normal(begin + i, call.step));
  }
}

template void run_images<float>(const KernelCall&);
template void run_images<double>(const KernelCall&);

}  // namespace simrun::cpu
