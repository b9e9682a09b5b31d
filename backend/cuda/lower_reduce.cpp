#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

constexpr std::int64_t summands_of_chunk = 64;
constexpr std::int64_t squares_of_chunk = 1 << 13;  // 64 elements for each lane: longer ones wait for memory

// An input's dimensions that the output has, and the others.
struct Divided {
  Places kept, summed;
  std::int64_t kept_count = 1, summed_count = 1;
  bool keeps_last = false;
};

Divided divided(const Argument& in, const Argument& out) {
  std::vector<std::int64_t> extents[2], strides[2];
  Divided result;
  std::int64_t stride = 1;
  for (std::size_t d = in.part.size(); d-- > 0; stride *= in.part[d].extent) {
    bool is_kept = false;
    for (const BufferDim& dim : out.buffer->dims) is_kept |= dim.name == in.buffer->dims[d].name;
    if (d + 1 == in.part.size()) result.keeps_last = is_kept;
    const std::size_t group = is_kept ? 0 : 1;
    (is_kept ? result.kept_count : result.summed_count) *= in.part[d].extent;
    extents[group].insert(extents[group].begin(), in.part[d].extent);
    strides[group].insert(strides[group].begin(), stride);
  }
  result.kept = joined_places(0, extents[0], strides[0]);
  result.summed = joined_places(0, extents[1], strides[1]);
  return result;
}

template <class Math>
void lower_sum_squares(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const auto chunks_of = [](const CountedRange& range) {
    return (range.count + squares_of_chunk - 1) / squares_of_chunk;
  };
  std::int64_t length = 0;
  for (const std::vector<CountedRange>& ranges : call.counted)
    for (const CountedRange& range : ranges) length += chunks_of(range);
  auto* const parts = list.template scratch<double>(length);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    for (const CountedRange& range : call.counted.at(i)) {
      list.add(SquaresRow<Math>{chunks_of(range), 0, list.input(i), range.begin, range.count,
                                squares_of_chunk, range.share, parts + at});
      at += chunks_of(range);
    }
  list.add(TotalRow<Math>{1, 0, parts, length, list.output(0)});
}

}  // namespace

// Where the last dimension is summed, lanes share an element of the output; else neighbours take neighbouring
// elements, and chunks of what they add up, so that all of the device has work.
template <class Math>
void lower_reduce(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  if (call.what.function == Function::sum_squares) return lower_sum_squares(list);
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  const Divided of = divided(in, out);
  const bool takes_maximum = call.what.function == Function::max;
  if (!takes_maximum && of.keeps_last) {
    const std::int64_t chunks = (of.summed_count + summands_of_chunk - 1) / summands_of_chunk;
    Math* const parts = list.template scratch<Math>(chunks * of.kept_count);
    list.add(PartSumElement<Math>{chunks * of.kept_count, list.input(0), of.kept, of.summed, of.kept_count,
                                  of.summed_count, summands_of_chunk, parts});
    list.add(ColumnSumElement<Math>{of.kept_count, parts, chunks, of.kept_count, list.output(0),
                                    cpu::adds_to(call, out)});
    return;
  }
  const std::int64_t n = cpu::last_extent(in);
  list.add(ReduceRow<Math>{of.kept_count, 0, list.input(0), list.output(0), of.kept, of.summed,
                           of.summed_count, n, takes_maximum ? cpu::true_columns(call, in) : n, takes_maximum,
                           cpu::adds_to(call, out)});
}

template void lower_reduce(LaunchList<float>&);
template void lower_reduce(LaunchList<double>&);

}  // namespace simrun::cuda
