#include "configs/nvidia_smi_topo.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// A DGX-1 with V100: tabs, as the tool prints them.
const std::string dgx1_v100 =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_1\tmlx5_2\tmlx5_3\tCPU Affinity\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tPHB\tSYS\tSYS\t0-19,40-59\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tPHB\tSYS\tSYS\t0-19,40-59\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tPIX\tSYS\tSYS\t0-19,40-59\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tPIX\tSYS\tSYS\t0-19,40-59\n"
    "GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tSYS\tPIX\tPHB\t20-39,60-79\n"
    "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tSYS\tPIX\tPHB\t20-39,60-79\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tPHB\tPIX\t20-39,60-79\n"
    "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tPHB\tPIX\t20-39,60-79\n"
    "mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tPHB\tSYS\tSYS\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

// Four A100 of a DGX A100 behind colours, with NUMA columns, and storage NICs that are far from all GPUs.
const std::string dgx_a100 =
    "        \x1b[4mGPU0    GPU1    GPU2    GPU3    NIC0    NIC1    NIC2    NIC3    NIC4    CPU Affinity    "
    "NUMA Affinity"
    "   GPU NUMA ID\x1b[0m\r\n"
    "GPU0     X      NV12    NV12    NV12    PXB     PXB     SYS     SYS     SYS     48-63,176-191   3       "
    "N/A\r\n"
    "GPU1    NV12     X      NV12    NV12    PXB     PXB     SYS     SYS     SYS     48-63,176-191   3       "
    "N/A\r\n"
    "GPU2    NV12    NV12     X      NV12    SYS     SYS     PXB     PXB     SYS     16-31,144-159   1       "
    "N/A\r\n"
    "GPU3    NV12    NV12    NV12     X      SYS     SYS     PXB     PXB     SYS     16-31,144-159   1       "
    "N/A\r\n"
    "NIC0    PXB     PXB     SYS     SYS      X      PXB     SYS     SYS     SYS\r\n"
    "NIC Legend:\r\n\r\n  NIC0: mlx5_0\r\n";

// A box of two sockets with four GPUs and no NIC; the socket in the old spelling.
const std::string pcie_box =
    "      GPU0  GPU1  GPU2  GPU3  CPU Affinity\n"
    "GPU0   X    PIX   SOC   SOC   0-15\n"
    "GPU1  PIX    X    SOC   SOC   0-15\n"
    "GPU2  SOC   SOC    X    PHB   16-31\n"
    "GPU3  SOC   SOC   PHB    X    16-31\n";

struct TopologyFile {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "simrun_topo_test";
  explicit TopologyFile(const std::string& text) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "topo.txt", std::ios::binary) << text;
  }
  ~TopologyFile() { std::filesystem::remove_all(folder); }
  TopologyFile(const TopologyFile&) = delete;
  TopologyFile& operator=(const TopologyFile&) = delete;
};

std::string job_on_cluster(const std::string& cluster) {
  return R"(simrun: 1
model: {model_type: gpt, num_layers: 8, hidden_size: 1024, num_attention_heads: 16, vocab_size: 51200}
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: fp16}
cluster: {nodes: 2, inter_node: {bandwidth: 12.5 GB/s, latency: 5 us}, nvidia_smi_topo: topo.txt, )" +
         cluster + "}\n";
}

Cluster imported(const std::string& matrix, const std::string& cluster) {
  const TopologyFile file(matrix);
  const std::string path = (file.folder / "job.yaml").string();
  const LoadedJob first = load_job_text(job_on_cluster(cluster), path, with_presets());
  // The effective config says it all: no file is needed any more.
  CHECK(load_job_text(first.effective_yaml, "job.yaml", LoadOptions{}).job.cluster == first.job.cluster);
  return first.job.cluster;
}

std::vector<Diagnostic> refusals(const std::string& matrix) {
  std::vector<Diagnostic> problems;
  parse_topology_matrix(matrix, "topo.txt", problems);
  return problems;
}

using Numbers = std::vector<std::int64_t>;
const std::string rates = "pcie: {bandwidth: 12 GB/s, latency: 6 us, socket_bandwidth: 6 GB/s}";

}  // namespace

