#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace simrun::cpu {

// Memory of a kernel's own, aligned as the device's is: where vector instructions begin in an array decides
// the last bit of a result, which must not depend on where malloc finds room. Not initialised.
template <class Real>
class Scratch {
 public:
  explicit Scratch(std::int64_t count = 0)
      : data_(count == 0 ? nullptr
                         : static_cast<Real*>(::operator new (static_cast<std::size_t>(count) * sizeof(Real),
                                                              std::align_val_t{64}))) {}
  ~Scratch() { ::operator delete (data_, std::align_val_t{64}); }
  Scratch(Scratch&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch& operator=(Scratch&& other) noexcept {
    Real* const own = data_;
    data_ = other.data_;
    other.data_ = own;
    return *this;
  }
  Real* data() const { return data_; }
  Real& operator[](std::int64_t i) const { return data_[i]; }

 private:
  Real* data_;
};

}  // namespace simrun::cpu
