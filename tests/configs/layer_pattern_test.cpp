#include "configs/layer_pattern.h"

#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// "ee-": experts, experts, none; or the place and the problem.
std::string layers_of(const std::string& text, std::size_t most = 100) {
  const LayerPattern pattern = parse_layer_pattern(text, most);
  if (!pattern.problem.empty()) return std::to_string(pattern.at) + ": " + pattern.problem;
  std::string layers;
  for (const bool experts : pattern.layers) layers += experts ? 'e' : '-';
  return layers;
}

}  // namespace

TEST_CASE("a layer pattern is what Python makes of the expression") {
  CHECK(layers_of("[0,1,1]") == "-ee");
  CHECK(layers_of("[0]*3+[1]*4") == "---eeee");
  CHECK(layers_of("([0]*1+[1]*2)*2") == "-ee-ee");
  CHECK(layers_of("2*([0,1]+[1])") == "-ee-ee");
  CHECK(layers_of(" ( [ 0 , 1 ] ) * 2 * 1 ") == "-e-e");
  CHECK(layers_of("[]+[1]*0+[1]") == "e");
  CHECK(layers_of("([0]*3+[1]*58)*1").size() == 61);
}

TEST_CASE("a layer pattern that is none: where, and what should be there") {
  CHECK(layers_of("") == "0: a list or a number of repeats is missing at the end");
  CHECK(layers_of("3") == "0: a number where a list of 0 and 1 must be");
  CHECK(layers_of("[0]*") == "4: a list or a number of repeats is missing at the end");
  CHECK(layers_of("[0]*-1") == "4: '-' where a list or a number of repeats must be");
  CHECK(layers_of("[0,2]") == "3: a list has 0 and 1, no other entries");
  CHECK(layers_of("[0,]") == "3: a list has 0 and 1, no other entries");
  CHECK(layers_of("[0 1]") == "3: ',' or ']' is missing");
  CHECK(layers_of("([0]") == "4: ')' is missing");
  CHECK(layers_of("[0]+1") == "4: only lists can be added");
  CHECK(layers_of("[0]*[1]") == "4: one side of '*' must be a list, the other a number");
  CHECK(layers_of("2*3") == "2: one side of '*' must be a list, the other a number");
  CHECK(layers_of("[0]) or exit()") == "3: ')' where the expression should end");
  CHECK(layers_of("__import__('os')") == "0: '_' where a list or a number of repeats must be");
}

TEST_CASE("a layer pattern stays small whatever it is multiplied by") {
  CHECK(layers_of("[0]*101") == "4: '1' where a list or a number of repeats must be");
  CHECK(layers_of("[0]*99*99*99*99") == "7: more than 100 layers");
  CHECK(layers_of("([0]*60)+[1]*60") == "9: more than 100 layers");
  CHECK(layers_of("([]*100)*100*100") == "");
  CHECK(layers_of(std::string(60, '(') + "[0]" + std::string(60, ')')) == "51: too many parentheses");
  CHECK(layers_of(std::string(40, '(') + "[0]" + std::string(40, ')')) == "-");
}

TEST_CASE("moe_layer_freq: an expression's mistake has its own column, its length that of the value") {
  const auto problem = [](const std::string& frequency) {
    return problems_of(edited(small_job, "num_layers: 8",
                              "num_layers: 4\n  num_experts: 16\n  moe_layer_freq: " + frequency))
        .at(0);
  };
  const Diagnostic quoted = problem("\"[0]*3+[1]*\"");
  const Diagnostic plain = problem("[0]*3+[1]*x");
  CHECK(quoted.message == "'moe_layer_freq': a list or a number of repeats is missing at the end");
  CHECK(problem("\"[0]*3+[1]*58\"").message == "moe_layer_freq has 61 entries for 4 layers");
  const Job job = load(edited(small_job, "num_layers: 8",
                              "num_layers: 4\n  num_experts: 16\n  moe_layer_freq: \"[0]*3+[1]\""));
  CHECK(job.model.experts.layers == std::vector<bool>{false, false, false, true});
}

TEST_CASE("a pattern that was an expression is printed as the list that it makes, which loads again") {
  const LoadedJob loaded = load_job_text(
      edited(small_job, "num_layers: 8", "num_layers: 4\n  num_experts: 16\n  moe_layer_freq: \"[0]*3+[1]\""),
      "job.yaml", with_presets());
  CHECK(loaded.effective_yaml.find("moe_layer_freq: [0, 0, 0, 1]") != std::string::npos);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}
