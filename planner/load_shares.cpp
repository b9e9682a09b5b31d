#include "planner/load_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace simrun {

namespace {

using Shares = std::vector<std::int64_t>;

template <class Taker>
bool can_hold(const std::vector<Taker>& takers, std::int64_t units) {
  std::int64_t room = 0;
  for (const Taker& taker : takers) {
    if (taker.room < 1) return false;
    room += std::min(taker.room, units);
  }
  return std::ssize(takers) <= units && units <= room;
}

// Proportional to speed, to whole units by the largest remainder, at least one each.
Shares proportional(const std::vector<LoadTaker>& takers, std::int64_t units) {
  double speeds = 0, load = static_cast<double>(units);
  for (const LoadTaker& taker : takers) {
    speeds += taker.speed;
    load += taker.own_load;
  }
  Shares shares;
  std::vector<double> remainders;
  for (const LoadTaker& taker : takers) {
    const double exact = load * taker.speed / speeds - taker.own_load;
    shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact))));
    remainders.push_back(exact - static_cast<double>(shares.back()));
  }
  std::int64_t left = units - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (; left > 0; --left) {
    const auto most = std::max_element(remainders.begin(), remainders.end());
    ++shares[static_cast<std::size_t>(most - remainders.begin())];
    *most -= 1;
  }
  for (; left < 0; ++left) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

double seconds_of(const LoadTaker& taker, std::int64_t units) {
  return (taker.own_load + static_cast<double>(units)) / taker.speed;
}
double seconds_of(const TimedTaker& taker, std::int64_t units) {
  const auto scaled = [&](const std::pair<const std::int64_t, double>& from) {
    return from.second * static_cast<double>(units) / static_cast<double>(from.first);
  };
  const auto above = taker.seconds.lower_bound(units);
  if (above == taker.seconds.end()) return scaled(*taker.seconds.rbegin());
  if (above->first == units || above == taker.seconds.begin()) return scaled(*above);
  const auto below = std::prev(above);
  const double share =
      static_cast<double>(units - below->first) / static_cast<double>(above->first - below->first);
  return (1 - share) * below->second + share * above->second;
}

// Of memory, above 1: more than there is.
double fullness(const LoadTaker& taker, std::int64_t units) {
  return static_cast<double>(units) / static_cast<double>(taker.room);
}

// Who has room and would be done first with one unit more.
template <class Taker>
std::optional<std::size_t> soonest(const std::vector<Taker>& takers, const Shares& shares) {
  std::optional<std::size_t> best;
  double least = 0;
  for (std::size_t i = 0; i < takers.size(); ++i) {
    if (shares[i] >= takers[i].room) continue;
    const double seconds = seconds_of(takers[i], shares[i] + 1);
    if (best && seconds >= least) continue;
    best = i;
    least = seconds;
  }
  return best;
}

}  // namespace

Shares whale_shares(const std::vector<LoadTaker>& takers, std::int64_t units) {
  if (!can_hold(takers, units)) return {};
  Shares shares = proportional(takers, units);
  while (true) {
    std::size_t fullest = 0;
    for (std::size_t i = 1; i < takers.size(); ++i)
      if (fullness(takers[i], shares[i]) > fullness(takers[fullest], shares[fullest])) fullest = i;
    if (shares[fullest] <= takers[fullest].room) return shares;
    const std::optional<std::size_t> to = soonest(takers, shares);
    if (!to) return {};
    --shares[fullest];
    ++shares[*to];
  }
}

Shares fastest_shares(const std::vector<TimedTaker>& takers, std::int64_t units) {
  if (!can_hold(takers, units)) return {};
  Shares shares(takers.size(), 1);
  for (std::int64_t left = units - std::ssize(takers); left > 0; --left) ++shares[*soonest(takers, shares)];
  return shares;
}

Shares cut_by_load(const std::vector<double>& loads, const Shares& shares) {
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0),
               count = static_cast<double>(loads.size());
  Shares cut;
  std::size_t next = 0;
  double target = 0, sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    target += static_cast<double>(shares[i]) * all / count;
    const std::size_t first = next, behind = shares.size() - 1 - i;  // takers, who need one each
    while (next + behind < loads.size() &&
           (next == first || behind == 0 ||
            std::abs(sum + loads[next] - target) <= std::abs(sum - target) * (1 + 1e-9)))
      sum += loads[next++];
    cut.push_back(static_cast<std::int64_t>(next - first));
  }
  return cut;
}

}  // namespace simrun
