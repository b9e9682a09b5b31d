#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "configs/expert_nodes.h"
#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

const std::string moe_job = R"(simrun: 1
model: {from: mixtral-8x7b}
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
parallelism: {tensor_model_parallel_size: 2, sequence_parallel: true, expert_model_parallel_size: 4, expert_tensor_parallel_size: 1}
moe: {token_dispatcher: deepep, load_imbalance: 1.1}
cluster: {from: dgx_h100, nodes: 1}
)";

const std::string moe_section = "moe: {token_dispatcher: deepep, load_imbalance: 1.1}";

std::string first_message(const std::string& text) {
  const std::vector<Diagnostic> problems = problems_of(text);
  return problems.empty() ? "accepted" : problems.at(0).message + " / " + problems.at(0).hint;
}

// A file of its own for the length of a test.
class HistogramFile {
 public:
  explicit HistogramFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / "simrun-experts.csv") {
    std::ofstream(path_) << text;
  }
  ~HistogramFile() { std::filesystem::remove(path_); }
  HistogramFile(const HistogramFile&) = delete;
  HistogramFile& operator=(const HistogramFile&) = delete;
  std::string job() const { return edited(moe_job, moe_section, "moe: {histogram: " + path_.string() + "}"); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("the moe section: values, defaults, and the same job again from the effective config") {
  const LoadedJob loaded = load_job_text(moe_job, "job.yaml", with_presets());
  CHECK(loaded.job.moe.token_dispatcher == TokenDispatcher::deepep);
  CHECK(loaded.job.moe.load_imbalance == 1.1);
  CHECK(loaded.job.parallelism.expert_model_parallel_size == 4);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
  const Job dropping = load(edited(moe_job, "token_dispatcher: deepep", "capacity_factor: 1.25"));
  CHECK(dropping.moe.capacity_factor == 1.25);
  CHECK(dropping.moe.token_dispatcher == TokenDispatcher::alltoall);
  const Job plain = load(edited(moe_job, moe_section + "\n", ""));
  CHECK(plain.moe == MoeConfig{});
  // Megatron-LM's default: experts are split as the rest is.
  CHECK(load(edited(moe_job, ", expert_model_parallel_size: 4, expert_tensor_parallel_size: 1", ""))
            .parallelism.expert_tensor_parallel_size == 2);
  // DeepSeek-V3 sends a token to 4 of 8 groups, and the job writes nothing.
  const std::string deepseek = edited(edited(moe_job, "mixtral-8x7b", "deepseek-v3"), moe_section + "\n", "");
  CHECK(load(deepseek).moe.node_limit == 4);
  CHECK(load(deepseek).model.experts.selection_bias);
  CHECK(load(deepseek).model.experts.shared_ffn_hidden_size == 2048);
}

TEST_CASE("experts that do not divide: the two numbers and the nearest that work") {
  const auto with = [](const std::string& from, const std::string& to) {
    return first_message(edited(moe_job, from, to));
  };
  CHECK(with("expert_model_parallel_size: 4", "expert_model_parallel_size: 3") ==
        "8 experts do not split into 3 / 2 and 4 do.");
  CHECK(with("expert_model_parallel_size: 4", "expert_model_parallel_size: 16") ==
        "8 experts do not split into 16 / at most 8.");
  CHECK(with("expert_tensor_parallel_size: 1", "expert_tensor_parallel_size: 3") ==
        "the experts' feed-forward size 14336 does not split into expert tensor 3 / 2 and 4 do.");
  CHECK(with("expert_tensor_parallel_size: 1", "expert_tensor_parallel_size: 4") ==
        "the 8 ranks of a pipeline stage (tensor 2 x context 1 x data 4) do not divide by expert 4 x expert "
        "tensor 4 = 16 / at most 2.");
  CHECK(first_message(edited(moe_job, "mixtral-8x7b", "mistral-7b"))
            .starts_with("4 ranks for experts, and the model has none"));
  CHECK(
      with("load_imbalance: 1.1", "load_imbalance: 0.9").starts_with("'moe.load_imbalance': must be from 1"));
  CHECK(with("load_imbalance: 1.1", "load_imbalance: 1.1, zipf: 0.5") ==
        "'load_imbalance' and 'zipf' both say how uneven the experts' load is / keep one.");
  CHECK(first_message(
            edited(moe_job, "{from: mixtral-8x7b}", "{from: mixtral-8x7b, num_experts_per_tok: 9}")) ==
        "a token goes to 9 of 8 experts / at most 8.");
}

TEST_CASE("a dispatcher that the rest of the job does not let be: what is in the way, and what does") {
  const auto with = [](const std::string& from, const std::string& to) {
    return first_message(edited(moe_job, from, to));
  };
  CHECK(with("deepep,", "deepep, capacity_factor: 2,") ==
        "a capacity drops and pads rows of the alltoall dispatcher, not of deepep / leave it out, or "
        "token_dispatcher: alltoall.");
  CHECK(with("deepep,", "einsum,") ==
        "masks have a place for every row that an expert takes, so experts have a capacity / write "
        "moe.capacity_factor; 1: as many rows as tokens choose experts.");
  CHECK(with("deepep,", "deepep, group_size: 512,") ==
        "only token_dispatcher: einsum cuts tokens into groups / leave it out.");
  CHECK(load(edited(moe_job, "deepep,", "einsum, capacity_factor: 1, group_size: 512,")).moe.group_size ==
        512);
  CHECK(with("deepep,", "allgather, capacity_factor: 2,").find("not of allgather") != std::string::npos);
  CHECK(with("sequence_parallel: true", "sequence_parallel: false") ==
        "deepep sends a token from one rank; 2 tensor parallel ranks without sequence_parallel have the same "
        "tokens / parallelism.sequence_parallel: true does.");
  // 4 x 3 neighbouring GPUs begin and end inside nodes of 8.
  const std::string three_nodes =
      edited(edited(edited(edited(moe_job, "nodes: 1", "nodes: 3"), "tensor_model_parallel_size: 2",
                           "tensor_model_parallel_size: 1"),
                    "expert_tensor_parallel_size: 1", "expert_tensor_parallel_size: 3"),
             "global_batch_size: 8", "global_batch_size: 24");
  CHECK(
      first_message(
          edited(three_nodes, "{from: mixtral-8x7b}", "{from: mixtral-8x7b, intermediate_size: 14334}")) ==
      "deepep exchanges over nodes, then inside them, and groups of expert 4 x expert tensor 3 ranks do not "
      "lie alike on nodes of 8 GPUs / a group that fits into a node, or fills some, does.");
}

TEST_CASE("a recorded histogram is read, is part of the config's hash, and is refused by line") {
  std::string rows = "expert,tokens\n";
  for (int expert = 0; expert < 8; ++expert)
    rows += std::to_string(expert) + "," + std::to_string(100 + expert) + "\n";
  std::string hash;
  {
    const HistogramFile file("# recorded\n" + rows);
    const LoadedJob loaded = load_job_text(file.job(), "job.yaml", with_presets());
    REQUIRE(loaded.job.moe.histogram);
    CHECK(loaded.job.moe.histogram->tokens ==
          std::vector<std::int64_t>{100, 101, 102, 103, 104, 105, 106, 107});
    CHECK(loaded.files.back() != "job.yaml");
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
    hash = loaded.job.config_sha256;
  }
  {
    const HistogramFile other(edited(rows, "7,107", "7,108"));
    CHECK(load(other.job()).config_sha256 != hash);
  }
  const auto refused = [](const std::string& text) {
    const HistogramFile file(text);
    const Diagnostic problem = problems_of(file.job()).at(0);
    CHECK((problem.position.file == file.path() || problem.position.file == "job.yaml"));
    return std::to_string(problem.position.line) + " " + problem.message;
  };
  CHECK(refused("0,100\n") == "1 the first row must be the header");
  CHECK(refused("expert,tokens\n0;100\n") == "2 a row is two whole numbers, expert,tokens");
  CHECK(refused("expert,tokens\n1,100\n") == "2 expert 1 where expert 0 must be");
  CHECK(refused("expert,tokens\n0,0\n") == "0 no expert has a token");
  CHECK(refused("") == "0 holds no expert");
  CHECK(refused("expert,tokens\n0,5\n").find("has 1 experts; the model has 8") != std::string::npos);
  CHECK(first_message(edited(moe_job, moe_section, "moe: {histogram: none.csv}"))
            .starts_with("cannot read 'none.csv'"));
}

TEST_CASE("which layers have experts: GShard's every second one, a pattern, Qwen's and DeepSeek's rules") {
  const auto layers = [](const std::string& model) {
    const Job job = load(edited(small_job, "num_layers: 8", "num_layers: 4\n  num_experts: 16\n  " + model));
    std::string text;
    for (const bool experts : job.model.experts.layers) text += experts ? 'e' : '-';
    return text;
  };
  CHECK(layers("moe_layer_freq: 1") == "eeee");
  CHECK(layers("moe_layer_freq: 2") == "e-e-");
  CHECK(layers("moe_layer_freq: [0, 1, 1, 0]") == "-ee-");
  CHECK(layers("moe_layer_freq: \"[0, 1, 1, 0]\"") == "-ee-");
  CHECK(layers("moe_layer_freq: ([0]*1+[1]*1)*2") == "-e-e");
  const Job job =
      load(edited(small_job, "num_layers: 8", "num_layers: 4\n  num_experts: 16\n  moe_router_topk: 1"));
  CHECK(job.model.experts.topk == 1);
  CHECK(job.model.experts.ffn_hidden_size == 4096);
  CHECK(job.model.ffn_hidden_size == 0);
  const Job qwen = load(
      edited(moe_job, "{from: mixtral-8x7b}",
             "{from: qwen3-30b-a3b, num_hidden_layers: 4, decoder_sparse_step: 2, mlp_only_layers: [3]}"));
  CHECK(qwen.model.experts.layers == std::vector<bool>{false, true, false, false});
  const Job deepseek =
      load(edited(moe_job, "{from: mixtral-8x7b}", "{from: deepseek-v3, num_hidden_layers: 5}"));
  CHECK(deepseek.model.experts.layers == std::vector<bool>{false, false, false, true, true});
}

TEST_CASE("gpt-oss: every other layer has a window, and heads have sinks") {
  const ModelConfig model = load(edited(moe_job, "mixtral-8x7b", "gpt-oss-20b")).model;
  CHECK(model.attention_sinks);
  CHECK(model.attention_window(0) == 128);
  CHECK(model.attention_window(1) == 0);
  CHECK(model.experts.bias);
}

TEST_CASE("moe: nodes on one NVLink switch are one node to the experts' groups that fill it or divide it") {
  const auto lie = [](const char* nodes, const char* ep) {
    const std::string sixteen = edited(moe_job, "mixtral-8x7b", "mixtral-8x7b, num_local_experts: 16");
    const Job job = load(edited(
        edited(
            edited(edited(sixteen, "dgx_h100, nodes: 1", std::string("gb200_nvl72, nodes: ") + nodes),
                   "tensor_model_parallel_size: 2, sequence_parallel: true", "tensor_model_parallel_size: 1"),
            "expert_model_parallel_size: 4", std::string("expert_model_parallel_size: ") + ep),
        "global_batch_size: 8", "global_batch_size: 288"));
    const std::optional<ExpertNodes> on = expert_nodes(job);
    return on ? std::pair{on->nodes, on->ranks} : std::pair<std::int64_t, std::int64_t>{};
  };
  using Nodes = std::pair<std::int64_t, std::int64_t>;
  CHECK(lie("2", "8") == Nodes{1, 8});   // 8 GPUs of one switch
  CHECK(lie("18", "8") == Nodes{1, 8});  // nine groups on its 72
  CHECK(lie("36", "8") == Nodes{1, 8});  // and on two switches
  CHECK(lie("4", "16") == Nodes{1, 16});
  CHECK(lie("36", "16") == Nodes{4, 4});  // the fifth group on a switch would reach into the next: by trays
}
