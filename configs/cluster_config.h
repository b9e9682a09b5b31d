#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "configs/collectives_config.h"
#include "configs/dtype.h"
#include "configs/fabric_config.h"
#include "configs/gpu_kernels.h"
#include "configs/host_config.h"
#include "configs/imperfections.h"
#include "configs/link_class.h"
#include "configs/measured_config.h"
#include "configs/node_wiring.h"

// The cluster of a job as plain values.
namespace simrun {

// A device, from configs/gpus/*.yaml. Every number there names its datasheet or measurement.
struct Gpu {
  std::string name;                    // preset name, e.g. h100_sxm
  std::map<Dtype, double> peak_flops;  // dense matrix FLOP/s by input type, no sparsity; fp4: NVFP4
  double vector_flops = 0;             // fp32 FLOP/s outside the tensor cores
  std::int64_t memory_bytes = 0;
  std::int64_t driver_memory_bytes = 0;     // of these, that the driver keeps and no program gets
  std::int64_t matmul_workspace_bytes = 0;  // that cuBLAS works best with, per handle and stream
  double memory_bandwidth = 0;              // bytes/s
  std::int64_t sm_count = 0;
  std::int64_t l2_bytes = 0;
  double nvlink_bandwidth = 0;   // bytes/s per GPU and direction; 0 without NVLink
  double kernel_launch_s = 0;    // host-to-device time between back-to-back dependent kernels
  double matmul_efficiency = 0;  // best sustained GEMM / peak
  double memory_efficiency = 0;  // best sustained stream / memory_bandwidth
  double special_functions = 0;  // exponentials, tanh ... per second; 0: not known, and taken to cost nothing
  // Multiprocessors that communication kernels occupy while one is in flight; 0: none, they leave compute
  // alone.
  std::int64_t communication_sms = 0;
  bool mxfp8 = false;  // tensor cores take MXFP8, and fp8 operands in any order (Blackwell)
  GpuKernels kernels = {};
  MeasuredKernels measured = {};  // in place of the model of kernels
  bool operator==(const Gpu&) const = default;
};

// Whether a device computes while it communicates. blocking: a rank waits for every communication but the
// sends that it has begun, as one thread per rank does.
enum class CommunicationMode : std::uint8_t { overlapped, blocking };

// Nodes of one kind in a cluster that has several.
struct NodeGroup {
  std::string name;
  std::int64_t nodes = 0;
  Gpu gpu;
  LinkClass intra_node;
  bool operator==(const NodeGroup&) const = default;
};

struct Cluster {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  // Divides the GPUs, or is a multiple of them. GPU g of a node uses NIC g x nics / gpus (with a PCIe tree:
  // the nearest), or the several NICs that are its own as if they were one.
  std::int64_t nics_per_node = 0;
  Gpu gpu;
  LinkClass intra_node;  // NVLink
  LinkClass inter_node;  // one NIC
  Fabric fabric;
  NodeWiring wiring = {};
  Host host = {};
  CommunicationMode communication = CommunicationMode::overlapped;
  MeasuredExchanges measured = {};  // inside a node, in place of intra_node
  CollectivesConfig collectives = {};
  Imperfections imperfections = {};  // from a job's own section, never from a preset
  std::int64_t reserved_bytes = 0;   // CUDA context, NCCL buffers: what `fits` keeps free on every GPU
  // In the order of the nodes' numbers; empty: all nodes are alike. With groups, `nodes` is their sum, and
  // `gpu` and `intra_node` are the first one's; everything else is common to all (configs/node_groups.h).
  std::vector<NodeGroup> node_groups = {};
  bool operator==(const Cluster&) const = default;
};

}  // namespace simrun
