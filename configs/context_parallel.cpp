// Context parallelism: its keys of the parallelism section, and what they ask of the rest of the job.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/nearest.h"

namespace simrun {

// Read where they say something: with context_parallel_size 1 only if they are written.
void read_context_parallel(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  const bool splits = parallelism.context_parallel_size > 1;
  section.ignore({"cp_comm_type", "context_parallel_layout", "hierarchical_context_parallel_sizes"});
  if (splits || section.has("cp_comm_type")) {
    const std::string type =
        section.word("cp_comm_type", {{"p2p", "all_gather", "a2a", "a2a+p2p"}, {}}, "p2p");
    if (type == "all_gather") parallelism.cp_comm_type = ContextExchange::all_gather;
    if (type == "a2a") parallelism.cp_comm_type = ContextExchange::a2a;
    if (type == "a2a+p2p") parallelism.cp_comm_type = ContextExchange::a2a_p2p;
  }
  if (splits || section.has("context_parallel_layout")) {
    const std::string layout =
        section.word("context_parallel_layout", {{"zigzag", "contiguous"}, {}}, "zigzag");
    if (layout == "contiguous") parallelism.context_parallel_layout = ContextLayout::contiguous;
  }
  const std::string sizes = "hierarchical_context_parallel_sizes";
  if (parallelism.cp_comm_type == ContextExchange::a2a_p2p && splits) {
    const std::vector<std::int64_t> cut = section.integers(sizes, limits::parallel, 2);
    if (cut.size() != 2) return;
    parallelism.context_a2a_size = cut[0];
    if (cut[0] > parallelism.context_parallel_size || cut[0] * cut[1] != parallelism.context_parallel_size)
      reading.problem(section.path_of(sizes),
                      fmt::format("{} x {} = {} is not context_parallel_size {}", cut[0], cut[1],
                                  cut[0] * cut[1], parallelism.context_parallel_size),
                      "[all-to-all among neighbours, ring over these groups].");
  } else if (section.has(sizes) && splits) {
    const std::vector<std::int64_t> cut = section.integers(sizes, limits::parallel, 2);
    if (!cut.empty())
      reading.problem(section.path_of(sizes),
                      "hierarchical_context_parallel_sizes means nothing without cp_comm_type: a2a+p2p",
                      "it cuts the group into [all-to-all, ring].");
  }
  if (parallelism.cp_comm_type == ContextExchange::a2a)
    parallelism.context_a2a_size = parallelism.context_parallel_size;
}

namespace {

void check_sequence(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t cp = parallelism.context_parallel_size;
  const std::int64_t sequence = job.training.seq_length;
  const std::int64_t tp = parallelism.sequence_parallel ? parallelism.tensor_model_parallel_size : 1;
  const bool zigzag = parallelism.context_parallel_layout == ContextLayout::zigzag;
  const std::int64_t parts = cp * (zigzag ? 2 : 1) * tp;
  if (sequence == 0 || parts == 0 || sequence % parts == 0) return;
  std::string product = fmt::format("context parallel {}", cp);
  if (zigzag) product += " x 2 zigzag blocks";
  if (tp > 1) product += fmt::format(" x tensor parallel {} (sequence_parallel)", tp);
  reading.problem("training.seq_length",
                  fmt::format("seq_length {} does not split into {} = {} parts", sequence, product, parts),
                  nearest_multiples(sequence, parts, longest_sequence(reading, job)));
}

// "8 and 40 do.": the ranks next to `size` that may exchange heads where tensor parallelism divides none.
std::string nearest_exchanges(std::int64_t heads, std::int64_t kv_heads, std::int64_t size) {
  const auto works = [&](std::int64_t ranks) {
    return heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0);
  };
  std::int64_t below = std::min(size - 1, heads), above = size + 1;
  while (below > 1 && !works(below)) --below;
  while (above <= heads && !works(above)) ++above;
  return above <= heads ? fmt::format("{} and {} do.", below, above) : fmt::format("at most {}.", below);
}

// One copy of a key-value head for each rank: `size` exchange heads, of each of `tensor` ranks. What copies
// for tensor-parallel ranks ask for is asked elsewhere (configs/job_rules.cpp).
void check_copies(Reading& reading, const Job& job, const std::string& path, std::int64_t tensor) {
  const ModelConfig& model = job.model;
  const std::int64_t size = job.parallelism.context_a2a_size, ranks = tensor * size;
  const std::int64_t heads = model.num_attention_heads, kv_heads = model.num_key_value_heads;
  if (heads % ranks != 0) {
    const std::string of_rank =
        tensor == 1 ? "" : fmt::format(" of a tensor-parallel rank ({} / {})", heads, tensor);
    if (heads % tensor == 0)
      reading.problem(
          path,
          fmt::format("core_attention: {} attention heads{} do not split into {} by all-to-all",
                      heads / tensor, of_rank, size),
          tensor == 1 ? nearest_exchanges(heads, kv_heads, size) : nearest_divisors(heads / tensor, size));
    return;
  }
  if (tensor > 1) return;
  if (ranks % kv_heads != 0)
    reading.problem(path,
                    fmt::format("core_attention: all-to-all over {} ranks gives them unequal copies of {} "
                                "key-value heads",
                                ranks, kv_heads),
                    nearest_exchanges(heads, kv_heads, size));
  if (model.qk_norm == QkNorm::of_all_heads || model.qk_norm == QkNorm::by_head)
    reading.problem(path,
                    fmt::format("norms that weight each of {} key-value heads do not go with copies of them "
                                "for {} ranks",
                                kv_heads, ranks),
                    nearest_divisors(kv_heads, size));
  check_adapters_of_copies(reading, job, "all-to-all over");
}

// Heads are exchanged with their keys and values, whole groups at a time.
void check_heads(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t size = parallelism.context_a2a_size, tp = parallelism.tensor_model_parallel_size;
  const std::int64_t kv_heads = job.model.num_key_value_heads;
  if (size <= 1 || tp == 0 || kv_heads == 0) return;
  const bool hybrid = parallelism.cp_comm_type == ContextExchange::a2a_p2p;
  const std::string path =
      hybrid ? "parallelism.hierarchical_context_parallel_sizes" : "parallelism.cp_comm_type";
  if (copies_key_value_heads(job.model, tp, size)) return check_copies(reading, job, path, tp);
  if (kv_heads % tp != 0) return;
  const std::int64_t heads = kv_heads / tp;
  if (heads % size == 0) return;
  reading.problem(path,
                  fmt::format("core_attention: {} key-value heads of a tensor-parallel rank ({} / {}) do not "
                              "split into {} by all-to-all",
                              heads, kv_heads, tp, size),
                  nearest_divisors(heads, size));
}

}  // namespace

void check_context_parallel(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (parallelism.context_parallel_size <= 1) return;
  check_sequence(reading, job);
  check_heads(reading, job);
  if (job.model.attention_sinks && parallelism.cp_comm_type != ContextExchange::a2a)
    reading.problem("parallelism.cp_comm_type",
                    "core_attention: Transformer Engine adds sinks to whole rows of scores only",
                    "a2a does.");
  if (job.training.attention == AttentionKernel::unfused && parallelism.cp_comm_type != ContextExchange::a2a)
    reading.problem("training.attention",
                    "core_attention: unfused attention has no log-sum-exp to join parts of a sequence by",
                    "attention: flash, or cp_comm_type: a2a.");
}

}  // namespace simrun
