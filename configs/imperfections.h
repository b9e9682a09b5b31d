#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What is wrong with a cluster on the day of the run, as plain values: the section `imperfections` of a job.
// Entries of a list have the names that their authors gave them.
namespace simrun {

// Every execution of a compute kernel takes its time x a factor of its own, drawn for (GPU, place in the
// program) from a distribution of mean 1.
//
//   lognormal  exp(s N(0, 1) - s^2 / 2), s^2 = ln(1 + cv^2)
//   normal     1 + cv x N(0, 1), not below 0
//   uniform    between 1 - sqrt(3) cv and 1 + sqrt(3) cv
enum class JitterDistribution : std::uint8_t { lognormal, normal, uniform };
struct Jitter {
  JitterDistribution distribution = JitterDistribution::lognormal;
  double coefficient_of_variation = 0;  // standard deviation / mean; 0: none
  bool operator==(const Jitter&) const = default;
};

// GPUs whose compute kernels take `slowdown` times as long. Just one of gpus, nodes and count is given.
struct Straggler {
  std::string name;
  std::vector<std::int64_t> gpus = {};   // of the cluster: GPU g of node n is n x gpus_per_node + g
  std::vector<std::int64_t> nodes = {};  // all their GPUs
  std::int64_t count = 0;                // so many GPUs, drawn with the seed
  double slowdown = 1;
  bool operator==(const Straggler&) const = default;
};

// Links that are not what they should be. A pattern is a link's name (sim/topology.h) in which * stands for
// any characters, ? for one: "node0.nic1.*" is both directions of a NIC.
struct LinkFault {
  std::string name;
  std::string pattern;
  double bandwidth_share = 1;  // that is left; 0: the link has failed, and traffic goes another way
  double added_latency_s = 0;
  bool operator==(const LinkFault&) const = default;
};

// Other traffic on the same fabric, at a constant rate that gives way to nobody. Just one of `pattern`,
// `permutation` and from/to says where, one of rate and share how much.
struct BackgroundTraffic {
  std::string name;
  std::string pattern = {};  // links by name, as in LinkFault
  bool permutation = false;  // each node of the cluster sends to another one, drawn with the seed
  std::vector<std::int64_t> from = {}, to = {};  // nodes: the i-th sends to the i-th
  double rate =
      0;  // bytes/s: over each link of the pattern, or out of each sending node, evenly over its GPUs
  double share = 0;  // of the bandwidth: of each link, or of all NICs of each sending node together
  bool operator==(const BackgroundTraffic&) const = default;
};

// Another job on the same fabric that communicates every `period_s`, from `phase_s` after the step begins on.
// It waits for itself: what is not over after a period delays what comes next. Just one of `nodes` and
// from/to is given.
struct OtherJob {
  std::string name;
  std::vector<std::int64_t> nodes = {};   // all their GPUs take part in a collective
  std::string collective = "all_reduce";  // of `bytes`, the whole tensor (each rank's all-to-all buffer)
  std::vector<std::int64_t> from = {}, to = {};  // nodes: the i-th sends to the i-th
  double bytes = 0;                              // every time; out of each sending node, evenly over its GPUs
  double period_s = 0, phase_s = 0;
  bool operator==(const OtherJob&) const = default;
};

struct Imperfections {
  std::int64_t seed = 0;  // of everything that is drawn
  Jitter jitter;
  std::vector<Straggler> stragglers;
  std::vector<LinkFault> links;
  std::vector<BackgroundTraffic> background;
  std::vector<OtherJob> other_jobs;

  // Whether GPUs may compute at different speeds.
  bool of_compute() const { return jitter.coefficient_of_variation > 0 || !stragglers.empty(); }
  bool of_links() const { return !links.empty() || !background.empty(); }
  bool empty() const { return !of_compute() && !of_links() && other_jobs.empty(); }
  bool operator==(const Imperfections&) const = default;
};

}  // namespace simrun
