#include "validation/stage_layers.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/validation/rows.h"

namespace simrun {
namespace {

using Counts = std::vector<std::int64_t>;
using Cells = std::vector<std::pair<Column, std::string>>;

RowJob made_of(const Cells& cells) {
  static const LoadOptions options = source_presets();
  static const RowRules rules = load_row_rules(options);
  KnownPresets presets(options);
  return job_of_row(measured_row(cells), rules, presets);
}

std::string layout_of(const Cells& cells) {
  return made_of(cells).job.value("parallelism.pipeline_model_parallel_layout");
}

TEST_CASE("Stages by cost: a stage ends with the layer that takes it past its share") {
  // 8 layers and a head of 2: 5 per stage of two, and 5 is not past 5.
  CHECK(layers_by_cost(8, 2, 2) == Counts{6, 2});
  // 32 layers, a head of 2.2, 8 stages of 4.275: ends at 5, 9, 13, 18 (past 17.1), 22, 26 and 30.
  CHECK(layers_by_cost(32, 8, 2.2) == Counts{5, 4, 4, 5, 4, 4, 4, 2});
  // 16 layers and a head of 4 on 8: 2.5 each, and the seventh would have the head alone.
  CHECK(layers_by_cost(16, 8, 4) == Counts{3, 3, 2, 3, 2, 2, 1, 0});
}

TEST_CASE("Stages of operators: attention and MLP apart, the largest stage as small as it can be") {
  // 1 2 1 2 on four stages, with tables of 2: 3 is the least, as T 1 | 2 1 | 2 | T.
  CHECK(sublayers_by_cost(2, 4, {1, 2, 2}) == Counts{1, 2, 1, 0});
  // Without tables on three: 1 2 | 1 | 2, of which the last cannot have more with less in the largest.
  const Counts three = sublayers_by_cost(2, 3, {1, 2, 0});
  CHECK(std::accumulate(three.begin(), three.end(), std::int64_t{0}) == 4);
  CHECK(three[1] + three[2] <= 3);
  CHECK(sublayers_by_cost(2, 2, {1, 2, 1}) == Counts{2, 2});
}

TEST_CASE("Stages by cost share all layers, and only the last one may have none") {
  for (std::int64_t layers = 8; layers < 40; layers += 3)
    for (std::int64_t stages = 2; stages <= 8; ++stages)
      for (const double head : {0.0, 1.5, 4.0}) {
        CAPTURE(layers, stages, head);
        const Counts counts = layers_by_cost(layers, stages, head);
        CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == layers);
        CHECK(std::count(counts.begin(), counts.end() - 1, 0) == 0);
      }
}

TEST_CASE("Stages by module: embedding, norm and head count like layers") {
  // 40 + 3 modules on 4 stages: 11, 11, 11, 10.
  CHECK(layers_by_module(40, 4) == Counts{10, 11, 11, 8});
  CHECK(layers_by_module(40, 2) == Counts{21, 19});
  CHECK(layers_by_module(3, 6).empty());  // a last stage of one module would have no head
}

TEST_CASE("First and last stage as flags say, the rest shared evenly or not at all") {
  CHECK(layers_between(12, 4, 2, 2) == Counts{2, 4, 4, 2});
  CHECK(layers_between(12, 4, 0, 3) == Counts{3, 3, 3, 3});
  CHECK(layers_between(13, 4, 2, 2).empty());
}

TEST_CASE("row: the Playbook's stages follow nanotron's costs, COLM's the modules, tests their flags") {
  // 4 x 2048 + 3 x 8192 = 32,768: a head of 131,072 rows costs 4 layers.
  const Cells pipeline{{Column::tp, "1"}, {Column::pp, "2"}, {Column::vpp, "1"}, {Column::n_gpus, "8"}};
  const auto with = [&](Cells cells) {
    cells.insert(cells.end(), pipeline.begin(), pipeline.end());
    return cells;
  };
  CHECK(layout_of(with({{Column::source, "HF Ultra-Scale Playbook"},
                        {Column::model, "Llama-like 1B"},
                        {Column::layers, "16"},
                        {Column::hidden, "2048"},
                        {Column::ffn_hidden, "8192"},
                        {Column::vocab, "131072"}})) == "\"Et*11|t*5L\"");
  CHECK(layout_of(with({{Column::source, "arXiv 2311.05610"}, {Column::layers, "40"}})) == "\"Et*21|t*19L\"");
  CHECK(layout_of(with({{Column::notes, "--decoder-first-pipeline-num-layers 3"}})) == "\"Et*3|t*5L\"");
}

TEST_CASE("row: Alpa's stages of fewer layers than there are hold attention or MLPs alone") {
  const Cells cells{{Column::source, "alpa-projects/alpa"},
                    {Column::model, "GPT"},
                    {Column::tp, "1"},
                    {Column::pp, "4"},
                    {Column::vpp, "1"},
                    {Column::n_gpus, "4"},
                    {Column::layers, "3"},
                    {Column::hidden, "1024"},
                    {Column::ffn_hidden, "4096"},
                    {Column::seq_len, "1024"},
                    {Column::vocab, "1024"}};
  const RowJob made = made_of(cells);
  CHECK(made.job.value("model.num_layers") == "6");
  CHECK(made.job.value("model.hybrid_override_pattern") == "\"*-*-*-\"");
  // Of h^2, an MLP is 8, attention 6, a table 1: some stage has two of the six, and 15 is the least with a
  // table.
  const std::string layout = made.job.value("parallelism.pipeline_model_parallel_layout");
  CHECK((layout == "\"Et*1|t*2|t*2|t*1L\"" || layout == "\"E|t*2|t*2|t*2L\""));
  CHECK(made.assumed.back() == "3 layers on 4 stages, cut between attention and MLP");
}

TEST_CASE("row: interleaved without a number of virtual stages has one layer in each") {
  const Cells cells{
      {Column::tp, "1"}, {Column::pp, "4"}, {Column::layers, "22"}, {Column::schedule, "1F1B-interleaved"}};
  CHECK(made_of(cells).row[Column::vpp] == "6");  // 22 and a layer's place each for embedding and loss
  Cells known = cells;
  known.emplace_back(Column::vpp, "2");
  CHECK(made_of(known).row[Column::vpp] == "2");
}

TEST_CASE("row: unstated GPUs are as many as experts and their tensor parallelism need") {
  // Experts are split by tensor like the rest: 8 x 2 ranks per stage, 2 stages.
  const Cells experts{{Column::n_gpus, ""},
                      {Column::n_experts, "8"},
                      {Column::ep, "8"},
                      {Column::dp, ""},
                      {Column::topk, "2"}};
  CHECK(made_of(experts).row[Column::n_gpus] == "32");
  Cells unsplit = experts;
  unsplit.emplace_back(Column::notes, "--expert-tensor-parallel-size 1");
  CHECK(made_of(unsplit).row[Column::n_gpus] == "16");
}

}  // namespace
}  // namespace simrun
