#pragma once

#include <optional>
#include <string_view>

#include "models/opcode.h"
#include "traces/recorded_trace.h"

namespace simrun {

// What a kernel does, in the Plan's terms. No opcode: not known.
struct KernelKind {
  std::optional<Opcode> opcode;
  Function function = Function::none;
  bool backward = false;    // its name says so
  bool exchanges = false;   // between GPUs, whether or not its name says what
  bool is_of_host = false;  // a copy to or from the host's memory, which no multiprocessor works on
  bool operator==(const KernelKind&) const = default;
};

// By its name, as cuBLAS, CUTLASS, cuDNN, NCCL, RCCL, NVSHMEM, PyTorch, Transformer Engine, Apex, vLLM,
// FlashAttention, Triton, rocBLAS and DeepEP call their kernels; of simrun's own traces, and Chakra's
// operators, by their first word. Upper and lower case are the same. NCCL's SendRecv counts as a send.
KernelKind kernel_kind(std::string_view name);

// Of a kernel that says to which collective it belongs: NCCL runs an all-to-all as SendRecv.
std::optional<Opcode> exchange_opcode(const TracedExchange& exchange);

}  // namespace simrun
