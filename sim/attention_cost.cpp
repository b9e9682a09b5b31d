#include "sim/attention_cost.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "sim/row_kernels.h"

namespace simrun {

namespace {

// Share of the rate of a good GEMM that a flash kernel reaches. FlashAttention-2 (Dao 2023, arXiv 2307.08691,
// abstract and section 4.1) reaches up to 73 % of an A100's peak forward and 63 % backward, where cuBLAS
// reaches about 85 %. FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608) reaches 75 % of an H100's peak
// forward, where cuBLAS reaches about 80 %, so this is rather low there.
constexpr double flash_forward_share = 0.73 / 0.85;
constexpr double flash_backward_share = 0.63 / 0.85;
constexpr std::int64_t flash_rows = 128;  // query rows of one thread block, in the same papers

// Extent of a named dimension, or 0 where the buffer has none of that name.
std::int64_t extent_of(const Plan& plan, const Buffer& buffer, std::string_view name) {
  for (const BufferDim& dim : buffer.dims)
    if (plan.dimension_names[dim.name] == name) return dim.extent;
  return 0;
}

// The first buffer of the instruction that has the named dimension.
const Buffer* buffer_with(const Plan& plan, const Instruction& instruction, std::string_view name) {
  for (const std::vector<Index>* list : {&instruction.inputs, &instruction.outputs})
    for (const Index index : *list)
      if (extent_of(plan, plan.buffers[index], name) > 0) return &plan.buffers[index];
  return nullptr;
}

// Keys by themselves, of another sequence: they have heads but no group of queries per head. Null where they
// are packed with q.
const Buffer* separate_keys(const Plan& plan, const Instruction& instruction) {
  if (buffer_with(plan, instruction, "qkv") != nullptr) return nullptr;
  for (const Index index : instruction.inputs) {
    const Buffer& buffer = plan.buffers[index];
    const bool has_heads = extent_of(plan, buffer, "head_dim") > 0 && extent_of(plan, buffer, "group") == 0;
    if (has_heads && extent_of(plan, buffer, "sequence") > 0) return &buffer;
  }
  return nullptr;
}

bool is_backward(const Instruction& instruction) { return instruction.opcode == Opcode::attention_backward; }

// A kernel between unfused attention's products, per element of the s x s matrix.
struct ScoreKernel {
  double bytes = 0;
  double random_numbers = 0;
  double operations = 0;
};

// megatron/model/fused_softmax.py: is_kernel_available, with scaled_upper_triang_masked_softmax's 4 rows of a
// thread block (8 of up to 128 keys).
bool takes_megatron_kernel(const FrameworkKernels& framework, const AttentionShape& a, bool causal) {
  const std::int64_t keys = a.key_sequence, rows = keys <= 128 ? 8 : 4, matrices = a.batch * a.heads;
  if (a.dtype == Dtype::fp32 || keys <= 16 || keys > framework.fused_softmax_limit) return false;
  if (a.sequence % 4 != 0 || matrices % 4 != 0) return false;
  return (causal ? matrices : a.sequence) % rows == 0;
}

// Scores keep the type of q; a dropout mask is one byte.
//   forward   scale + mask + softmax (read, write); dropout (read, write, write mask)
//   backward  softmax (read probabilities, read gradient, write); dropout (read gradient, read mask, write)
// Not fused, PyTorch goes through fp32 (forward_torch_softmax): cast, masked fill, softmax, cast; backward
// cast, softmax, fill, cast. Under autocast, which runs softmax in fp32 (PyTorch's list of autocast's
// operators): add, softmax into fp32, cast; backward cast, softmax out of fp32. In half precision: masked
// fill, softmax; backward softmax, fill.
std::vector<ScoreKernel> score_kernels(const FrameworkKernels& framework, const Instruction& instruction,
                                       const AttentionShape& a, SoftmaxKernel kernel) {
  const auto score = static_cast<double>(bytes_of(a.dtype));
  constexpr double mask = 1, wide = 4;
  const ScoreKernel masked{2 * score, 0, framework.broadcast_operations};
  const ScoreKernel masked_wide{2 * wide, 0, framework.broadcast_operations_fp32};
  std::vector<ScoreKernel> kernels;
  if (kernel == SoftmaxKernel::fused)
    kernels = {{(is_backward(instruction) ? 3 : 2) * score}};
  else if (kernel == SoftmaxKernel::autocast && is_backward(instruction))
    kernels = {{score + wide}, {2 * wide + score}};
  else if (kernel == SoftmaxKernel::autocast)
    kernels = {masked, {score + wide}, {score + wide}};
  else if (kernel == SoftmaxKernel::separate_half && is_backward(instruction))
    kernels = {{3 * score}, masked};
  else if (kernel == SoftmaxKernel::separate_half)
    kernels = {masked, {2 * score}};
  else if (is_backward(instruction))
    kernels = {{score + wide}, {3 * wide}, masked_wide, {score + wide}};
  else
    kernels = {{score + wide}, masked_wide, {2 * wide}, {score + wide}};
  if (instruction.dropout > 0) kernels.push_back({2 * score + mask, is_backward(instruction) ? 0.0 : 1.0});
  // Scores / cap, tanh, x cap; backward x cap, tanh's from its output, / cap (Hugging Face's
  // Gemma2 eager attention, modeling_gemma2.py).
  if (instruction.soft_cap) {
    kernels.insert(kernels.end(), 2, {2 * score});
    kernels.push_back({(is_backward(instruction) ? 3 : 2) * score});
  }
  // Scores + bias, whose own gradient nobody wants (Hugging Face's MptAttention, modeling_mpt.py).
  if (instruction.alibi && !is_backward(instruction)) kernels.push_back({2 * score});
  return kernels;
}

// The products of unfused attention: scores = q k', context = p v; backward dv = p' do, dp = do v', dq = ds
// k, dk = ds' q.
std::vector<GemmShape> unfused_products(const AttentionShape& a, const Instruction& instruction) {
  const std::int64_t batch = a.batch * a.heads;
  const auto times = [&](std::int64_t rows, std::int64_t depth, std::int64_t columns) {
    return GemmShape{.batch = batch,
                     .m = rows,
                     .n = columns,
                     .k = depth,
                     .input = a.dtype,
                     .output = a.dtype,
                     .unaligned = (a.head_dim | a.values() | a.key_sequence) * bytes_of(a.dtype) % 16 != 0};
  };
  const std::int64_t queries = a.sequence, keys = a.key_sequence;
  if (is_backward(instruction))
    return {times(keys, queries, a.values()), times(queries, a.values(), keys),
            times(queries, keys, a.head_dim), times(keys, queries, a.head_dim)};
  return {times(queries, a.head_dim, keys), times(queries, keys, a.values())};
}

// Megatron-LM's CoreAttention turns the context from [batch, heads, s, d] into rows of tokens and, backward,
// joins the gradients of q, k and v: copies that the fused default leaves out.
std::vector<RowKernel> copies_around(const Plan& plan, const Instruction& instruction,
                                     const AttentionShape& a) {
  if (plan.framework.kernels.softmax == SoftmaxKernel::fused) return {};
  const double context =
      2.0 * static_cast<double>(a.batch * a.sequence * a.heads * a.values() * bytes_of(a.dtype));
  if (!is_backward(instruction)) return {{context}};
  const Buffer& packed = plan.buffers[instruction.outputs.at(0)];
  return {{context}, {2.0 * static_cast<double>(packed.elements() * bytes_of(packed.dtype))}};
}

double score_elements(const AttentionShape& a) {
  return static_cast<double>(a.batch * a.heads * a.sequence) * static_cast<double>(a.key_sequence);
}

// Of FLOPs that the mask leaves: FlashAttention's own figures where the framework names a generation that the
// device's file has, else a share of the rate of products.
double flash_flops_per_second(const Plan& plan, const Instruction& instruction, const AttentionShape& a) {
  const Gpu& gpu = plan.cluster.gpu;
  const int generation = plan.framework.kernels.flash_attention;
  const FlashRate* rate =
      generation > 0 ? &gpu.kernels.flash[static_cast<std::size_t>(generation - 1)] : nullptr;
  const bool backward = is_backward(instruction);
  if (rate == nullptr || !rate->is_stated())
    return matmul_flops_per_second(gpu, a.dtype) * (backward ? flash_backward_share : flash_forward_share);
  const double width = std::clamp(static_cast<double>(a.head_dim - 64) / 64.0, 0.0, 1.0);
  const double of_width = rate->narrow + (1 - rate->narrow) * width;
  const double keys =
      static_cast<double>(a.key_sequence) * computed_share(instruction.causal, a.key_sequence);
  const double of_mask = instruction.causal.on ? keys / (keys + rate->masked_keys) : 1;
  return gpu.peak_flops.at(a.dtype) * (backward ? rate->backward : rate->forward) * of_width * of_mask *
         gpu.kernels.sustained;
}

double flash_seconds(const Plan& plan, const Instruction& instruction) {
  const Gpu& gpu = plan.cluster.gpu;
  const AttentionShape a = attention_shape(plan, instruction);
  const KernelWork work = attention_work(plan, instruction);
  // Whole waves of blocks of query rows, as for a GEMM's tiles.
  const std::int64_t blocks = a.batch * a.heads * ((a.sequence + flash_rows - 1) / flash_rows);
  const std::int64_t waves = (blocks + gpu.sm_count - 1) / gpu.sm_count;
  const double idle = static_cast<double>(waves * gpu.sm_count) / static_cast<double>(blocks);
  double compute = work.flops * idle / flash_flops_per_second(plan, instruction, a);
  // A tanh of every score that is computed, or ALiBi's multiply-add outside the tensor cores, each again in
  // the backward kernel. The softmax's own exponential is within the measured share.
  const double scores = score_elements(a) * computed_share(instruction.causal, a.key_sequence) * idle;
  if (instruction.soft_cap && gpu.special_functions > 0) compute += scores / gpu.special_functions;
  if (instruction.alibi && gpu.vector_flops > 0) compute += 2 * scores / gpu.vector_flops;
  // Dropout's mask is not kept: both kernels draw it (Dao et al. 2022, arXiv 2205.14135, appendix B.2 and
  // B.4).
  if (instruction.dropout > 0 && gpu.kernels.random_numbers > 0)
    compute += scores / gpu.kernels.random_numbers;
  return std::max(compute + gpu.kernel_launch_s, row_kernel_seconds(gpu, work.bytes));
}

}  // namespace

SoftmaxKernel softmax_kernel(const Plan& plan, const Instruction& instruction, const AttentionShape& a) {
  const SoftmaxKernel kernel = plan.framework.kernels.softmax;
  return kernel != SoftmaxKernel::megatron                                         ? kernel
         : takes_megatron_kernel(plan.framework.kernels, a, instruction.causal.on) ? SoftmaxKernel::fused
                                                                                   : SoftmaxKernel::separate;
}

AttentionShape attention_shape(const Plan& plan, const Instruction& instruction) {
  const Buffer* packed = buffer_with(plan, instruction, "qkv");
  const Buffer* latent = packed != nullptr ? nullptr : buffer_with(plan, instruction, "qk_dim");
  const Buffer* buffer = packed != nullptr   ? packed
                         : latent != nullptr ? latent
                                             : buffer_with(plan, instruction, "group");
  if (buffer == nullptr) buffer = &plan.buffers[instruction.outputs.at(0)];
  const auto extent = [&](std::string_view name) {
    return std::max<std::int64_t>(extent_of(plan, *buffer, name), 1);
  };
  AttentionShape shape;
  shape.batch = extent("batch");
  shape.sequence = extent("sequence");
  shape.heads = extent("kv_heads") * (packed != nullptr ? extent("qkv") - 2 : extent("group"));
  shape.head_dim = extent(latent != nullptr ? "qk_dim" : "head_dim");
  if (latent != nullptr) shape.value_dim = extent_of(plan, *buffer_with(plan, instruction, "v_dim"), "v_dim");
  shape.dtype = buffer->dtype;
  const Buffer* keys = buffer_with(plan, instruction, "key_sequence");
  if (const Buffer* separate = separate_keys(plan, instruction))
    shape.key_sequence = extent_of(plan, *separate, "sequence");
  else
    shape.key_sequence = keys != nullptr ? extent_of(plan, *keys, "key_sequence") : shape.sequence;
  return shape;
}

KernelWork attention_work(const Plan& plan, const Instruction& instruction) {
  const AttentionShape a = attention_shape(plan, instruction);
  KernelWork work;
  if (instruction.function == Function::unfused) {
    const double element_bytes = static_cast<double>(bytes_of(a.dtype));
    for (const GemmShape& g : unfused_products(a, instruction)) {
      work.flops += 2.0 * static_cast<double>(g.batch * g.m * g.n) * static_cast<double>(g.k);
      work.bytes += static_cast<double>(g.batch * (g.m * g.k + g.k * g.n + g.m * g.n)) * element_bytes;
    }
    for (const ScoreKernel& kernel :
         score_kernels(plan.framework.kernels, instruction, a, softmax_kernel(plan, instruction, a)))
      work.bytes += kernel.bytes * score_elements(a);
    return work;
  }
  // Forward q k' and p v; backward q k' again, do v', p' do, ds k and ds' q.
  const auto queries = static_cast<double>(a.head_dim), values = static_cast<double>(a.values());
  work.flops =
      2.0 * score_elements(a) * (is_backward(instruction) ? 3 * queries + 2 * values : queries + values);
  // Of a part of a sequence the work table says what the mask leaves.
  if (instruction.part.axes.empty()) work.flops *= computed_share(instruction.causal, a.key_sequence);
  for (const std::vector<Index>* list : {&instruction.inputs, &instruction.outputs})
    for (const Index index : *list)
      work.bytes += static_cast<double>(plan.buffers[index].elements() * bytes_of(plan.buffers[index].dtype));
  return work;
}

std::int64_t attention_launches(const Plan& plan, const Instruction& instruction) {
  if (instruction.function != Function::unfused) return 1;
  const AttentionShape a = attention_shape(plan, instruction);
  return static_cast<std::int64_t>(
      unfused_products(a, instruction).size() +
      score_kernels(plan.framework.kernels, instruction, a, softmax_kernel(plan, instruction, a)).size() +
      copies_around(plan, instruction, a).size());
}

double attention_seconds(const Plan& plan, const Instruction& instruction) {
  if (instruction.function != Function::unfused) return flash_seconds(plan, instruction);
  const Gpu& gpu = plan.cluster.gpu;
  const AttentionShape a = attention_shape(plan, instruction);
  double seconds = 0;
  for (const GemmShape& g : unfused_products(a, instruction))
    seconds += gemm_seconds(gpu, g) + gpu.kernel_launch_s;
  for (const ScoreKernel& kernel :
       score_kernels(plan.framework.kernels, instruction, a, softmax_kernel(plan, instruction, a)))
    seconds += row_kernel_seconds(gpu, RowKernel{.bytes = kernel.bytes * score_elements(a),
                                                 .random_numbers = kernel.random_numbers * score_elements(a),
                                                 .operations = kernel.operations * score_elements(a)});
  for (const RowKernel& copy : copies_around(plan, instruction, a)) seconds += row_kernel_seconds(gpu, copy);
  return seconds;
}

}  // namespace simrun
