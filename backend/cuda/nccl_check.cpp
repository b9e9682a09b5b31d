#include "backend/cuda/nccl_check.h"

#include <chrono>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/nccl_library.h"

namespace simrun::cuda {
namespace {

constexpr std::size_t count = 1024;
constexpr std::size_t bytes = count * sizeof(float);
constexpr auto patience = std::chrono::seconds(60);

class LoneCommunicator {
 public:
  explicit LoneCommunicator(const NcclTable& table) : table_(table) {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaMalloc(reinterpret_cast<void**>(&from_), bytes), "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void**>(&to_), bytes), "cudaMalloc");
    NcclId id{};
    require(table_.get_unique_id(&id), "ncclGetUniqueId");
    require(table_.init_rank(&communicator_, 1, id, 0, "simrun check"), "ncclCommInitRankConfig");
  }
  ~LoneCommunicator() {
    if (communicator_ != nullptr) table_.abort(communicator_);
    cudaFree(from_);
    cudaFree(to_);
    cudaStreamDestroy(stream_);
  }
  LoneCommunicator(const LoneCommunicator&) = delete;
  LoneCommunicator& operator=(const LoneCommunicator&) = delete;

  // One rank's collectives, and what it sends itself, leave numbers as they are.
  template <class Call>
  void run(const char* name, Call call) {
    std::vector<float> sent(count), arrived(count, -1);
    for (std::size_t i = 0; i < count; ++i) sent[i] = static_cast<float>(i);
    check(cudaMemcpy(from_, sent.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(to_, 0, bytes), "cudaMemset");
    require(table_.group_start(), "ncclGroupStart");
    require(call(from_, to_, communicator_, stream_), name);
    require(table_.group_end(), "ncclGroupEnd");
    check(cudaStreamSynchronize(stream_), name);
    check(cudaMemcpy(arrived.data(), to_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (arrived != sent) throw std::runtime_error(fmt::format("{} gives other numbers", name));
  }

 private:
  void require(int result, const char* name) const {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (result == nccl_in_progress && communicator_ != nullptr) {
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error(fmt::format("{} does not end", name));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (const int asked = table_.get_async_error(communicator_, &result); asked != nccl_success)
        result = asked;
    }
    if (result != nccl_success)
      throw std::runtime_error(fmt::format("{}: {} ({})", name, table_.error_text(result), result));
  }

  const NcclTable& table_;
  cudaStream_t stream_ = nullptr;
  float *from_ = nullptr, *to_ = nullptr;
  void* communicator_ = nullptr;
};

void run_all(const NcclTable& table) {
  LoneCommunicator alone(table);
  for (const int operation : {nccl_sum, nccl_max}) {
    alone.run("ncclAllReduce", [&](float* from, float* to, void* communicator, cudaStream_t stream) {
      return table.all_reduce(from, to, count, nccl_float32, operation, communicator, stream);
    });
    alone.run("ncclReduceScatter", [&](float* from, float* to, void* communicator, cudaStream_t stream) {
      return table.reduce_scatter(from, to, count, nccl_float32, operation, communicator, stream);
    });
  }
  alone.run("ncclAllGather", [&](float* from, float* to, void* communicator, cudaStream_t stream) {
    return table.all_gather(from, to, count, nccl_float32, communicator, stream);
  });
  alone.run("ncclSend and ncclRecv", [&](float* from, float* to, void* communicator, cudaStream_t stream) {
    const int sent = table.send(from, count, nccl_float32, 0, communicator, stream);
    return sent != nccl_success ? sent : table.recv(to, count, nccl_float32, 0, communicator, stream);
  });
}

}  // namespace

std::string check_nccl() {
  const NcclLibrary& library = nccl_library();
  if (!library.why_not.empty()) return library.why_not;
  try {
    run_all(library.table);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace simrun::cuda
