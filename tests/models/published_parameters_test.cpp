#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "arithmetic.h"
#include "models/model_graph.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct PublishedCount {
  std::string preset;
  std::int64_t parameters = 0;
  std::string derivation;
};

std::vector<PublishedCount> published_models() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/model_parameters.csv");
  std::vector<PublishedCount> models;
  std::string line;
  std::getline(file, line);  // preset,parameters,derivation,source
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    PublishedCount model;
    std::string parameters;
    std::getline(cells, model.preset, ',');
    std::getline(cells, parameters, ',');
    std::getline(cells, model.derivation, ',');
    model.parameters = std::stoll(parameters);
    models.push_back(model);
  }
  return models;
}

Job job_of(const std::string& preset, const std::string& more = "") {
  return job_from("simrun: 1\nmodel: {from: models/" + preset + ".yaml" + more + "}\ntraining: {" +
                  (reads_images(preset)          ? ""
                   : preset.starts_with("llava") ? "seq_length: 1024, "
                                                 : "seq_length: 512, ") +
                  "micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
                  "cluster: {from: dgx_h100, nodes: 1}\n");
}

TEST_CASE("parameters: every published model has its published number, which its own derivation gives") {
  const std::vector<PublishedCount> models = published_models();
  CHECK(models.size() == 158);
  for (const PublishedCount& model : models) {
    CAPTURE(model.preset, model.derivation);
    CHECK(Arithmetic(model.derivation).value() == model.parameters);
    CHECK(count_parameters(build_graph(job_of(model.preset))) == model.parameters);
  }
}

// Hugging Face's safetensors total counts it.
TEST_CASE("parameters: Qwen3-Next with the layer that predicts a further token") {
  CHECK(count_parameters(build_graph(job_of("qwen3-next-80b-a3b", ", num_nextn_predict_layers: 1"))) ==
        81'324'862'720);
}

TEST_CASE("parameters: Nemotron 3 Super and 3.5 Lightning with the layer that predicts a further token") {
  const std::string further = ", mtp_num_layers: 1, mtp_hybrid_override_pattern: \"*E\"";
  CHECK(count_parameters(build_graph(job_of("nemotron3-super-120b-a12b", further))) == 123'611'033'088);
  CHECK(count_parameters(build_graph(job_of("nemotron3-nano-30b-a3b", further))) == 32'913'266'240);
}

}  // namespace
}  // namespace simrun
