// Hybrids of Mamba-2, attention, MLPs and experts as arguments of Megatron-LM's pretrain_mamba.py, and back.
#include <catch2/catch.hpp>

#include "configs/export_megatron.h"
#include "configs/import_megatron.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

const std::string hybrid_flags = R"(--hidden-size 1024 --num-attention-heads 16 --vocab-size 51200
--max-position-embeddings 1024 --seq-length 1024 --micro-batch-size 1 --global-batch-size 16 --bf16
--tensor-model-parallel-size 4 --nnodes 1 --nproc-per-node 8 )";

Job hybrid_import(const std::string& more) {
  return import_megatron(hybrid_flags + more, "run.sh", with_presets()).job;
}

std::string hybrid_refusal(const std::string& more) {
  try {
    hybrid_import(more);
  } catch (const ConfigError& error) {
    return render(error.diagnostics());
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a hybrid's layers are those of its pattern, which later versions count by themselves") {
  const ModelConfig earlier =
      hybrid_import(
          "--num-layers 4 --is-hybrid-model --hybrid-override-pattern 'M-*M' --spec "
          "megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec --mamba-state-dim 64 "
          "--mamba-head-dim 32 --mamba-num-heads 48 --mamba-num-groups 4")
          .model;
  CHECK(earlier.layer_contents == std::vector<LayerContent>{LayerContent::mamba, LayerContent::mlp,
                                                            LayerContent::attention, LayerContent::mamba});
  CHECK(earlier.mamba == MambaConfig{48, 32, 64, 4});
  const ModelConfig later = hybrid_import(
                                "--hybrid-layer-pattern 'M-*M' --mamba-state-dim 64 --mamba-head-dim 32 "
                                "--mamba-num-heads 48 --mamba-num-groups 4")
                                .model;
  CHECK(later == earlier);
}

TEST_CASE("what a file does not say of a hybrid is refused where it stands") {
  using Catch::Contains;
  CHECK_THAT(hybrid_refusal("--num-layers 4 --is-hybrid-model"),
             Contains("the file does not say what each layer is"));
  CHECK_THAT(hybrid_refusal("--num-layers 4 --hybrid-attention-ratio 0.1"),
             Contains("what each layer is, shares of them do not say"));
  CHECK_THAT(hybrid_refusal("--num-layers 4 --spec my.layers spec"),
             Contains("a layer of one's own is not modelled"));
  CHECK_THAT(hybrid_refusal("--hybrid-layer-pattern 'M-*M' --spec my.layers spec"),
             Contains("a layer of one's own is not modelled"));
}

TEST_CASE("of two patterns a script is told, and shares beside a pattern say nothing") {
  using Catch::Contains;
  CHECK_THAT(hybrid_refusal("--num-layers 4 --hybrid-override-pattern 'M-*M' --hybrid-layer-pattern 'MMMM'"),
             Contains("--hybrid-layer-pattern and --hybrid-override-pattern are one"));
  CHECK_THAT(hybrid_refusal("--num-layers 4 --hybrid-override-pattern 'M-*M' --hybrid-attention-ratio 0.2"),
             Contains("accepted"));
}

TEST_CASE("a pattern says the stages and the layers that predict further tokens, too") {
  const std::string sizes =
      "--mamba-state-dim 64 --mamba-head-dim 32 --mamba-num-heads 48 --mamba-num-groups 4 "
      "--pipeline-model-parallel-size 2 --spec megatron.core.models.hybrid.hybrid_layer_specs "
      "hybrid_stack_spec ";
  const Job job = hybrid_import(sizes + "--hybrid-layer-pattern 'M-|*M-/*-/*-'");
  CHECK(job.model.num_layers == 5);
  CHECK(job.model.num_nextn_predict_layers == 2);
  REQUIRE(job.model.further_layers.size() == 2);
  CHECK(job.model.further_layers[0].content == LayerContent::attention);
  CHECK(job.model.further_layers[1].content == LayerContent::mlp);
  REQUIRE(job.parallelism.stages.size() == 2);
  CHECK(job.parallelism.stages[0] == StageContent{true, 2, false, 0});
  CHECK(job.parallelism.stages[1] == StageContent{false, 3, true, 2});

  const Job interleaved = hybrid_import(sizes + "--hybrid-layer-pattern 'M-|*M|-M|*-'");
  CHECK(interleaved.parallelism.virtual_pipeline_model_parallel_size == 2);
  CHECK(interleaved.parallelism.stages.size() == 4);
}

TEST_CASE("what a pattern says of stages or further tokens has to be one thing") {
  using Catch::Contains;
  const std::string two = "--pipeline-model-parallel-size 2 --hybrid-layer-pattern ";
  CHECK_THAT(hybrid_refusal(two + "'*-|*-|*-'"), Contains("3 stages do not split into 2 pipeline ranks"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-' --pipeline-model-parallel-layout 'Ett|ttL'"),
             Contains("beside the | of a pattern"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-/*-/*' --mtp-num-layers 2"),
             Contains("the layers behind each / are alike"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-/*-' --mtp-num-layers 2"),
             Contains("--mtp-num-layers 2, and the pattern has 1 of /"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-/'"), Contains("no layers behind /"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-/*|-'"), Contains("no | behind /"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*G'"), Contains("'G' is no layer"));
  CHECK_THAT(hybrid_refusal(two + "'*-|*-/*-' --mtp-hybrid-override-pattern '*-'"),
             Contains("beside the / of a pattern"));
}

TEST_CASE("Nemotron 3 Super with the layers that predict further tokens comes back from its script") {
  const Job job = load_job_text(
                      "simrun: 1\nmodel: {from: nemotron3-super-120b-a12b, mtp_num_layers: 2, "
                      "mtp_hybrid_override_pattern: \"*E\"}\ntraining: {seq_length: 4096, "
                      "micro_batch_size: 1, global_batch_size: 64, precision: bf16}\nparallelism: "
                      "{expert_model_parallel_size: 8}\noptimizer: {zero_stage: 1}\n"
                      "cluster: {from: dgx_h100, nodes: 8}\n",
                      "job.yaml", with_presets())
                      .job;
  const std::string script = megatron_script(job, "0");
  CHECK_THAT(script, Catch::Contains("pretrain_mamba.py") && Catch::Contains("--moe-latent-size 1024") &&
                         Catch::Contains("--mtp-hybrid-override-pattern '*E'"));
  LoadOptions options = with_presets();
  options.overrides = {{"cluster.from", "dgx_h100"}};
  const Job back = import_megatron(script, "run.sh", options).job;
  CHECK(back.model == job.model);
  CHECK(megatron_arguments(job).unexpressed.empty());
}

}  // namespace simrun::test
