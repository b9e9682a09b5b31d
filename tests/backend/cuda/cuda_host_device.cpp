#include "tests/backend/cuda/cuda_host_device.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_refusals.h"
#include "backend/cuda/nccl_exchange.h"

namespace simrun {
namespace {

// Lanes as threads that meet at a barrier, and reduce in the order of the lanes.
template <class Math>
class ThreadLanes {
 public:
  ThreadLanes(int count, std::int64_t scratch)
      : barrier(count), numbers(static_cast<std::size_t>(count)), memory(static_cast<std::size_t>(scratch)) {}
  std::barrier<> barrier;
  std::vector<double> numbers;
  std::vector<Math> memory;
};

template <class Math>
class ThreadLane {
 public:
  ThreadLane(ThreadLanes<Math>& lanes, int index) : lanes_(lanes), index_(index) {}
  std::int64_t index() const { return index_; }
  std::int64_t count() const { return static_cast<std::int64_t>(lanes_.numbers.size()); }
  void meet() const { lanes_.barrier.arrive_and_wait(); }
  template <class Number>
  Number sum(Number x) const {
    Number result = 0;
    for (const double of : all(x)) result += static_cast<Number>(of);
    return result;
  }
  template <class Number>
  Number maximum(Number x) const {
    const std::vector<double> of = all(x);
    return static_cast<Number>(*std::max_element(of.begin(), of.end()));
  }
  Math* scratch() const { return lanes_.memory.data(); }

 private:
  std::vector<double> all(double x) const {
    lanes_.numbers[static_cast<std::size_t>(index_)] = x;
    meet();
    std::vector<double> copy = lanes_.numbers;
    meet();
    return copy;
  }
  ThreadLanes<Math>& lanes_;
  const int index_;
};

template <class Math, class Kernel>
void run_rows(const Kernel& kernel, int count) {
  if (count == 1) {
    std::vector<Math> scratch(static_cast<std::size_t>(kernel.scratch));
    cuda::OneLane<Math> lane(scratch.data());
    for (std::int64_t row = 0; row < kernel.count; ++row) kernel(row, lane);
    return;
  }
  ThreadLanes<Math> lanes(count, kernel.scratch);
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index)
    threads.emplace_back([&, index] {
      ThreadLane<Math> lane(lanes, index);
      for (std::int64_t row = 0; row < kernel.count; ++row) {
        kernel(row, lane);
        lane.meet();  // the next row has the same scratch
      }
    });
  for (std::thread& thread : threads) thread.join();
}

template <class Math>
void run_product(const cuda::Product& p) {
  const auto at = [](const cuda::Factor& f, std::int64_t i, std::int64_t row, std::int64_t column) {
    return i * f.stride + (f.transposed ? column * f.ld + row : row * f.ld + column);
  };
  const cuda::Reals<Math> a{p.a.data, p.a.is_bf16}, b{p.b.data, p.b.is_bf16}, d{p.d.data, p.d.is_bf16};
  for (std::int64_t i = 0; i < p.batch; ++i)
    for (std::int64_t row = 0; row < p.m; ++row)
      for (std::int64_t column = 0; column < p.n; ++column) {
        Math sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) sum += a[at(p.a, i, row, k)] * b[at(p.b, i, k, column)];
        const std::int64_t to = at(p.d, i, row, column);
        d.set(to, p.beta == 0 ? sum : sum + static_cast<Math>(p.beta) * d[to]);
      }
}

template <class Math>
class CudaHostDevice final : public Device {
 public:
  CudaHostDevice(bool by_dtype, int lanes, const cuda::NcclTable* nccl)
      : by_dtype_(by_dtype), lanes_(lanes), nccl_(nccl) {}

  std::string refusal(const Plan& plan, const Instruction& what) const override {
    return cuda::cuda_refusal(plan, what, {by_dtype_});
  }
  std::int64_t element_bytes(Dtype dtype) const override {
    return cuda::stored_bytes(dtype, sizeof(Math), {by_dtype_});
  }
  void* allocate(std::int64_t bytes, bool cleared) override {
    void* memory = ::operator new(static_cast<std::size_t>(bytes));
    std::memset(memory, cleared ? 0 : 0xff, static_cast<std::size_t>(bytes));
    return memory;
  }
  void release(void* memory, std::int64_t) override { ::operator delete(memory); }
  std::int64_t peak_bytes() const override { return 0; }

