#include "backend/recycling_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace simrun {
namespace {

class RecyclingDevice final : public Device {
 public:
  explicit RecyclingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  ~RecyclingDevice() override {
    for (const auto& [bytes, memory] : kept_) device_->release(memory, bytes);
  }
  RecyclingDevice(const RecyclingDevice&) = delete;
  RecyclingDevice& operator=(const RecyclingDevice&) = delete;

  std::string refusal(const Plan& plan, const Instruction& what) const override {
    return device_->refusal(plan, what);
  }
  std::int64_t element_bytes(Dtype dtype) const override { return device_->element_bytes(dtype); }

  void* allocate(std::int64_t bytes, bool cleared) override {
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
    const auto found = kept_.find(bytes);
    if (found == kept_.end()) return device_->allocate(bytes, cleared);
    void* const memory = found->second;
    kept_.erase(found);
    if (cleared) std::memset(memory, 0, static_cast<std::size_t>(bytes));
    return memory;
  }
  void release(void* memory, std::int64_t bytes) override {
    bytes_ -= bytes;
    kept_.emplace(bytes, memory);
  }
  void* allocate_outside(std::int64_t bytes, bool cleared) override {
    return device_->allocate_outside(bytes, cleared);
  }
  void release_outside(void* memory) override { device_->release_outside(memory); }
  std::int64_t peak_bytes() const override { return peak_; }

  void run(const KernelCall& call) override { device_->run(call); }
  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override {
    return device_->pack(from, part);
  }
  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override {
    device_->unpack(payload, to, part, combine);
  }
  std::vector<double> values(const Argument& from, const TensorPart& part) override {
    return device_->values(from, part);
  }
  std::vector<std::int64_t> indices(const Argument& from, const TensorPart& part) override {
    return device_->indices(from, part);
  }
  void set_values(const std::vector<double>& values, const Argument& to, const TensorPart& part) override {
    device_->set_values(values, to, part);
  }

 private:
  const std::unique_ptr<Device> device_;
  std::multimap<std::int64_t, void*> kept_;
  std::int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace

std::unique_ptr<Device> recycling(std::unique_ptr<Device> device) {
  return std::make_unique<RecyclingDevice>(std::move(device));
}

}  // namespace simrun
