#include "validation/size_guess.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace simrun {
namespace {

constexpr std::int64_t most_tensor_ranks = 8;

std::int64_t size(const RowJob& made, Column column) {
  return std::max<std::int64_t>(made.row.integer(column).value_or(1), 1);
}

// 0: not known.
std::int64_t heads_of(const RowJob& made) {
  const auto of_preset = made.facts.find("heads");
  if (of_preset != made.facts.end()) return std::atoll(of_preset->second.c_str());
  return made.row.integer(Column::heads).value_or(0);
}

SizeGuess last_guess(const RowJob& made) {
  return {made.guesses_gpus ? size(made, Column::n_gpus) : 0,
          made.guesses_micro_batch ? size(made, Column::micro_batch) : 0,
          made.guesses_split ? size(made, Column::tp) : 0,
          made.guesses_split ? size(made, Column::pp) : 0,
          made.guesses_experts ? size(made, Column::ep) : 0,
          made.shards_to_fit};
}

// Half of it, or what is less and divides a data-parallel rank's batch.
std::int64_t smaller_micro_batch(const RowJob& made, std::int64_t sequences) {
  const std::int64_t data = size(made, Column::dp), global = size(made, Column::global_batch);
  const std::int64_t of_rank = global % data == 0 ? global / data : 0;
  std::int64_t smaller = sequences / 2;
  while (smaller > 1 && of_rank % smaller != 0) --smaller;
  return smaller;
}

}  // namespace

std::optional<SizeGuess> next_guess(const RowJob& made) {
  SizeGuess guess = last_guess(made);
  const std::int64_t gpus = size(made, Column::n_gpus), per_node = size(made, Column::gpus_per_node),
                     tensor = size(made, Column::tp), split = tensor * size(made, Column::pp);
  if (made.guesses_sharding) {
    guess.shards = true;
    return guess;
  }
  if (guess.micro_batch > 1) {
    guess.micro_batch = smaller_micro_batch(made, guess.micro_batch);
    return guess;
  }
  const std::int64_t experts = std::gcd(size(made, Column::n_experts), size(made, Column::dp));
  if (guess.expert > 0 && guess.expert < experts) {
    guess.expert = experts;
    return guess;
  }
  if (made.guesses_gpus && gpus < per_node) {
    guess.n_gpus = std::min(2 * gpus, per_node);
    return guess;
  }
  const bool is_node_full = 2 * tensor > std::min(per_node, most_tensor_ranks) || gpus % (2 * split) != 0 ||
                            heads_of(made) % (2 * tensor) != 0;
  if (made.guesses_split && !is_node_full) {
    guess.tensor = 2 * tensor;
    return guess;
  }
  if (made.guesses_gpus) {
    guess.n_gpus = 2 * gpus;
    if (guess.n_gpus > most_guessed_nodes * per_node) return std::nullopt;
  } else if (gpus % (2 * split) != 0) {
    return std::nullopt;
  }
  if (!made.guesses_gpus && !made.guesses_split) return std::nullopt;
  if (made.guesses_split) guess.pipeline = 2 * size(made, Column::pp);
  // Of the ranks of a stage.
  const std::int64_t ranks = std::max(gpus, guess.n_gpus) / std::max<std::int64_t>(guess.pipeline, 1);
  if (guess.expert > 0) guess.expert = std::gcd(guess.expert, ranks);
  return guess;
}

}  // namespace simrun
