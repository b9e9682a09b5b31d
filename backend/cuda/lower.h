#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cuda/kernel_launch.h"
#include "backend/device.h"
#include "backend/operations.h"

// An instruction as kernels and matrix products: the whole arithmetic of the CUDA device but for who runs it,
// so that tests run the same list on the host. One instruction's launches run in order, on one stream.
namespace simrun::cuda {

// Memory beside the plan's, good until the instruction has run.
using ScratchMemory = std::function<void*(std::int64_t bytes)>;

// How numbers are stored: all as Math, or, with `by_dtype`, as the plan's buffers say (float and bf16).
struct NumberStorage {
  bool by_dtype = false;
};

// Collects an instruction's launches.
template <class Math>
class LaunchList {
 public:
  LaunchList(const KernelCall& of, NumberStorage storage, ScratchMemory scratch)
      : call(of), storage_(storage), scratch_(std::move(scratch)) {}

  const KernelCall& call;

  template <class Kernel>
  void add(const Kernel& kernel) {
    launches_.push_back(kernel);
  }
  std::vector<KernelLaunch<Math>> take() { return std::move(launches_); }

  bool is_bf16(const Argument& argument) const {
    return storage_.by_dtype && argument.buffer->dtype == Dtype::bf16;
  }
  Reals<Math> reals(const Argument& argument) const { return {argument.data, is_bf16(argument)}; }
  Reals<Math> input(std::size_t i) const { return reals(call.inputs[i]); }
  Reals<Math> output(std::size_t i) const { return reals(call.outputs[i]); }
  // None where the instruction has no such operand.
  Reals<Math> optional_input(std::size_t i) const {
    return i < call.inputs.size() ? input(i) : Reals<Math>{};
  }
  template <class Number>
  Number* scratch(std::int64_t count) const {
    return static_cast<Number*>(scratch_(count * static_cast<std::int64_t>(sizeof(Number))));
  }
  // Zero, unless it is added to.
  void clear_unless_added(const Argument& out) {
    if (!cpu::adds_to(call, out)) add(FillElement<Math>{elements(out.part), reals(out), 0});
  }
  RandomKey random(std::string_view name, std::int64_t number) const;

 private:
  const NumberStorage storage_;
  const ScratchMemory scratch_;
  std::vector<KernelLaunch<Math>> launches_;
};

template <class Math>
std::vector<KernelLaunch<Math>> lower(const KernelCall& call, NumberStorage storage,
                                      const ScratchMemory& scratch);

// A part of an argument packed row-major into `payload`, and back. `bytes`: of an element.
template <class Math>
CopyElement<Math> packing(const Argument& from, const TensorPart& part, void* payload, std::int64_t bytes);
template <class Math>
CopyElement<Math> unpacking(const void* payload, const Argument& to, const TensorPart& part, Combine combine,
                            std::int64_t bytes);

// ---- by opcode ----
template <class Math>
void lower_gemm(LaunchList<Math>& list);
template <class Math>
void lower_map(LaunchList<Math>& list);
template <class Math>
void lower_activation(LaunchList<Math>& list);
template <class Math>
void lower_norm(LaunchList<Math>& list);
template <class Math>
void lower_norm_backward(LaunchList<Math>& list);
template <class Math>
void lower_reduce(LaunchList<Math>& list);
template <class Math>
void lower_input(LaunchList<Math>& list);
template <class Math>
void lower_gather(LaunchList<Math>& list);
template <class Math>
void lower_scatter(LaunchList<Math>& list);
template <class Math>
void lower_cross_entropy(LaunchList<Math>& list);
template <class Math>
void lower_cross_entropy_backward(LaunchList<Math>& list);
template <class Math>
void lower_optimizer(LaunchList<Math>& list);
template <class Math>
void lower_attention(LaunchList<Math>& list);
template <class Math>
void lower_attention_backward(LaunchList<Math>& list);

// ---- places ----

// Of each element of an argument, where the element of `of` is that has the same indices; `of` has only
// dimensions that the argument has.
Places broadcast_places(const Argument& argument, const Argument& of);
// Of each row of an argument, the number of its first element in the whole tensor of the step, samples of all
// microbatches behind one another: what dropout is drawn by.
Places whole_row_places(const KernelCall& call, const Argument& argument);
// With dimensions that lie behind one another as one.
Places joined_places(std::int64_t first, const std::vector<std::int64_t>& extents,
                     const std::vector<std::int64_t>& strides);

}  // namespace simrun::cuda
