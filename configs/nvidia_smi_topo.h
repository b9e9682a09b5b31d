#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/config_node.h"

namespace simrun {

// The matrix that `nvidia-smi topo -m` prints: how each GPU reaches every GPU and NIC of its node. Cells are
// X (itself), NV# (so many NVLinks), PIX (one PCIe switch), PXB (several, none of them a CPU's), PHB (the
// CPU), NODE (its other PCIe root) and SYS or SOC (another CPU).
struct TopologyMatrix {
  struct Cell {
    std::string word;  // "" where no row says it
    SourcePosition position;
  };
  std::vector<std::string> gpus, nics;   // "GPU0", "NIC0" or "mlx5_0", in the order of the columns
  std::vector<std::vector<Cell>> cells;  // by GPU, then GPUs and NICs
  std::vector<std::string> affinity;     // by GPU: its CPUs, "0-19,40-59"; "" where there is no such column
  SourcePosition position;               // of the header
};

// Reads the matrix out of whatever is around it: legends, colours, tabs or spaces, rows of NICs or none.
// Nothing, and problems with line and column, if there is none, a row is missing or short, a cell is no such
// word, or two GPUs do not say the same of each other.
std::optional<TopologyMatrix> parse_topology_matrix(const std::string& text, const std::string& file,
                                                    std::vector<Diagnostic>& problems);

// The cluster section that says the same: gpus_per_node, nics_per_node, intra_node.topology and nvlinks, pcie
// with its switches and sockets (without rates, which the matrix does not have).
//
// NVLinks are a mesh unless some GPU had more than 18 (the most of any, an H100's): then they lead to a
// switch. PIX and PXB are one PCIe switch, PHB and NODE one socket, and so are GPUs with equal affinity. Of
// NICs only those on a GPU's switch count, if there are any: the others are for storage.
ConfigNode cluster_of(const TopologyMatrix& matrix);

}  // namespace simrun
