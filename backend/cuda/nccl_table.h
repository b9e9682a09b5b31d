#pragma once

#include <cstddef>

// The functions of NCCL that are used, with its own types as plain ones: filled from libnccl.so.2
// (backend/cuda/nccl_library.cpp), or by a test that has no GPU.
namespace simrun::cuda {

struct NcclId {
  char bytes[128];
};

// Of nccl.h; nccl_library.cpp holds them against it.
enum NcclResult : int { nccl_success = 0, nccl_in_progress = 7 };
enum NcclType : int {
  nccl_uint8 = 1,
  nccl_int32 = 2,
  nccl_int64 = 4,
  nccl_float16 = 6,
  nccl_float32 = 7,
  nccl_float64 = 8,
  nccl_bfloat16 = 9
};
enum NcclOperation : int { nccl_sum = 0, nccl_max = 2 };

struct NcclTable {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclId* id) = nullptr;
  // Returns at once; the communicator is there when its state is no longer nccl_in_progress.
  int (*init_rank)(void** communicator, int ranks, NcclId id, int rank, const char* name) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  int (*get_async_error)(void* communicator, int* state) = nullptr;
  const char* (*error_text)(int result) = nullptr;
  const char* (*last_error)(void* communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    void* communicator, void* stream) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t count, int type, void* communicator,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, std::size_t count, int type, int operation,
                        void* communicator, void* stream) = nullptr;
  int (*send)(const void* from, std::size_t count, int type, int peer, void* communicator,
              void* stream) = nullptr;
  int (*recv)(void* to, std::size_t count, int type, int peer, void* communicator, void* stream) = nullptr;
};

}  // namespace simrun::cuda
