#pragma once

#include "sim/kernel_cost.h"

// Kernels of convolutional and recurrent nets.
namespace simrun {

// A convolution as the matrix product that its implicit-GEMM kernel runs (Chetlur et al. 2014, cuDNN, arXiv
// 1410.0759, section 3.1); channels of the input are padded to 8, as cuDNN's tensor-core kernels want them
// (NVIDIA, "Convolutional Layers User's Guide", channels in and out).
//   output            M = N OH OW  N = K      K = C KH KW
//   gradient of x     M = N H W    N = C      K = K KH KW OH OW / (H W): a stride skips the rest
//   gradient of w     M = K        N = C KH KW   K = N OH OW
// Its bytes are those of x, y and w: the matrix of patches is never written.
GemmShape convolution_gemm(const Plan& plan, const Instruction& instruction);
KernelWork convolution_work(const Plan& plan, const Instruction& instruction);
double convolution_seconds(const Plan& plan, const Instruction& instruction);

// Bytes of a batch norm: it reads x twice (statistics, then normalisation) and writes y; backward it reads x
// and dy twice and writes dx. `bytes`: of all its operands once.
double batch_norm_bytes(const Plan& plan, const Instruction& instruction, double bytes);

// An LSTM's recurrence, step by step: for each position of the sequence one product [batch, gates x cell,
// hidden] and one pointwise kernel, each with its launch (cuDNN's standard algorithm, not the persistent
// kernels of Diamos et al. 2016, which keep the weight in registers).
KernelWork lstm_work(const Plan& plan, const Instruction& instruction);
double lstm_seconds(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
