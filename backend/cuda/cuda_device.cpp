#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <type_traits>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/cuda_products.h"
#include "backend/cuda/cuda_refusals.h"
#include "backend/cuda/kernel_timer.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/lower.h"
#include "backend/cuda/nccl_exchange.h"
#include "backend/cuda/nccl_library.h"
#include "backend/cuda/scratch_blocks.h"

namespace simrun::cuda {
namespace {

// A payload that stays on the GPU, as the bytes of a message: where it is, and when it is written.
struct ResidentPayload {
  void* data = nullptr;
  cudaEvent_t written = nullptr;
};

class Stream {
 public:
  explicit Stream(int gpu) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

  void* allocate(std::int64_t bytes) const {
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), stream_),
          "cudaMallocAsync");
    return memory;
  }
  void free(void* memory) const { cudaFreeAsync(memory, stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// What NCCL was asked for and has not ended, in order.
class StreamMarks {
 public:
  StreamMarks() = default;
  StreamMarks(const StreamMarks&) = delete;
  StreamMarks& operator=(const StreamMarks&) = delete;
  ~StreamMarks() {
    for (const Mark& mark : marks_) cudaEventDestroy(mark.ended);
  }
  void put(const std::string& of, cudaStream_t stream) {
    forget_ended();
    Mark mark{of, nullptr};
    check(cudaEventCreateWithFlags(&mark.ended, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    marks_.push_back(mark);
    check(cudaEventRecord(mark.ended, stream), "cudaEventRecord");
  }
  // The first that has not ended after that time; empty: all have.
  std::string wait(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (forget_ended(); !marks_.empty(); forget_ended()) {
      if (std::chrono::steady_clock::now() > end) return marks_.front().of;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return "";
  }

 private:
  struct Mark {
    std::string of;
    cudaEvent_t ended = nullptr;
  };
  void forget_ended() {
    while (!marks_.empty() && cudaEventQuery(marks_.front().ended) != cudaErrorNotReady) {
      cudaEventDestroy(marks_.front().ended);
      marks_.pop_front();
    }
  }
  std::deque<Mark> marks_;
};

template <class Math>
class CudaDevice final : public Device {
 public:
  struct Sharing {
    bool keeps_payloads = false;  // ranks of one process share one GPU
    bool uses_nccl = false;       // ranks are in several processes
    std::chrono::milliseconds limit{60'000};
  };
  CudaDevice(int gpu, NumberStorage storage, const Sharing& sharing)
      : storage_(storage),
        sharing_(sharing),
        stream_(gpu),
        products_(stream_.get()),
        scratch_([this](std::int64_t bytes) { return stream_.allocate(bytes); }) {}
  ~CudaDevice() override {
    scratch_.free_all([this](void* memory) { stream_.free(memory); });
    cudaStreamSynchronize(stream_.get());
  }

  std::string refusal(const Plan& plan, const Instruction& what) const override {
    return cuda_refusal(plan, what, storage_);
  }
  std::int64_t element_bytes(Dtype dtype) const override {
    return stored_bytes(dtype, sizeof(Math), storage_);
  }

  // All ones are not a number in every type: what is read before it was written is to be seen.
  void* allocate(std::int64_t bytes, bool cleared) override {
    void* const memory = stream_.allocate(bytes);
    check(cudaMemsetAsync(memory, cleared ? 0 : 0xff, static_cast<std::size_t>(bytes), stream_.get()),
          "cudaMemsetAsync");
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
    return memory;
  }
  void release(void* memory, std::int64_t bytes) override {
    stream_.free(memory);
    bytes_ -= bytes;
  }
  std::int64_t peak_bytes() const override { return peak_; }

  void run(const KernelCall& call) override {
    scratch_.restart();
    for (const KernelLaunch<Math>& launch :
         lower<Math>(call, storage_, [this](std::int64_t n) { return scratch_.take(n); }))
      enqueue(launch);
  }

  void begin_work() override { timer_.restart(); }
  std::int64_t worked_ns() override { return timer_.take_ns(); }

  std::unique_ptr<DeviceExchange> connect(const Plan& plan, const RankPlace& place,
                                          Transport& transport) override {
    if (!sharing_.uses_nccl || plan.ranks() == 1) return nullptr;
    const NcclLibrary& library = nccl_library();
    if (!library.why_not.empty()) throw std::runtime_error("NCCL: " + library.why_not);
    rank_ = place.rank;
    return std::make_unique<NcclExchange>(NcclExchange::Rank{plan, place, transport}, library.table,
                                          nccl_device());
  }

  std::vector<std::byte> pack(const Argument& from, const TensorPart& part) override {
    const std::int64_t bytes = element_bytes(from.buffer->dtype);
    void* const data = stream_.allocate(elements(part) * bytes);
    enqueue(packing<Math>(from, part, data, bytes));
    return sharing_.keeps_payloads ? keep(data) : fetch(data, elements(part) * bytes);
  }

  void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
              Combine combine) override {
    void* const data = sharing_.keeps_payloads ? kept(payload) : upload(payload);
    enqueue(unpacking<Math>(data, to, part, combine, element_bytes(to.buffer->dtype)));
    stream_.free(data);
  }

  std::vector<double> values(const Argument& from, const TensorPart& part) override {
    const std::int64_t bytes = element_bytes(from.buffer->dtype), count = elements(part);
    void* const data = stream_.allocate(count * bytes);
    enqueue(packing<Math>(from, part, data, bytes));
    std::vector<std::byte> raw = fetch(data, count * bytes);
    const Reals<Math> reals{raw.data(), is_bf16(from)};
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(reals[i]));
    return numbers;
  }

  void set_values(const std::vector<double>& numbers, const Argument& to, const TensorPart& part) override {
    const std::int64_t bytes = element_bytes(to.buffer->dtype);
    std::vector<std::byte> raw(numbers.size() * static_cast<std::size_t>(bytes));
    const Reals<Math> reals{raw.data(), is_bf16(to)};
    for (std::size_t i = 0; i < numbers.size(); ++i)
      reals.set(static_cast<std::int64_t>(i), static_cast<Math>(numbers[i]));
    void* const data = upload(raw);
    enqueue(unpacking<Math>(data, to, part, Combine::assign, bytes));
    stream_.free(data);
  }

 private:
  bool is_bf16(const Argument& argument) const {
    return storage_.by_dtype && argument.buffer->dtype == Dtype::bf16;
  }

  void enqueue(const KernelLaunch<Math>& launch) {
    timer_.record(stream_.get());
    if (const auto* product = std::get_if<Product>(&launch))
      products_.run(*product);
    else
      check(launch_kernel<Math>(launch, stream_.get()), "a kernel's launch");
    timer_.record(stream_.get());
  }

  NcclDevice nccl_device() {
    NcclDevice device;
    device.stream = stream_.get();
    device.limit = sharing_.limit;
    device.allocate = [this](std::int64_t bytes) { return stream_.allocate(bytes); };
    device.free = [this](void* memory) { stream_.free(memory); };
    device.pack = [this](const Argument& from, const TensorPart& part, void* to) {
      enqueue(packing<Math>(from, part, to, element_bytes(from.buffer->dtype)));
    };
    device.unpack = [this](const void* from, const Argument& to, const TensorPart& part, Combine combine) {
      enqueue(unpacking<Math>(from, to, part, combine, element_bytes(to.buffer->dtype)));
    };
    device.element_bytes = [this](Dtype dtype) { return element_bytes(dtype); };
    device.type_of = [this](Dtype dtype) { return nccl_type(dtype, sizeof(Math), storage_); };
    device.mark = [this](const std::string& of) { marks_.put(of, stream_.get()); };
    device.first_pending = [this](std::chrono::milliseconds patience) { return marks_.wait(patience); };
    return device;
  }

  // Everything that was put on the stream has ended. Without partners it ends by itself.
  void wait() {
    if (const std::string of = marks_.wait(sharing_.limit); !of.empty())
      throw TransportError(fmt::format("after {} s, rank {} waits in {}",
                                       std::chrono::duration<double>(sharing_.limit).count(), rank_, of));
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

  // Between ranks of one process: the memory changes hands with its event, and goes back to CUDA's pool
  // behind the receiver's kernel. A message that nobody receives is lost memory until the process ends.
  std::vector<std::byte> keep(void* data) const {
    ResidentPayload payload{data, nullptr};
    check(cudaEventCreateWithFlags(&payload.written, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaEventRecord(payload.written, stream_.get()), "cudaEventRecord");
    std::vector<std::byte> bytes(sizeof payload);
    std::memcpy(bytes.data(), &payload, sizeof payload);
    return bytes;
  }
  void* kept(const std::vector<std::byte>& bytes) const {
    ResidentPayload payload;
    if (bytes.size() != sizeof payload) throw std::runtime_error("a payload from another process");
    std::memcpy(&payload, bytes.data(), sizeof payload);
    check(cudaStreamWaitEvent(stream_.get(), payload.written, 0), "cudaStreamWaitEvent");
    check(cudaEventDestroy(payload.written), "cudaEventDestroy");
    return payload.data;
  }

  // To the host, and frees it; a kernel's failure on the way is told here.
  std::vector<std::byte> fetch(void* data, std::int64_t count) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    wait();
    check(cudaMemcpyAsync(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync");
    stream_.free(data);
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    return bytes;
  }
  // From pageable memory: CUDA has copied it when the call returns.
  void* upload(const std::vector<std::byte>& bytes) const {
    void* const data = stream_.allocate(static_cast<std::int64_t>(bytes.size()));
    check(cudaMemcpyAsync(data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    return data;
  }

  const NumberStorage storage_;
  const Sharing sharing_;
  std::int64_t rank_ = 0;
  Stream stream_;
  StreamMarks marks_;
  KernelTimer timer_;
  CublasProducts<Math> products_;
  ScratchBlocks scratch_;
  std::int64_t bytes_ = 0, peak_ = 0;
};

// Freed memory stays with the process, which will ask for it again in the next step.
void keep_freed_memory(int gpu) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, gpu), "cudaDeviceGetDefaultMemPool");
  std::uint64_t all = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "cudaMemPoolSetAttribute");
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(const DeviceRequest& request) {
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  if (gpus == 0) throw std::runtime_error("cudaGetDeviceCount: 0 devices");
  const int gpu = request.local_rank % gpus;
  keep_freed_memory(gpu);
  const bool keeps_payloads = request.one_process && gpus == 1;
  const std::chrono::milliseconds limit(request.limit_ms);
  if (request.real == RealType::f64)
    return std::make_unique<CudaDevice<double>>(
        gpu, NumberStorage{}, CudaDevice<double>::Sharing{keeps_payloads, !request.one_process, limit});
  return std::make_unique<CudaDevice<float>>(
      gpu, NumberStorage{request.real == RealType::bf16},
      CudaDevice<float>::Sharing{keeps_payloads, !request.one_process, limit});
}

std::string why_no_cuda() {
  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error != cudaSuccess) return fmt::format("no GPU: cudaGetDeviceCount: {}", words_of(error));
  return gpus == 0 ? "no GPU: cudaGetDeviceCount: 0 devices" : "";
}

std::vector<std::string> cuda_devices() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) return {};
  std::vector<std::string> lines;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    cudaDeviceProp of{};
    if (cudaGetDeviceProperties(&of, gpu) != cudaSuccess) continue;
    lines.push_back(fmt::format("{}, {} GiB, sm_{}{}", of.name, of.totalGlobalMem >> 30, of.major, of.minor));
  }
  return lines;
}

}  // namespace simrun::cuda
