#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace simrun {

// The layout that operators of one name have in some layers.
struct OperatorChoice {
  std::string scope;                                                    // of a layout rule: "layers[0-5].qkv"
  std::vector<std::pair<std::string, std::vector<std::string>>> split;  // dimension: axes, outermost first
  std::vector<std::string> whole;                                       // dimensions that it may split
};

// Axes of an own mesh with their sizes, the first fastest.
using OwnAxes = std::vector<std::pair<std::string, std::int64_t>>;

// "{scope: "layers[0-5].qkv", split: {kv_heads: x}, replicate: [batch]}"
std::string rule_text(const OperatorChoice& choice);

// The layout section of a job, in flow style.
std::string layout_text(const OwnAxes& axes, const std::vector<OperatorChoice>& operators);

// Choices of operators one by one, joined to choices of scopes.
class OperatorChoices {
 public:
  // What an operator has, whose name stands in choice.scope; of no layer: -1.
  void add(OperatorChoice choice, std::int64_t layer);
  // In the order in which their first operators came. REQUIRES: layers of one name came in ascending order.
  std::vector<OperatorChoice> joined() const;

 private:
  struct Scope {
    std::string key;
    OperatorChoice choice;
    std::vector<std::int64_t> layers;
  };
  std::vector<Scope> scopes_;
};

}  // namespace simrun
