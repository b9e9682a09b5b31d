#pragma once

#include "backend/device.h"

namespace simrun {

// Executes nothing and checks what it would: with it a run walks every instruction of every rank and
// exchanges empty messages, so that memory, order and partners are those of a real run. Operands of one
// instruction that have a dimension in common must be parts of the same place along it: a rank that
// multiplies its rows with another's columns is an error here already.
class NullDevice final : public Device {
 public:
  std::string refusal(const Plan& plan, const Instruction& what) const override;
  std::int64_t element_bytes(Dtype dtype) const override { return bytes_of(dtype); }
  void* allocate(std::int64_t bytes, bool cleared) override;
  void release(void* memory, std::int64_t bytes) override;
  std::int64_t peak_bytes() const override { return peak_; }
  void run(const KernelCall& call) override;
  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override;
  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override;
  std::vector<double> values(const Argument& from, const TensorPart& part) override;
  void set_values(const std::vector<double>& values, const Argument& to, const TensorPart& part) override;

 private:
  std::int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace simrun
