#include "backend/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#ifdef SIMRUN_NCCL
#include <nccl.h>
#endif

namespace simrun::cuda {

#ifdef SIMRUN_NCCL
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(nccl_success == static_cast<int>(ncclSuccess) &&
              nccl_in_progress == static_cast<int>(ncclInProgress));
static_assert(nccl_uint8 == static_cast<int>(ncclUint8) && nccl_int32 == static_cast<int>(ncclInt32) &&
              nccl_int64 == static_cast<int>(ncclInt64) && nccl_float16 == static_cast<int>(ncclFloat16) &&
              nccl_float32 == static_cast<int>(ncclFloat32) &&
              nccl_float64 == static_cast<int>(ncclFloat64) &&
              nccl_bfloat16 == static_cast<int>(ncclBfloat16));
static_assert(nccl_sum == static_cast<int>(ncclSum) && nccl_max == static_cast<int>(ncclMax));

constexpr const char* init_rank_name = "ncclCommInitRankConfig";

// nullptr: it cannot be opened.
void* opened() {
  static void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return library;
}

// ncclConfig_t is the header's affair: it grows with the version.
int init_rank(void** communicator, int ranks, NcclId id, int rank, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  config.commName = name;
#else
  static_cast<void>(name);
#endif
  ncclUniqueId with{};
  static_assert(sizeof with.internal == sizeof id.bytes);
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) with.internal[i] = id.bytes[i];
  static const auto init =
      reinterpret_cast<decltype(&ncclCommInitRankConfig)>(dlsym(opened(), init_rank_name));
  return init(reinterpret_cast<ncclComm_t*>(communicator), ranks, with, rank, &config);
}

// Functions that differ from the table's in the names of their types alone.
template <class Function>
void find(void* library, const char* name, Function& function, std::string& why_not) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) why_not = fmt::format("libnccl.so.2 has no {}", name);
  function = reinterpret_cast<Function>(symbol);
}

NcclLibrary open_library() {
  NcclLibrary nccl;
  void* const library = opened();
  if (library == nullptr) {
    const char* const text = dlerror();  // NOLINT(concurrency-mt-unsafe)
    nccl.why_not = text == nullptr ? "libnccl.so.2 cannot be opened" : text;
    return nccl;
  }
  NcclTable& table = nccl.table;
  table.init_rank = init_rank;
  if (dlsym(library, init_rank_name) == nullptr)
    nccl.why_not = fmt::format("libnccl.so.2 has no {}", init_rank_name);
  find(library, "ncclGetVersion", table.get_version, nccl.why_not);
  find(library, "ncclGetUniqueId", table.get_unique_id, nccl.why_not);
  find(library, "ncclCommDestroy", table.destroy, nccl.why_not);
  find(library, "ncclCommAbort", table.abort, nccl.why_not);
  find(library, "ncclCommGetAsyncError", table.get_async_error, nccl.why_not);
  find(library, "ncclGetErrorString", table.error_text, nccl.why_not);
  find(library, "ncclGetLastError", table.last_error, nccl.why_not);
  find(library, "ncclGroupStart", table.group_start, nccl.why_not);
  find(library, "ncclGroupEnd", table.group_end, nccl.why_not);
  find(library, "ncclAllReduce", table.all_reduce, nccl.why_not);
  find(library, "ncclAllGather", table.all_gather, nccl.why_not);
  find(library, "ncclReduceScatter", table.reduce_scatter, nccl.why_not);
  find(library, "ncclSend", table.send, nccl.why_not);
  find(library, "ncclRecv", table.recv, nccl.why_not);
  return nccl;
}

}  // namespace
#endif

const NcclLibrary& nccl_library() {
#ifdef SIMRUN_NCCL
  static const NcclLibrary library = open_library();
#else
  static const NcclLibrary library{{}, "the plugin was built without nccl.h"};
#endif
  return library;
}

}  // namespace simrun::cuda
