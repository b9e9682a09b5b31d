#include "validation/row_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "configs/pipeline_layout.h"
#include "validation/row_cells.h"

namespace simrun {
namespace {

std::int64_t size_in(const RowJob& made, Column column) {
  return std::max<std::int64_t>(made.row.integer(column).value_or(1), 1);
}

void assume(RowJob& made, Column column, std::int64_t value) {
  assume(made, column, fmt::format("{}", value));
}

// Tensor parallelism of the experts is that of the rest unless the job says otherwise (Megatron-LM's
// --expert-tensor-parallel-size).
std::int64_t expert_tensor_ranks(const RowJob& made) {
  const std::string stated = made.job.value("parallelism.expert_tensor_parallel_size");
  return stated.empty() ? size_in(made, Column::tp) : std::max<std::int64_t>(std::atoll(stated.c_str()), 1);
}

void fill_in_gpus(RowJob& made, const SizeGuess& guess) {
  if (made.row.fault.empty()) made.row.fault = contradiction_of_sizes(made.row);
  const std::int64_t split =
      size_in(made, Column::tp) * size_in(made, Column::pp) * size_in(made, Column::cp);
  const std::int64_t expert_split =
      size_in(made, Column::ep) * expert_tensor_ranks(made) * size_in(made, Column::pp);
  const auto data = made.row.integer(Column::dp);
  const std::int64_t stated = data ? split * *data : std::lcm(split, expert_split);
  made.guesses_gpus = made.guesses_gpus && (stated == 1 || guess.n_gpus > 0);
  assume(made, Column::n_gpus, made.guesses_gpus && guess.n_gpus > 0 ? guess.n_gpus : stated);
  const std::int64_t gpus = size_in(made, Column::n_gpus);
  if (gpus % split == 0) assume(made, Column::dp, gpus / split);
}

// Megatron-LM's examples have 2,048 tokens; no model has more than its positions.
std::int64_t usual_sequence(const RowJob& made) {
  const auto positions = made.facts.find("positions");
  const std::int64_t most = positions == made.facts.end() ? 0 : std::atoll(positions->second.c_str());
  return most > 0 ? std::min<std::int64_t>(most, 2048) : 2048;
}

// What a data-parallel rank without a pipeline takes in one piece, in tokens. Of rows that print both sizes
// (tests/data/validation, 1,100 jobs without a pipeline) 81 % of the ranks' batches of up to 8,192 tokens are
// one microbatch and 54 % of those from there to 16,384; of an only replica's 65 % of those from there to
// 32,768, too.
std::int64_t most_in_one_piece(const RowJob& made) { return size_in(made, Column::dp) > 1 ? 16384 : 32768; }

// A data-parallel rank's batch where that is small. Otherwise 2,048 tokens or 32 images, or one longer
// sequence: what leaves it out is mostly large and short of memory. A power of two of sequences, of which a
// data-parallel rank's batch is a multiple; with a pipeline no more than leaves it four microbatches per
// stage.
std::int64_t usual_micro_batch(const RowJob& made) {
  const std::int64_t data = size_in(made, Column::dp), stages = size_in(made, Column::pp);
  constexpr std::int64_t images = 32;
  const bool reads = made.facts.contains("reads");
  std::int64_t most = reads ? images : 2048 / size_in(made, Column::seq_len);
  const auto global = made.row.integer(Column::global_batch);
  if (global && !reads && stages == 1 && *global >= data && *global % data == 0 &&
      *global / data <= most_in_one_piece(made) / size_in(made, Column::seq_len))
    return *global / data;
  if (global) most = std::min(most, *global / data / (stages > 1 ? 4 * stages : 1));
  std::int64_t sequences = 1;
  while (2 * sequences <= most && (!global || *global % (2 * sequences * data) == 0)) sequences *= 2;
  return sequences;
}

// A rule's microbatch has no more sequences than a data-parallel rank's stated batch.
void keep_in_batch(RowJob& made) {
  const auto global = made.row.integer(Column::global_batch);
  const std::int64_t micro = size_in(made, Column::micro_batch);
  const auto assumed = std::ranges::find(made.assumed, fmt::format("micro_batch={}", micro));
  if (!global || assumed == made.assumed.end()) return;
  const std::int64_t most = std::max<std::int64_t>(1, *global / size_in(made, Column::dp));
  if (micro <= most) return;
  made.row[Column::micro_batch] = fmt::format("{}", most);
  *assumed = "micro_batch=" + made.row[Column::micro_batch];
}

void fill_in_batch(RowJob& made, const SizeGuess& guess) {
  if (!made.facts.contains("reads")) assume(made, Column::seq_len, usual_sequence(made));
  const std::int64_t data = size_in(made, Column::dp), stages = size_in(made, Column::pp);
  made.guesses_micro_batch = made.row[Column::micro_batch].empty() && !made.has_source_rule;
  if (made.guesses_micro_batch)
    assume(made, Column::micro_batch, guess.micro_batch > 0 ? guess.micro_batch : usual_micro_batch(made));
  assume(made, Column::micro_batch, 1);
  keep_in_batch(made);
  const std::int64_t passes = stages > 1 ? 4 * stages : made.has_source_rule ? 1 : 4;
  const std::int64_t micro = size_in(made, Column::micro_batch);
  const bool is_countable = static_cast<double>(micro) * static_cast<double>(data * passes) <= most_counted;
  assume(made, Column::global_batch, is_countable ? micro * data * passes : micro);
}

// Of 128 elements (64 below a width of 2,048), or as near to that as divides the width and is divisible by
// the tensor-parallel ranks and by the key-value heads.
std::int64_t usual_heads(std::int64_t hidden, std::int64_t tensor_parallel, std::int64_t kv_heads) {
  const std::int64_t wanted = std::max<std::int64_t>(1, hidden / (hidden < 2048 ? 64 : 128));
  const auto fits = [&](std::int64_t heads) {
    return hidden % heads == 0 && heads % tensor_parallel == 0 && heads % kv_heads == 0;
  };
  for (std::int64_t away = 0; away < wanted; ++away) {
    if (fits(wanted - away)) return wanted - away;
    if (fits(wanted + away)) return wanted + away;
  }
  return wanted;
}

void fill_in_model(RowJob& made) {
  if (made.job.has("model.from")) return;
  const auto hidden = made.row.integer(Column::hidden);
  if (!hidden) return;
  assume(made, Column::heads,
         usual_heads(*hidden, size_in(made, Column::tp), size_in(made, Column::kv_heads)));
  assume(made, Column::kv_heads, made.row[Column::heads]);
  if (!made.row[Column::n_experts].empty()) assume(made, Column::topk, 2);
  assume(made, Column::vocab, usual_vocabulary);
}

// Per rank. Where the row has a layout, as many as its stages make; of the schedules whose stages make a V
// two; of an interleaved schedule with no number of them one layer in each, the usual value of Megatron-LM's
// --num-layers-per-virtual-pipeline-stage. Zero Bubble's models have a layer less on the first and last
// stage.
std::int64_t virtual_stages(const RowJob& made) {
  if (const auto layout = made.facts.find("stage_layout"); layout != made.facts.end()) {
    const auto stages = static_cast<std::int64_t>(parse_pipeline_layout(layout->second).stages.size());
    return std::max<std::int64_t>(stages / size_in(made, Column::pp), 1);
  }
  const std::string& schedule = made.row[Column::schedule];
  const std::int64_t layers = size_in(made, Column::layers), ranks = size_in(made, Column::pp);
  for (const char* two : {"zb_v", "v_half", "v_min", "v_auto", "dualpipe_v"})
    if (schedule == two) return 2;
  if (!schedule.starts_with("interleaved")) return 1;
  return layers % ranks == 0 ? layers / ranks : (layers + 2) % ranks == 0 ? (layers + 2) / ranks : 1;
}

}  // namespace

void assume(RowJob& made, Column column, const std::string& value) {
  std::string& cell = made.row[column];
  if (!cell.empty() && cell != "?") return;
  cell = value;
  made.assumed.push_back(fmt::format("{}={}", column_names()[static_cast<std::size_t>(column)], value));
}

namespace {

// Whether every parameter is sharded over the data-parallel ranks: with ZeRO-3 nothing has to be split.
bool shards_parameters(const RowJob& made) {
  const std::string& cell = made.row[Column::zero_stage];
  return cell == "3" || cell.find("fsdp") != std::string::npos;
}

// What GPUs and data-parallel ranks leave to a split that the row does not state: tensor-parallel ranks
// first, up to eight. A batch of fewer microbatches than there are GPUs is at most so many data-parallel
// ranks, which is what is tried first.
void split_by_quotient(RowJob& made, const SizeGuess& guess) {
  const auto gpus = made.row.integer(Column::n_gpus), global = made.row.integer(Column::global_batch);
  auto data = made.row.integer(Column::dp);
  const bool is_first = guess.tensor <= 1 && guess.pipeline <= 1;
  if (!data && gpus && global && is_first && !made.has_source_rule && !shards_parameters(made)) {
    const std::int64_t microbatches = *global / size_in(made, Column::micro_batch);
    if (microbatches > 0 && microbatches < *gpus) data = microbatches;
  }
  if (!gpus || !data || *gpus % *data != 0) return;
  const std::int64_t ranks = *gpus / *data, tensor = std::gcd(ranks, std::int64_t{8});
  assume(made, Column::tp, tensor);
  assume(made, Column::pp, ranks / tensor);
}

// Parameters are shared by fewer ranks than there are, and what experts are split over is not said: over the
// other ranks, since nobody keeps copies of experts where a copy of the rest has to be shared. The axes of
// MaxText's mesh make up all devices, and what has no experts is sharded along that of experts, too
// (base.yml, logical_axis_rules of embed).
void split_experts_over_the_rest(RowJob& made) {
  const auto sharing = made.facts.find("shard_ranks");
  const auto experts = made.row.integer(Column::n_experts), gpus = made.row.integer(Column::n_gpus);
  if (sharing == made.facts.end() || !experts || !gpus || !shards_parameters(made)) return;
  const std::int64_t ranks = std::max<std::int64_t>(std::atoll(sharing->second.c_str()), 1);
  const std::int64_t split =
      size_in(made, Column::tp) * size_in(made, Column::pp) * size_in(made, Column::cp);
  if (ranks > *gpus) return;
  const std::int64_t rest = *gpus / split / ranks;
  if (*gpus % (split * ranks) != 0 || rest < 2 || *experts % rest != 0) return;
  if (!made.row[Column::ep].empty()) return;
  assume(made, Column::ep, rest);
  made.facts.erase("shard_ranks");
}

// Where a source has no rule.
void fill_in_split(RowJob& made, const SizeGuess& guess) {
  const auto is_blank = [&](Column column) { return made.row[column].empty(); };
  const bool is_open = is_blank(Column::tp) && is_blank(Column::pp);
  if (is_open && is_blank(Column::cp)) split_by_quotient(made, guess);
  made.guesses_split = !made.has_source_rule && is_open && is_blank(Column::dp) && !shards_parameters(made);
  made.guesses_experts = !made.has_source_rule && !is_blank(Column::n_experts) && is_blank(Column::ep);
  split_experts_over_the_rest(made);
  if (made.guesses_split && guess.tensor > 1) assume(made, Column::tp, guess.tensor);
  if (made.guesses_split && guess.pipeline > 1) assume(made, Column::pp, guess.pipeline);
  if (made.guesses_experts && guess.expert > 1) assume(made, Column::ep, guess.expert);
  for (const Column size : {Column::tp, Column::pp, Column::cp}) assume(made, size, 1);
  if (!is_blank(Column::n_experts)) assume(made, Column::ep, 1);
}

}  // namespace

void fill_in_defaults(RowJob& made, const SizeGuess& guess) {
  made.guesses_gpus = made.row[Column::n_gpus].empty() && made.row[Column::dp].empty();
  fill_in_split(made, guess);
  fill_in_gpus(made, guess);
  fill_in_batch(made, guess);
  fill_in_model(made);
  assume(made, Column::gpus_per_node, 8);
  assume(made, Column::precision, "bf16");
  assume(made, Column::zero_stage, "1");
  made.guesses_sharding = !made.has_source_rule && size_in(made, Column::dp) > 1 &&
                          std::ranges::find(made.assumed, "zero_stage=0") != made.assumed.end();
  assume(made, Column::recompute, "none");
  assume(made, Column::flash_attention, "1");
  if (size_in(made, Column::tp) > 1) assume(made, Column::sp, 0);
  if (size_in(made, Column::pp) > 1) {
    assume(made, Column::vpp, virtual_stages(made));
    if (made.row[Column::schedule].empty())
      assume(made, Column::schedule, size_in(made, Column::vpp) > 1 ? "interleaved-1f1b" : "1f1b");
  }
}

}  // namespace simrun
