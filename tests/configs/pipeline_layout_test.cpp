#include "configs/pipeline_layout.h"

#include <catch2/catch.hpp>

using namespace simrun;

namespace {

// "E3|4|4|2L"
std::string shown(const std::vector<StageContent>& stages) {
  std::string text;
  for (const StageContent& stage : stages) {
    if (!text.empty()) text += '|';
    if (stage.embedding) text += 'E';
    text += std::to_string(stage.layers);
    if (stage.loss) text += 'L';
  }
  return text;
}

}  // namespace

TEST_CASE("a layout lists what each stage holds; repeats of characters and groups expand") {
  CHECK(shown(parse_pipeline_layout("Ett|tt|tt|ttL").stages) == "E2|2|2|2L");
  CHECK(shown(parse_pipeline_layout("Et*3|(tttt|)*3ttL").stages) == "E3|4|4|4|2L");
  CHECK(shown(parse_pipeline_layout("E|(t*2|)*2,L").stages) == "E0|2|2|0L");
  CHECK(shown(parse_pipeline_layout("E,t*12,L").stages) == "E12L");
}

TEST_CASE("the published DeepSeek-style layout has 16 stages and 61 layers") {
  const PipelineLayout layout = parse_pipeline_layout("Et*3|(tttt|)*14ttmL");
  CHECK(layout.problem.empty());
  CHECK(layout.stages.size() == 16);
  CHECK(layout.stages.back().mtp_layers == 1);
  std::int64_t layers = 0;
  for (const StageContent& stage : layout.stages) layers += stage.layers;
  CHECK(layers == 3 + 14 * 4 + 2);
}

TEST_CASE("a layout that cannot be read says why and at which character") {
  struct Row {
    std::string text;
    int column;
    std::string problem;
  };
  const std::vector<Row> rows = {
      {"Ett|xt|L", 5, "'x' means nothing in a pipeline layout"},
      {"Ettm|L", 5, "multi-token prediction 'm' must be in the stage of the loss 'L'"},
      {"Ett|mtL", 6, "multi-token prediction 'm' must come behind all layers 't'"},
      {"Ett|tLm", 7, "the loss 'L' must come last, and once"},
      {"Et|(tt|*4L", 9, ""},
      {"Et|(tt|", 4, "this '(' is never closed"},
      {"Et|(tt|)L", 4, "a group needs a repeat count after it"},
      {"Et|((tt|)*2)*2L", 5, "groups of a pipeline layout do not nest"},
      {"Et*|L", 3, "'*' needs a count from 1 to 100000"},
      {"Et*0|L", 3, "'*' needs a count from 1 to 100000"},
      {"Et*99999999999999999999|L", 3, "'*' needs a count from 1 to 100000"},
      {"E(t*90000)*90000|L", 1, "the layout has more than 100000 layers and stages"},
      {"Et||tL", 4, "stage 1 of the layout is empty"},
      {"tE|tL", 2, "the embedding 'E' must come first, and once"},
      {"Et|EtL", 4, "the embedding 'E' must come first, and once"},
      {"EtL|t", 4, "the loss 'L' must be in the last stage"},
      {"EtLL", 4, "the loss 'L' must come last, and once"},
      {"EtLt", 4, "the loss 'L' must come last, and once"},
      {"tt|tL", 1, "the layout must start with the embedding 'E'"},
      {"Et|tt", 1, "the layout must end with the loss 'L'"},
      {"Et|tL|", 6, "the loss 'L' must be in the last stage"},
      {"", 1, "the layout must start with the embedding 'E'"},
      {"*3", 1, "'*' means nothing in a pipeline layout"},
      {"E\x01", 2, "byte 0x01 means nothing in a pipeline layout"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const PipelineLayout layout = parse_pipeline_layout(row.text);
    CHECK_FALSE(layout.problem.empty());
    if (row.problem.empty()) continue;
    CHECK(layout.problem == row.problem);
    CHECK(layout.column == row.column);
  }
}
