#include "sim/path_choice.h"

#include <algorithm>

namespace simrun {

namespace {

// splitmix64 (Steele et al. 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::int64_t remainder(std::uint64_t hash, std::int64_t count) {
  return static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(count));
}

}  // namespace

ChosenPath choose_path(PathChoice routing, PathCount count, const NicPlace& from, const NicPlace& to) {
  if (routing == PathChoice::static_by_destination) {
    const std::int64_t below = to.place / count.planes;
    return {to.place % count.planes, below % count.spines, below / count.spines % count.cores_of_spine};
  }
  const auto [low, high] = std::minmax(from.number, to.number);
  const std::uint64_t pair =
      mixed((static_cast<std::uint64_t>(low) << 32) ^ static_cast<std::uint64_t>(high));
  // Each stage of switches hashes with a seed of its own: choices of one do not decide the next's.
  ChosenPath path{0, remainder(pair, count.spines), 0};
  if (count.planes > 1) path.plane = remainder(mixed(pair), count.planes);
  if (count.cores_of_spine > 1) path.core = remainder(mixed(~pair), count.cores_of_spine);
  return path;
}

}  // namespace simrun
