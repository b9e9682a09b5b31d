#pragma once

#include <string>

#include "backend/cuda/nccl_table.h"

namespace simrun::cuda {

// libnccl.so.2, opened when it is first asked for.
struct NcclLibrary {
  NcclTable table;
  std::string why_not;  // why it cannot be used, in the loader's words; empty: it can
};
const NcclLibrary& nccl_library();

}  // namespace simrun::cuda
