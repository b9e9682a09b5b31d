#include "tests/cover/pairwise_cover.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace simrun {
namespace {

// Value `value` of factor `factor`.
struct Level {
  std::size_t factor = 0, value = 0;
  auto operator<=>(const Level&) const = default;  // NOLINT(modernize-use-nullptr)
};
using Pair = std::pair<Level, Level>;  // the first of the earlier factor

constexpr int tries = 8;

class GreedyCover {
 public:
  GreedyCover(const std::vector<std::size_t>& sizes, const std::function<bool(const Combination&)>& is_legal,
              std::uint32_t seed)
      : sizes_(sizes), is_legal_(is_legal), random_(seed) {
    for (std::size_t f = 0; f < sizes.size(); ++f)
      for (std::size_t g = f + 1; g < sizes.size(); ++g)
        for (std::size_t v = 0; v < sizes[f]; ++v)
          for (std::size_t w = 0; w < sizes[g]; ++w) open_.insert({{f, v}, {g, w}});
  }

  Cover run() {
    const std::size_t all = open_.size();
    while (!open_.empty()) {
      const Pair wanted = *open_.begin();
      if (!cover_one(wanted)) {
        open_.erase(wanted);
        ++cover_.infeasible;
      }
    }
    cover_.pairs = all - cover_.infeasible;
    return std::move(cover_);
  }

 private:
  // Rich combinations first, then plainer and plainer ones: what forbids a pair is then likely to be gone.
  bool cover_one(const Pair& wanted) {
    for (int attempt = 0; attempt < tries; ++attempt) {
      const Combination candidate = filled(wanted, attempt);
      if (!legal(candidate)) continue;
      for (std::size_t f = 0; f < sizes_.size(); ++f)
        for (std::size_t g = f + 1; g < sizes_.size(); ++g)
          open_.erase({{f, candidate[f]}, {g, candidate[g]}});
      cover_.combinations.push_back(candidate);
      return true;
    }
    return false;
  }

  bool legal(const Combination& candidate) {
    const auto [at, is_new] = known_.try_emplace(candidate, false);
    if (is_new) at->second = is_legal_(candidate);
    return at->second;
  }

  // The wanted pair, and factor by factor the value that meets most open pairs, but plain ones in as many
  // factors as there were attempts (of the last attempt: in all).
  Combination filled(const Pair& wanted, int attempt) {
    std::vector<std::size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
    Combination candidate(sizes_.size(), 0);
    std::vector<bool> is_set(sizes_.size(), false);
    for (const Level& level : {wanted.first, wanted.second}) {
      candidate[level.factor] = level.value;
      is_set[level.factor] = true;
    }
    std::size_t plain = sizes_.size() * static_cast<std::size_t>(attempt) / (tries - 1);
    for (const std::size_t f : order) {
      if (is_set[f]) continue;
      is_set[f] = true;
      if (plain > 0)
        --plain;
      else
        candidate[f] = best_value(f, candidate, is_set);
    }
    return candidate;
  }

  std::size_t best_value(std::size_t factor, const Combination& candidate, const std::vector<bool>& is_set) {
    std::size_t best = 0, most = 0;
    const std::size_t first = random_() % sizes_[factor];
    for (std::size_t i = 0; i < sizes_[factor]; ++i) {
      const std::size_t value = (first + i) % sizes_[factor];
      std::size_t met = 1;
      for (std::size_t f = 0; f < sizes_.size(); ++f) {
        if (!is_set[f] || f == factor) continue;
        const Level own{factor, value}, other{f, candidate[f]};
        met += open_.count(f < factor ? Pair{other, own} : Pair{own, other});
      }
      if (met <= most) continue;
      most = met;
      best = value;
    }
    return best;
  }

  const std::vector<std::size_t>& sizes_;
  const std::function<bool(const Combination&)>& is_legal_;
  std::mt19937 random_;  // its numbers, without distributions, are the same everywhere
  std::set<Pair> open_;
  std::map<Combination, bool> known_;
  Cover cover_;
};

}  // namespace

Cover pairwise_cover(const std::vector<std::size_t>& sizes,
                     const std::function<bool(const Combination&)>& is_legal, std::uint32_t seed) {
  return GreedyCover(sizes, is_legal, seed).run();
}

}  // namespace simrun
