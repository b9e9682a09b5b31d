#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/job.h"
#include "tests/cover/pairwise_cover.h"

// The jobs of the cover test: tiny models x layouts x schedules x optimizers. Every list is here.
namespace simrun {

// A model of a few thousand parameters.
struct CoverModel {
  const char* name;
  std::string yaml;                           // the model section in flow style, without its closing brace
  std::string dropout;                        // further keys with dropout; empty: it has none
  std::string whole;                          // and without
  std::size_t least = 0;                      // combinations that must have it
  std::string training = ", seq_length: 16";  // keys of its own, each behind a comma
  // Batch norm makes gradients, and with them rounding errors, grow with depth (Yang et al. 2019, arXiv
  // 1902.08129): over ResNet-50's layers 10,000 times, and an f32 step is far from an f64 step on one rank
  // too.
  bool in_f32 = true;
};
const std::vector<CoverModel>& cover_models();

// What a combination is made of, by factor.
enum class Factor : std::size_t {
  pipeline,
  model,
  context,
  tensor,
  zero,
  overlap,
  data,
  recompute,
  experts,
  dropout,
  type,
  micro_batch
};
constexpr std::size_t factor_count = static_cast<std::size_t>(Factor::micro_batch) + 1;

std::vector<std::size_t> factor_sizes();
std::string name_of(const Combination& combination);

struct CoverJob {
  std::string yaml;  // of the whole job; empty: it has more than 16 ranks, or dropout or a type
                     // that the model has not
  bool in_f32 = false;
};
CoverJob cover_job(const Combination& combination);

}  // namespace simrun
