#include "configs/scope_pattern.h"

#include <catch2/catch.hpp>

#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

using Layers = std::vector<ScopePattern::Layers>;

// What a rule of the layout section and an entry of model.frozen say of the same scope: message and hint.
std::string refused_rule(const std::string& scope) {
  const std::string text = refusal(small_job + "layout: [{scope: \"" + scope + "\", split: {ffn: tp}}]\n");
  return text.substr(text.find("error:"));
}
std::string refused_freeze(const std::string& scope) {
  const std::string line = "  vocab_size: 51200\n";
  const std::string text = refusal(edited(line, line + "  frozen: [\"" + scope + "\"]\n"));
  return text.substr(text.find("error:"));
}

}  // namespace

TEST_CASE("a scope is layers, a name, or a name in layers") {
  CHECK(parse_scope("qkv").name == "qkv");
  CHECK_FALSE(parse_scope("qkv").in_layers);
  CHECK(parse_scope("layersum").name == "layersum");  // another word
  CHECK(parse_scope("layers").in_layers);
  CHECK(parse_scope("layers").layers.empty());
  CHECK(parse_scope("layers.fc*").name == "fc*");
  CHECK(parse_scope("layers[3]").layers == Layers{{3, 3}});
  CHECK(parse_scope("layers[0-11,14].mlp").layers == Layers{{0, 11}, {14, 14}});
  CHECK(parse_scope("layers[0-11,14].mlp").name == "mlp");
  CHECK(parse_scope("").name.empty());
  CHECK_FALSE(parse_scope("").in_layers);
}

TEST_CASE("the first layer of a scope that the model lacks") {
  CHECK_FALSE(parse_scope("layers[0-7]").layer_beyond(8));
  CHECK(parse_scope("layers[4-9]").layer_beyond(8) == 8);  // 4 to 7 are there
  CHECK(parse_scope("layers[1,12,9]").layer_beyond(8) == 9);
  CHECK_FALSE(parse_scope("layers").layer_beyond(8));
}

TEST_CASE("layout rules and frozen parameters refuse the same scopes in the same words") {
  for (const auto& [scope, message] :
       {std::pair{"layers[0-x]", "the layers of 'layers[0-x]' are no numbers"},
        std::pair{"layers[-1]", "the layers of 'layers[-1]' are no numbers"},
        std::pair{"layers[]", "the layers of 'layers[]' are no numbers"},
        std::pair{"layers[1,]", "the layers of 'layers[1,]' are no numbers"},
        std::pair{"layers[99999999999]", "the layers of 'layers[99999999999]' are no numbers"},
        std::pair{"layers[3-1]", "'layers[3-1]' counts its layers backwards"},
        std::pair{"layers[3", "the bracket in 'layers[3' is not closed"},
        std::pair{"layers[3]fc1", "'layers[3]fc1' goes on with 'fc1' where a name behind a dot may be"},
        std::pair{"layers.", "'layers.' goes on with '.' where a name behind a dot may be"},
        std::pair{"", "a scope must name operators, not the quoted text ''"}}) {
    CAPTURE(scope);
    const std::string expected = std::string("error: ") + message;
    CHECK_THAT(refused_rule(scope), Catch::StartsWith(expected));
    CHECK_THAT(refused_freeze(scope), Catch::StartsWith(expected));
    CHECK_THAT(refused_freeze(scope), Catch::Contains(std::string("hint: ") + scope_hint));
    CHECK_THAT(refused_rule(scope), Catch::Contains(std::string("hint: ") + scope_hint));
  }
}

}  // namespace simrun::test