TEST_CASE("nvidia-smi's matrix of a DGX-1 is the preset's wiring") {
  const Cluster read = imported(dgx1_v100, "gpu: v100_sxm2_32gb, intra_node: {latency: 2 us}, " + rates);
  const Cluster preset = load(edited(edited("dgx_h100", "dgx1_v100"), "bf16", "fp16")).cluster;
  const auto sorted = [](std::vector<NvlinkPair> pairs) {
    std::ranges::sort(pairs, {}, [](const NvlinkPair& pair) { return std::pair(pair.first, pair.second); });
    return pairs;
  };
  CHECK(read.gpus_per_node == 8);
  CHECK(read.nics_per_node == 4);
  CHECK(read.wiring.topology == IntraNodeTopology::nvlink_mesh);
  CHECK(sorted(read.wiring.nvlinks) == sorted(preset.wiring.nvlinks));
  CHECK(read.wiring.pcie.gpu_switches == preset.wiring.pcie.gpu_switches);
  CHECK(read.wiring.pcie.nic_switches == preset.wiring.pcie.nic_switches);
  CHECK(read.wiring.pcie.switch_sockets == preset.wiring.pcie.switch_sockets);
}

TEST_CASE("more NVLinks than any GPU has lead to a switch; NICs far from all GPUs are for storage") {
  // 3 x NV12: 36 links.
  const Cluster plain = imported(dgx_a100, "gpu: a100_sxm_80gb, intra_node: {latency: 2 us}");
  CHECK(plain.wiring == NodeWiring{});
  CHECK(plain.nics_per_node == 4);
  const Cluster tree = imported(dgx_a100, "gpu: a100_sxm_80gb, intra_node: {latency: 2 us}, " + rates);
  CHECK(tree.wiring.pcie.gpu_switches == Numbers{0, 0, 1, 1});
  CHECK(tree.wiring.pcie.nic_switches == Numbers{0, 0, 1, 1});
  CHECK(tree.wiring.pcie.switch_sockets == Numbers{0, 1});
  // What is written goes before what the matrix says.
  CHECK(
      imported(dgx_a100, "gpu: a100_sxm_80gb, intra_node: {latency: 2 us}, nics_per_node: 2").nics_per_node ==
      2);
}

TEST_CASE("a matrix without NVLinks or NICs is a PCIe tree") {
  const Cluster read = imported(
      pcie_box, "gpu: t4, intra_node: {bandwidth: 12 GB/s, latency: 6 us}, pcie: {socket_bandwidth: 6 GB/s}");
  CHECK(read.wiring.topology == IntraNodeTopology::pcie);
  CHECK(read.wiring.pcie.gpu_switches == Numbers{0, 0, 1, 2});
  CHECK(read.wiring.pcie.switch_sockets == Numbers{0, 1, 1});
  CHECK(read.nics_per_node == 4);  // none is listed: one per GPU, on its switch
}

TEST_CASE("a matrix with mistakes is refused with line and column") {
  const auto only = [](const std::string& matrix) {
    const std::vector<Diagnostic> problems = refusals(matrix);
    REQUIRE(problems.size() == 1);
    return problems[0];
  };
  CHECK(only("nothing of the kind\n").message == "no matrix of `nvidia-smi topo -m` in this file");
  const Diagnostic cell = only(edited(pcie_box, "GPU1  PIX", "GPU1  NVX"));
  CHECK(cell.message == "'NVX' is no way from GPU1 to GPU0");
  CHECK(cell.position.line == 3);
  CHECK(cell.position.column == 7);
  CHECK(only(edited(pcie_box, "GPU1  PIX", "GPU1  NV2")).message ==
        "GPU1 reaches GPU0 by NV2, and GPU0 reaches GPU1 by PIX");
  CHECK(only(edited(pcie_box, "GPU3  SOC   SOC   PHB    X    16-31\n", "")).message ==
        "the matrix has no row of GPU3");
  CHECK(only(edited(pcie_box, "GPU3  SOC   SOC   PHB    X    16-31", "GPU3  SOC   SOC")).message ==
        "the row of GPU3 has 2 cells for 4 GPUs and 0 NICs");
  CHECK(only(pcie_box + "GPU3  SOC   SOC   PHB    X    16-31\n").message == "a second row of GPU3");
  const std::vector<Diagnostic> missing = problems_of(job_on_cluster("gpu: t4"));
  REQUIRE_FALSE(missing.empty());
  CHECK(missing[0].message.starts_with("cannot read 'topo.txt'"));
}

TEST_CASE("a matrix cut off anywhere is refused or read, never misread") {
  for (std::size_t length = 0; length < dgx1_v100.size(); length += 7) {
    std::vector<Diagnostic> problems;
    const auto matrix = parse_topology_matrix(dgx1_v100.substr(0, length), "topo.txt", problems);
    CHECK(matrix.has_value() == problems.empty());
    if (matrix) CHECK(length > dgx1_v100.find("GPU7\tSYS"));
  }
}
