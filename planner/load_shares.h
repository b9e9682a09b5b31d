#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace simrun {

// A device, or devices that work as one, among those that share a load of whole units: sequences of a batch,
// layers of a model.
struct LoadTaker {
  double speed = 1;       // units per second, or anything in proportion
  std::int64_t room = 0;  // most units that its memory holds
  double own_load = 0;    // in units, beside its share: a stage's classifier
};
// The same by what some shares of it take; others take times between those of their neighbours, or beyond
// them all in proportion.
struct TimedTaker {
  std::map<std::int64_t, double> seconds;  // by units; not empty, rising
  std::int64_t room = 0;
};

// Whale's Algorithm 1 (Jia et al. 2022, USENIX ATC, section 3.5): shares proportional to speed, to whole
// units by the largest remainder; then, while some device has more than its memory holds, units move from the
// one that is fullest by memory to the one with room that would be done first. As printed there, a device
// counts as cured after one move; here it is looked at again. Everybody has at least one unit. Empty:
// together they have no room for all, or there are fewer units than devices.
std::vector<std::int64_t> whale_shares(const std::vector<LoadTaker>& takers, std::int64_t units);

// The shares within memory of which the last device is done first: each next unit goes to the device that
// would be done first with it. At least one unit each; empty as above.
std::vector<std::int64_t> fastest_shares(const std::vector<TimedTaker>& takers, std::int64_t units);

// Where unlike units follow each other, layers of an encoder and a decoder: how many each taker gets so that
// the sums of loads up to every cut are nearest to those of `shares` units of the mean load. Equal loads:
// `shares`. At least one each; loads are as many as all shares together.
std::vector<std::int64_t> cut_by_load(const std::vector<double>& loads,
                                      const std::vector<std::int64_t>& shares);

}  // namespace simrun