  void run(const KernelCall& call) override {
    std::deque<std::vector<std::byte>> scratch;
    const auto take = [&](std::int64_t bytes) -> void* {
      return scratch.emplace_back(static_cast<std::size_t>(bytes), std::byte{0xff}).data();
    };
    for (const cuda::KernelLaunch<Math>& launch : cuda::lower<Math>(call, {by_dtype_}, take)) {
      run_on_host<Math>(launch, lanes_);
      ++launches_;
    }
  }
  // A microsecond for each kernel of a call.
  void begin_work() override { launches_ = 0; }
  std::int64_t worked_ns() override { return 1000 * launches_; }

  std::unique_ptr<DeviceExchange> connect(const Plan& plan, const RankPlace& place,
                                          Transport& transport) override {
    if (nccl_ == nullptr) return nullptr;
    cuda::NcclDevice device;
    device.limit = std::chrono::seconds(20);
    device.allocate = [](std::int64_t bytes) { return ::operator new(static_cast<std::size_t>(bytes)); };
    device.free = [](void* memory) { ::operator delete(memory); };
    device.pack = [this](const Argument& from, const TensorPart& part, void* to) {
      run_on_host<Math>(cuda::packing<Math>(from, part, to, element_bytes(from.buffer->dtype)), 1);
    };
    device.unpack = [this](const void* from, const Argument& to, const TensorPart& part, Combine combine) {
      run_on_host<Math>(cuda::unpacking<Math>(from, to, part, combine, element_bytes(to.buffer->dtype)), 1);
    };
    device.element_bytes = [this](Dtype dtype) { return element_bytes(dtype); };
    device.type_of = [this](Dtype dtype) { return cuda::nccl_type(dtype, sizeof(Math), {by_dtype_}); };
    device.mark = [](const std::string&) {};
    device.first_pending = [](std::chrono::milliseconds) { return std::string(); };
    return std::make_unique<cuda::NcclExchange>(cuda::NcclExchange::Rank{plan, place, transport}, *nccl_,
                                                std::move(device));
  }
  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override {
    const std::int64_t bytes = element_bytes(from.buffer->dtype);
    std::vector<std::byte> payload(static_cast<std::size_t>(elements(part) * bytes));
    run_on_host<Math>(cuda::packing<Math>(from, part, payload.data(), bytes), 1);
    return payload;
  }
  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override {
    run_on_host<Math>(
        cuda::unpacking<Math>(payload.data(), to, part, combine, element_bytes(to.buffer->dtype)), 1);
  }
  std::vector<double> values(const Argument& from, const TensorPart& part) override {
    std::vector<std::byte> payload = pack(from, part);
    const cuda::Reals<Math> reals{payload.data(), by_dtype_ && from.buffer->dtype == Dtype::bf16};
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < elements(part); ++i) numbers.push_back(static_cast<double>(reals[i]));
    return numbers;
  }
  void set_values(const std::vector<double>& values, const Argument& to, const TensorPart& part) override {
    const std::int64_t bytes = element_bytes(to.buffer->dtype);
    std::vector<std::byte> payload(values.size() * static_cast<std::size_t>(bytes));
    const cuda::Reals<Math> reals{payload.data(), by_dtype_ && to.buffer->dtype == Dtype::bf16};
    for (std::size_t i = 0; i < values.size(); ++i)
      reals.set(static_cast<std::int64_t>(i), static_cast<Math>(values[i]));
    unpack(payload, to, part, Combine::assign);
  }

 private:
  const bool by_dtype_;
  const int lanes_;
  std::int64_t launches_ = 0;
  const cuda::NcclTable* const nccl_;
};

}  // namespace

template <class Math>
void run_on_host(const cuda::KernelLaunch<Math>& launch, int lanes) {
  std::visit(
      [&](const auto& kernel) {
        using Kernel = std::decay_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, cuda::Product>)
          run_product<Math>(kernel);
        else if constexpr (cuda::IsOverRows<Kernel>::value)
          run_rows<Math>(kernel, lanes);
        else
          for (std::int64_t i = kernel.count; i-- > 0;) kernel(i);  // in any order: the last first
      },
      launch);
}

template void run_on_host<float>(const cuda::KernelLaunch<float>&, int);
template void run_on_host<double>(const cuda::KernelLaunch<double>&, int);

std::unique_ptr<Device> make_cuda_host_device(HostNumbers numbers, int lanes, const cuda::NcclTable* nccl) {
  if (numbers == HostNumbers::f64) return std::make_unique<CudaHostDevice<double>>(false, lanes, nccl);
  return std::make_unique<CudaHostDevice<float>>(numbers == HostNumbers::by_dtype, lanes, nccl);
}

}  // namespace simrun
