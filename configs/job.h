#pragma once

#include <cstdint>
#include <string>

#include "configs/cluster_config.h"
#include "configs/framework_config.h"
#include "configs/layout_config.h"
#include "configs/model_config.h"
#include "configs/moe_config.h"
#include "configs/offload_config.h"
#include "configs/parallelism_config.h"
#include "configs/training_config.h"

// A job: model + training + parallelism + optimizer + recompute + cluster, as plain values, with every
// default filled in and every rule checked by the loader (configs/load_job.h). Nothing downstream reads YAML.
namespace simrun {

struct Job {
  std::string name;  // file stem
  ModelConfig model;
  Training training;
  Parallelism parallelism;
  MoeConfig moe;
  OptimizerConfig optimizer;
  RecomputeConfig recompute;
  Offload offload;
  LayoutConfig layout;
  Cluster cluster;
  Framework framework;
  std::string config_sha256;  // of the effective config, as --print-config writes it

  std::int64_t world_size() const { return cluster.nodes * cluster.gpus_per_node; }
  // GPUs that are parameter servers and no workers: the last of the cluster.
  std::int64_t server_gpus() const {
    const auto& server = optimizer.parameter_server;
    return server && server->placement == ServerPlacement::dedicated ? server->servers : 0;
  }
  // Microbatches per step and data-parallel rank; the loader proved that it divides.
  std::int64_t microbatches() const {
    return training.global_batch_size / (training.micro_batch_size * parallelism.data_parallel_size);
  }
  bool operator==(const Job&) const = default;
};

}  // namespace simrun
