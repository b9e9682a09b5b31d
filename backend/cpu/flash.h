#pragma once

#include "backend/operations.h"

namespace simrun::cpu {

// Whether an attention is the one that most models have: flash, over packed q, k, v of whole sequences, with
// a causal mask or none, and nothing else. That one goes in blocks of queries, which read only the keys
// that they see; all others go through backend/cpu/attention.cpp, which says the same more plainly.
bool is_plain_flash(const KernelCall& call);

template <class Real>
void run_plain_flash(const KernelCall& call);
template <class Real>
void run_plain_flash_backward(const KernelCall& call);

}  // namespace simrun::cpu
