#pragma once

#include "backend/operations.h"

// Mixtures of experts on the CPU; what they compute is in backend/operations.h.
namespace simrun::cpu {

template <class Real>
void run_route(const KernelCall& call);
template <class Real>
void run_route_backward(const KernelCall& call);
template <class Real>
void run_expert_load(const KernelCall& call);
// GATHER and SCATTER of `dispatch` and `combine`.
template <class Real>
void run_token_rows(const KernelCall& call);

// MAP `dispatch_masks` and its backward.
template <class Real>
void run_dispatch_masks(const KernelCall& call);
template <class Real>
void run_dispatch_masks_backward(const KernelCall& call);

// MAP `sigmoid_gate` and its backward.
template <class Real>
void run_sigmoid_gate(const KernelCall& call);

// MAP `weigh_rows` and `scale_rows`, and their backward.
template <class Real>
void run_weigh_rows(const KernelCall& call);
template <class Real>
void run_weigh_rows_backward(const KernelCall& call);

// Whether an operand is an experts' buffer.
bool has_rows(const KernelCall& call);
// Runs a kernel of whatever else for each of the rank's experts, with its rows and its part of every operand
// whose first dimension is `experts`.
template <class Real>
void run_by_expert(const KernelCall& call, void (*kernel)(const KernelCall&));

}  // namespace simrun::cpu
