#pragma once

#include <cstdint>
#include <vector>

#include "traces/imported_run.h"

namespace simrun {

// Exchanges of one kind, group size and number of bytes in the measured step of all imported ranks, as far as
// the trace says these.
struct ImportedExchange {
  Opcode opcode = Opcode::all_reduce;
  std::int64_t ranks = 0, bytes = 0;  // of a rank's larger buffer, as nccl-tests count
  std::int64_t count = 0;             // kernels
  double median_s = 0, total_s = 0;   // without waiting, where that is known
  bool operator==(const ImportedExchange&) const = default;
};

// Most time first.
std::vector<ImportedExchange> imported_exchanges(const ImportedRun& run);

}  // namespace simrun
