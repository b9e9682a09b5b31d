#include "models/packed_documents.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace simrun {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the same everywhere.
class Draw {
 public:
  Draw(std::int64_t seed, std::int64_t sequence)
      : state_(static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15ULL +
               static_cast<std::uint64_t>(sequence) * 0xd1b54a32d192ed03ULL) {}

  // In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  // Box and Muller 1958.
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * pi * uniform()); }

 private:
  static constexpr double pi = 3.14159265358979323846;
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

std::int64_t drawn_length(const DocumentConfig& config, Draw& draw) {
  const auto mean = static_cast<double>(config.mean);
  double length = mean;
  if (config.lengths == DocumentLengths::uniform) length = std::floor(1 + draw.uniform() * (2 * mean - 1));
  if (config.lengths == DocumentLengths::lognormal)
    length = std::exp(std::log(mean) - config.sigma * config.sigma / 2 + config.sigma * draw.normal());
  constexpr double longest = 1e12;
  return std::max<std::int64_t>(std::llround(std::min(length, longest)), 1);
}

std::vector<std::int64_t> drawn(const DocumentConfig& config, std::int64_t seq_length,
                                std::int64_t sequence) {
  Draw draw(config.seed, sequence);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = seq_length; left > 0; left -= lengths.back())
    lengths.push_back(std::min(drawn_length(config, draw), left));
  return lengths;
}

std::vector<std::int64_t> cut(const std::vector<std::int64_t>& recorded, std::int64_t seq_length,
                              std::int64_t sequence) {
  const std::int64_t all = std::accumulate(recorded.begin(), recorded.end(), std::int64_t{0});
  if (all <= 0) throw std::invalid_argument("recorded document lengths sum to " + std::to_string(all));
  // n s modulo the data's length; both factors are below 2^57, so the product is taken in 128 bits.
  __extension__ using Wide = unsigned __int128;
  auto skip = static_cast<std::int64_t>(static_cast<Wide>(sequence) * static_cast<Wide>(seq_length) %
                                        static_cast<Wide>(all));
  std::size_t document = 0;
  for (; skip >= recorded[document]; ++document) skip -= recorded[document];
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = seq_length; left > 0; left -= lengths.back()) {
    lengths.push_back(std::min(recorded[document] - skip, left));
    skip = 0;
    document = (document + 1) % recorded.size();
  }
  return lengths;
}

double scores(std::int64_t length, const CausalMask& mask) {
  return computed_share(mask, length) * static_cast<double>(length) * static_cast<double>(length);
}

// Of one document, which chunks of the sequence cut.
double scores_within_chunks(std::int64_t begin, std::int64_t length, std::int64_t chunk) {
  double sum = 0;
  for (std::int64_t left = length, at = begin; left > 0;) {
    const std::int64_t piece = std::min(left, chunk - at % chunk);
    sum += scores(piece, {.on = true});
    left -= piece;
    at += piece;
  }
  return sum;
}

}  // namespace

std::vector<std::int64_t> documents_of_sequence(const DocumentConfig& config, std::int64_t seq_length,
                                                std::int64_t sequence) {
  if (config.lengths == DocumentLengths::recorded) return cut(config.recorded, seq_length, sequence);
  return drawn(config, seq_length, sequence);
}

double document_share(const std::vector<std::int64_t>& lengths, const CausalMask& mask) {
  double own = 0;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    own += mask.chunked ? scores_within_chunks(begin, length, mask.window) : scores(length, mask);
    begin += length;
  }
  return own / scores(begin, mask);
}

}  // namespace simrun
