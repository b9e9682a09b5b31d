#include "backend/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_parts.h"
#include "backend/cpu/refusals.h"
#include "backend/device_memory.h"

namespace simrun {
namespace {

constexpr std::align_val_t host_alignment{64};

bool is_real(Dtype dtype) { return dtype != Dtype::int64 && dtype != Dtype::int32 && dtype != Dtype::uint8; }

template <class Element>
void combine_into(Element* to, const Element* from, std::int64_t count, Combine combine) {
  switch (combine) {
    case Combine::assign: std::copy_n(from, count, to); return;
    case Combine::add:
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Element>(to[i] + from[i]);
      return;
    case Combine::maximum:
      for (std::int64_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
  }
}

bool moves_token_rows(const Instruction& what) {
  return what.function == Function::dispatch || what.function == Function::combine;
}

template <class Real>
class CpuDevice final : public Device {
 public:
  std::string refusal(const Plan& plan, const Instruction& what) const override {
    return cpu_refusal(plan, what);
  }

  std::int64_t element_bytes(Dtype dtype) const override {
    return is_real(dtype) ? static_cast<std::int64_t>(sizeof(Real)) : bytes_of(dtype);
  }

  // What is read before it was written is to be seen.
  void* allocate(std::int64_t bytes, bool cleared) override {
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
    void* memory = take_device_memory(bytes);
    std::memset(memory, cleared ? 0 : 0xff, static_cast<std::size_t>(bytes));  // all ones: not a number
    return memory;
  }
  void release(void* memory, std::int64_t bytes) override {
    return_device_memory(memory, bytes);
    bytes_ -= bytes;
  }
  void* allocate_outside(std::int64_t bytes, bool cleared) override {
    void* memory = ::operator new(static_cast<std::size_t>(bytes), host_alignment);
    std::memset(memory, cleared ? 0 : 0xff, static_cast<std::size_t>(bytes));  // all ones: not a number
    return memory;
  }
  void release_outside(void* memory) override { ::operator delete(memory, host_alignment); }
  std::int64_t peak_bytes() const override { return peak_; }

  void run(const KernelCall& call) override {
    if (cpu::has_rows(call) && !moves_token_rows(call.what))
      cpu::run_by_expert<Real>(call, run_kernel);
    else
      run_kernel(call);
  }

  static void run_kernel(const KernelCall& call) {
    if (moves_token_rows(call.what)) return cpu::run_token_rows<Real>(call);
    switch (call.what.opcode) {
      case Opcode::route: return cpu::run_route<Real>(call);
      case Opcode::route_backward: return cpu::run_route_backward<Real>(call);
      case Opcode::input: return cpu::run_input<Real>(call);
      case Opcode::copy: return run_copy(call);
      case Opcode::gemm: return cpu::run_gemm<Real>(call);
      case Opcode::attention: return run_attention(call);
      case Opcode::attention_backward: return run_attention_backward(call);
      case Opcode::norm: return cpu::run_norm<Real>(call);
      case Opcode::norm_backward: return cpu::run_norm_backward<Real>(call);
      case Opcode::map: return cpu::run_map<Real>(call);
      case Opcode::reduce: return cpu::run_reduce<Real>(call);
      case Opcode::gather: return cpu::run_gather<Real>(call);
      case Opcode::scatter: return cpu::run_scatter<Real>(call);
      case Opcode::cross_entropy: return cpu::run_cross_entropy<Real>(call);
      case Opcode::cross_entropy_backward: return cpu::run_cross_entropy_backward<Real>(call);
      case Opcode::optimizer: return cpu::run_optimizer<Real>(call);
      case Opcode::conv: return cpu::run_conv<Real>(call);
      case Opcode::pool: return cpu::run_pool<Real>(call);
      case Opcode::pool_backward: return cpu::run_pool_backward<Real>(call);
      case Opcode::lstm: return cpu::run_lstm<Real>(call);
      case Opcode::lstm_backward: return cpu::run_lstm_backward<Real>(call);
      case Opcode::scan:
      case Opcode::scan_backward: return run_scan(call);
      default: return;  // refused before anything runs
    }
  }

  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override {
    const std::int64_t size = element_bytes(from.buffer->dtype);
    std::vector<std::byte> payload(static_cast<std::size_t>(elements(part) * size));
    const auto* data = static_cast<const std::byte*>(from.data);
    for_each_run(from.part, part, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
      std::copy_n(data + first * size, count * size, payload.data() + to * size);
    });
    return payload;
  }

  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override {
    if (is_real(to.buffer->dtype)) return unpack_as<Real>(payload, to, part, combine);
    if (to.buffer->dtype == Dtype::int64) return unpack_as<std::int64_t>(payload, to, part, combine);
    if (to.buffer->dtype == Dtype::int32) return unpack_as<std::int32_t>(payload, to, part, combine);
    unpack_as<std::uint8_t>(payload, to, part, combine);
  }

  std::vector<double> values(const Argument& from, const TensorPart& part) override {
    std::vector<double> numbers(static_cast<std::size_t>(elements(part)));
    const Real* data = cpu::reals<Real>(from);
    for_each_run(from.part, part, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
      std::copy_n(data + first, count, numbers.begin() + to);
    });
    return numbers;
  }

