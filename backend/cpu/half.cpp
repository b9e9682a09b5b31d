#include <algorithm>
#include <cstring>
#include <map>

#include "backend/cpu/device.h"
#include "backend/cpu/kernels.h"
#include "backend/half_float.h"
#include "backend/tensor_part.h"

namespace simrun {
namespace {

bool is_half(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::fp16; }

// Elements of a bf16 or fp16 buffer as floats.
class HalfElements {
 public:
  explicit HalfElements(const Argument& argument)
      : data_(static_cast<std::uint16_t*>(argument.data)), is_bf16_(argument.buffer->dtype == Dtype::bf16) {}
  float get(std::int64_t i) const { return is_bf16_ ? from_bf16(data_[i]) : from_fp16(data_[i]); }
  void set(std::int64_t i, float value) const { data_[i] = is_bf16_ ? bf16_bits(value) : fp16_bits(value); }

 private:
  std::uint16_t* data_;
  bool is_bf16_;
};

// The operands of a call that are stored in 16 bits, widened for kernels that know floats. An operand that is
// read and written, or named twice, is one.
class WidenedCall {
 public:
  explicit WidenedCall(const KernelCall& of) : call_(of) {
    for (const std::vector<Argument>* operands : {&of.inputs, &of.outputs})
      for (const Argument& argument : *operands)
        if (is_half(argument.buffer->dtype)) grow(argument);
    for (auto& [data, widened] : widened_) {
      const HalfElements stored(widened.first);
      for (std::size_t i = 0; i < widened.second.size(); ++i)
        widened.second[i] = stored.get(static_cast<std::int64_t>(i));
    }
    for (std::vector<Argument>* operands : {&call_.inputs, &call_.outputs})
      for (Argument& argument : *operands)
        if (is_half(argument.buffer->dtype)) argument.data = widened_.at(argument.data).second.data();
  }
  const KernelCall& call() const { return call_; }

  // What was computed goes back, rounded.
  void store(const std::vector<Argument>& outputs) const {
    for (const Argument& output : outputs) {
      if (!is_half(output.buffer->dtype)) continue;
      const std::vector<float>& from = widened_.at(output.data).second;
      const HalfElements stored(output);
      for (std::int64_t i = 0; i < elements(output.part); ++i)
        stored.set(i, from[static_cast<std::size_t>(i)]);
    }
  }

 private:
  void grow(const Argument& argument) {
    auto& [first, floats] = widened_[argument.data];
    const auto count = static_cast<std::size_t>(elements(argument.part));
    if (floats.empty()) first = argument;
    floats.resize(std::max(floats.size(), count));
  }

  KernelCall call_;
  std::map<const void*, std::pair<Argument, std::vector<float>>> widened_;
};

// Stores what the plan says in what the plan says: bf16 and fp16 in 16 bits, all else as the f32 device does,
// whose kernels it runs. Messages carry floats, so that buffers of two types may be two ends of a copy.
class CpuHalfDevice final : public Device {
 public:
  std::string refusal(const Plan& plan, const Instruction& what) const override {
    const auto is_narrow = [&](Index buffer) { return cpu::is_narrow(plan.buffers[buffer]); };
    if (std::ranges::any_of(what.inputs, is_narrow) || std::ranges::any_of(what.outputs, is_narrow))
      return "has neither 8 nor 4 bits with --dtype bf16 (f32 and f64 run them unrounded): "
             "training.precision: fp8 or nvfp4, training.lora.base_dtype: nf4, optimizer.exp_avg_dtype or "
             "optimizer.grad_reduce_dtype: fp8";
    return f32_->refusal(plan, what);
  }
  std::int64_t element_bytes(Dtype dtype) const override { return bytes_of(dtype); }
  void* allocate(std::int64_t bytes, bool cleared) override { return f32_->allocate(bytes, cleared); }
  void release(void* memory, std::int64_t bytes) override { f32_->release(memory, bytes); }
  void* allocate_outside(std::int64_t bytes, bool cleared) override {
    return f32_->allocate_outside(bytes, cleared);
  }
  void release_outside(void* memory) override { f32_->release_outside(memory); }
  std::int64_t peak_bytes() const override { return f32_->peak_bytes(); }

  void run(const KernelCall& call) override {
    const WidenedCall widened(call);
    f32_->run(widened.call());
    widened.store(call.outputs);
  }

  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override {
    if (!is_half(from.buffer->dtype)) return f32_->pack(from, part);
    std::vector<std::byte> payload(static_cast<std::size_t>(elements(part)) * sizeof(float));
    const HalfElements stored(from);
    for_each_run(from.part, part, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = stored.get(first + i);
        std::memcpy(payload.data() + static_cast<std::size_t>(to + i) * sizeof value, &value, sizeof value);
      }
    });
    return payload;
  }

  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override {
    if (!is_half(to.buffer->dtype)) return f32_->unpack(payload, to, part, combine);
    const HalfElements stored(to);
    for_each_run(to.part, part, [&](std::int64_t first, std::int64_t from, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        float value = 0;
        std::memcpy(&value, payload.data() + static_cast<std::size_t>(from + i) * sizeof value, sizeof value);
        if (combine == Combine::add) value += stored.get(first + i);
        if (combine == Combine::maximum) value = std::max(value, stored.get(first + i));
        stored.set(first + i, value);
      }
    });
  }

  std::vector<double> values(const Argument& from, const TensorPart& part) override {
    if (!is_half(from.buffer->dtype)) return f32_->values(from, part);
    std::vector<double> numbers(static_cast<std::size_t>(elements(part)));
    const HalfElements stored(from);
    for_each_run(from.part, part, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        numbers[static_cast<std::size_t>(to + i)] = static_cast<double>(stored.get(first + i));
    });
    return numbers;
  }

  std::vector<std::int64_t> indices(const Argument& from, const TensorPart& part) override {
    return f32_->indices(from, part);
  }

  void set_values(const std::vector<double>& numbers, const Argument& to, const TensorPart& part) override {
    if (!is_half(to.buffer->dtype)) return f32_->set_values(numbers, to, part);
    const HalfElements stored(to);
    for_each_run(to.part, part, [&](std::int64_t first, std::int64_t from, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        stored.set(first + i, static_cast<float>(numbers[static_cast<std::size_t>(from + i)]));
    });
  }

 private:
  const std::unique_ptr<Device> f32_ = make_cpu_device_f32();
};

}  // namespace

std::unique_ptr<Device> make_cpu_device_half() { return std::make_unique<CpuHalfDevice>(); }

}  // namespace simrun
