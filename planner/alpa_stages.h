#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace simrun {

// What stages cost that hold layers [first, last) on a mesh of a kind, for a dynamic program over both.
struct StageCosts {
  int layers = 0;
  int devices = 0;                // in units: GPUs, nodes, or one stage's share
  std::vector<int> mesh_devices;  // by kind of mesh, in the same units
  int most_stages = 0;            // also of those that follow
  int node_devices = 0;           // a stage lies in one of these or begins with one; 0: wherever
  // Seconds of a forward and a backward pass of one microbatch, infinite where it does not fit: [stages that
  // follow][mesh][first][last - 1]. How many follow says how many microbatches are in flight.
  std::vector<double> seconds;
  // Seconds of passing one microbatch's activations on and its gradients back: [mesh][last - 1]; nothing
  // behind the last layer.
  std::vector<double> handover;

  StageCosts(int layer_count, int device_count, std::vector<int> devices_of_mesh, int stage_count);
  std::size_t index(int following, int mesh, int first, int last) const;
  std::size_t handover_index(int mesh, int last) const;
};

struct PlacedStage {
  int first = 0, last = 0;  // layers
  int mesh = 0;
  double seconds = 0;
  bool operator==(const PlacedStage&) const = default;
};

struct StagePartition {
  std::vector<PlacedStage> stages;
  double seconds = 0;  // sum of stages and handovers + (microbatches - 1) x the slowest stage
  int evaluated = 0;   // slowest stages for which the dynamic program was run
};

// The least of sum(t_i + handover_i) + (B - 1) max(t_i) over all partitions into at most most_stages stages
// that use all devices (Zheng et al. 2022, section 5.2, equation 2, with the handover that their section 7
// leaves out). For a given bound on the slowest stage a dynamic program over (stages, layers, devices) gives
// the least sum; bounds are bisected, and a range of them is left out where the sum at its upper end with
// its lower end's slowest stage is no better than what is known: exact. Nothing where nothing fits, or all
// that does takes more than `most_seconds`.
// O(stages x layers^2 x devices x meshes) for each bound.
std::optional<StagePartition> best_partition(const StageCosts& costs, int microbatches,
                                             double most_seconds = std::numeric_limits<double>::infinity());

// Contiguous groups, whose weights are as equal as can be: the least maximum, then the least sum of squares
// (Zheng et al. 2022, section 5.2, "operator clustering", for layers that pass equally much on). Ends of the
// groups.
std::vector<int> cluster_layers(const std::vector<double>& weights, int groups);

// The units that so many stages are made of, for layers that are alike: each layer by itself, or where these
// are more than `most`, as many to each of the stages of equal length, so that those can be formed whatever
// the cap. Ends of the units.
std::vector<int> stage_units(int layers, int stages, int most);

}  // namespace simrun