  std::vector<std::int64_t> indices(const Argument& from, const TensorPart& part) override {
    if (from.buffer->dtype == Dtype::int64) return indices_as<std::int64_t>(from, part);
    return indices_as<std::int32_t>(from, part);
  }

  void set_values(const std::vector<double>& numbers, const Argument& to, const TensorPart& part) override {
    Real* data = cpu::reals<Real>(to);
    for_each_run(to.part, part, [&](std::int64_t first, std::int64_t from, std::int64_t count) {
      std::transform(numbers.begin() + from, numbers.begin() + from + count, data + first,
                     [](double number) { return static_cast<Real>(number); });
    });
  }

 private:
  static void run_copy(const KernelCall& call) {
    const bool selects = cpu::position_of(call, call.inputs[0], "qkv_rows") >= 0 ||
                         cpu::position_of(call, call.outputs[0], "qkv_rows") >= 0;
    selects ? cpu::run_select_heads<Real>(call) : cpu::run_copy<Real>(call);
  }
  static void run_scan(const KernelCall& call) {
    const bool forward = call.what.opcode == Opcode::scan;
    if (call.what.function == Function::gated_delta_rule)
      return forward ? cpu::run_delta_rule<Real>(call) : cpu::run_delta_rule_backward<Real>(call);
    forward ? cpu::run_scan<Real>(call) : cpu::run_scan_backward<Real>(call);
  }
  static void run_attention(const KernelCall& call) {
    call.what.part.axes.empty() ? cpu::run_attention<Real>(call) : cpu::run_attention_block<Real>(call);
  }
  static void run_attention_backward(const KernelCall& call) {
    call.what.part.axes.empty() ? cpu::run_attention_backward<Real>(call)
                                : cpu::run_attention_block_backward<Real>(call);
  }

  template <class Element>
  static std::vector<std::int64_t> indices_as(const Argument& from, const TensorPart& part) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(elements(part)));
    const auto* data = static_cast<const Element*>(from.data);
    for_each_run(from.part, part, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
      std::copy_n(data + first, count, numbers.begin() + to);
    });
    return numbers;
  }

  template <class Element>
  void unpack_as(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
                 Combine combine) {
    const auto* from = reinterpret_cast<const Element*>(payload.data());
    auto* data = static_cast<Element*>(to.data);
    for_each_run(to.part, part, [&](std::int64_t first, std::int64_t at, std::int64_t count) {
      combine_into(data + first, from + at, count, combine);
    });
  }

  std::int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device_f64() { return std::make_unique<CpuDevice<double>>(); }
std::unique_ptr<Device> make_cpu_device_f32() { return std::make_unique<CpuDevice<float>>(); }

}  // namespace simrun
