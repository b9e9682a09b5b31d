#include <catch2/catch.hpp>

#include "small_job.h"

// Megatron-LM's hybrid_override_pattern.
using namespace simrun;
using namespace simrun::test;

namespace {

std::string with_pattern(const std::string& pattern, const std::string& more = "") {
  return edited(small_job, "num_layers: 8", "num_layers: 4\n  hybrid_override_pattern: " + pattern + more);
}

const std::string four_experts = "\n  num_experts: 4";

}  // namespace

TEST_CASE("a pattern says of every layer whether it is attention, an MLP or experts") {
  const Job dense = load(with_pattern("\"*-*-\""));
  CHECK(dense.model.layer_contents == std::vector<LayerContent>{LayerContent::attention, LayerContent::mlp,
                                                                LayerContent::attention, LayerContent::mlp});
  const Job experts = load(with_pattern("\"*E*-\"", four_experts));
  CHECK(experts.model.layer_contents == dense.model.layer_contents);
  CHECK(experts.model.experts.layers == std::vector<bool>{false, true, false, false});
  CHECK(experts.model.ffn_hidden_size > 0);
  CHECK(load(small_job).model.layer_contents.empty());
}

TEST_CASE("a pattern's mistake has its own column") {
  const auto problem = [](const std::string& text) { return problems_of(text).at(0); };
  const int column = problem(with_pattern("\"x*-*\"")).position.column;
  const Diagnostic mamba = problem(with_pattern("\"*-M-\""));
  CHECK(mamba.message == "'hybrid_override_pattern': Mamba layers are not modelled");
  CHECK(mamba.position.column == column + 2);
  CHECK(problem(with_pattern("\"*-*x\"")).message == "'hybrid_override_pattern': 'x' is no layer");
  CHECK(problem(with_pattern("\"*-*E\"")).message ==
        "'hybrid_override_pattern': layers of experts, and no num_experts");
  CHECK(problem(with_pattern("\"*-*-\"", four_experts)).message ==
        "'hybrid_override_pattern': num_experts, and no layer has them");
  CHECK(problem(with_pattern("\"\"")).message == "'hybrid_override_pattern' names no layer");
  CHECK(problem(with_pattern("\"*-*\"")).message == "hybrid_override_pattern has 3 layers, num_layers is 4");
  CHECK(problem(with_pattern("\"*E*E\"", four_experts + "\n  moe_layer_freq: 2")).message ==
        "moe_layer_freq beside hybrid_override_pattern: the pattern says which layers have experts");
  CHECK(problem(with_pattern("\"*-*-\"", "\n  mtp_num_layers: 1")).message ==
        "mtp_num_layers beside hybrid_override_pattern: layers that predict further tokens are whole ones");
}

TEST_CASE("a pattern is printed as it was written, and loads again") {
  const LoadedJob loaded = load_job_text(with_pattern("\"*E*-\"", four_experts), "job.yaml", with_presets());
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}
