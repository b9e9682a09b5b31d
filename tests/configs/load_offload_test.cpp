#include <catch2/catch.hpp>
#include <string>

#include "tests/configs/small_job.h"

namespace simrun {

using namespace test;

TEST_CASE("the offload section and the host's numbers are read and printed again") {
  const std::string text = edited(
      "cluster:",
      "optimizer: {zero_stage: 3}\noffload: {optimizer: nvme, parameters: cpu, activations: cpu}\ncluster:");
  const LoadedJob loaded = load_job_text(text, "job.yaml", with_presets());
  CHECK(loaded.job.offload == Offload{OffloadTarget::nvme, 1, OffloadTarget::cpu, OffloadTarget::cpu});
  CHECK(loaded.job.cluster.host.pcie_bandwidth == 63e9);
  const LoadedJob again = load_job_text(loaded.effective_yaml, "job.yaml", with_presets());
  CHECK(again.job.config_sha256 == loaded.job.config_sha256);
  CHECK(again.job.offload == loaded.job.offload);
  CHECK(again.job.cluster == loaded.job.cluster);
}

TEST_CASE(
    "activations of the first layers: the number is read, printed again, and refused without a target") {
  const auto problem = [](const std::string& offload) {
    return problems_of(edited("cluster:", "offload: " + offload + "\ncluster:")).at(0);
  };
  const LoadedJob loaded =
      load_job_text(edited("cluster:", "offload: {activations: cpu, activation_layers: 1}\ncluster:"),
                    "job.yaml", with_presets());
  CHECK(loaded.job.offload.activation_layers == 1);
  const LoadedJob again = load_job_text(loaded.effective_yaml, "job.yaml", with_presets());
  CHECK(again.job.offload == loaded.job.offload);
  CHECK(problem("{activation_layers: 1}").hint == "write offload.activations: cpu as well.");
  CHECK(problem("{activations: cpu, activation_layers: 0}").position.line > 0);
  CHECK(problem("{activations: cpu, activation_layers: 9999}")
            .message.starts_with("activations of 9999 layers"));
}

TEST_CASE("what cannot be offloaded is refused with what can") {
  const auto with = [](const std::string& sections) {
    const std::vector<Diagnostic> problems = problems_of(edited("cluster:", sections + "\ncluster:"));
    std::string text;
    for (const Diagnostic& problem : problems) text += problem.message + "; " + problem.hint + "\n";
    return text;
  };
  CHECK(with("offload: {parameters: cpu}") ==
        "parameters are gathered from their hosts in zero_stage 3, not 0; optimizer.zero_stage: 3.\n"
        "parameters on the hosts are updated there, all of them; offload.optimizer: cpu or nvme, with "
        "optimizer_fraction 1.\n");
  CHECK(with("offload: {optimizer_fraction: 0.5}") ==
        "nothing of the optimizer is offloaded; write offload.optimizer: cpu as well.\n");
  CHECK(with("offload: {activations: nvme}").find("not supported yet") != std::string::npos);
  CHECK(with("optimizer: {zero_stage: 2, overlap_grad_reduce: true, no_sync: true, grad_reduce_dtype: bf16}")
            .find("no_sync with a grad_reduce_dtype of its own is not supported yet") != std::string::npos);
  const std::string bare = edited(edited("cluster: {from: dgx_h100, nodes: 1}",
                                         "cluster: {nodes: 1, gpus_per_node: 8, gpu: h100_sxm, intra_node: "
                                         "{latency: 2 us}}"),
                                  "cluster:", "offload: {optimizer: cpu}\ncluster:");
  CHECK(problems_of(bare).front().message == "the cluster custom does not say what its hosts are");
}

TEST_CASE("an offload tells no consequence of another problem as one of its own") {
  const auto messages = [](const std::string& text) {
    std::string all;
    for (const Diagnostic& problem : problems_of(text)) all += problem.message + "\n";
    return all;
  };
  const std::string refused =
      messages(edited("cluster:", "offload: {optimizer: gpu, optimizer_fraction: 0.5}\ncluster:"));
  CAPTURE(refused);
  CHECK(refused.find("gpu") != std::string::npos);
  CHECK(refused.find("nothing of the optimizer is offloaded") == std::string::npos);
  CHECK(messages(edited("cluster:",
                        "optimizer: {zero_stage: 3}\noffload: {optimizer: gpu, parameters: cpu}\ncluster:"))
            .find("updated there") == std::string::npos);
  CHECK(messages(edited("cluster:", "offload: {activations: gpu, activation_layers: 2}\ncluster:"))
            .find("no activations") == std::string::npos);
  CHECK(messages(edited("cluster:",
                        "optimizer: {zero_stage: 5}\noffload: {optimizer: cpu, parameters: cpu}\ncluster:"))
            .find("gathered from their hosts") == std::string::npos);
  CHECK(messages(edited("cluster:", "optimizer: adam\noffload: {optimizer: cpu, parameters: cpu}\ncluster:"))
            .find("gathered from their hosts") == std::string::npos);
  // Another rule's problem with the same key hides none.
  CHECK(
      messages(edited("cluster:",
                      "optimizer: {name: sgd, zero_stage: 3}\noffload: {optimizer: cpu, optimizer_fraction: "
                      "0.5, parameters: cpu}\ncluster:"))
          .find("updated there") != std::string::npos);
  LoadOptions set = with_presets();
  set.overrides = {{"offload", "{optimizer: none, optimizer_fraction: 0.5, activations: gpu}"}};
  CHECK(problems_of(small_job, set).size() == 2);  // the fraction's stays, whatever else stands beside it
  const std::string unread = messages(edited(edited("from: dgx_h100", "from: no_such_cluster"),
                                             "cluster:", "offload: {optimizer: cpu}\ncluster:"));
  CAPTURE(unread);
  CHECK(unread.find("no_such_cluster") != std::string::npos);
  CHECK(unread.find("hosts") == std::string::npos);
}

}  // namespace simrun
