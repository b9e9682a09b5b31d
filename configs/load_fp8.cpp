// training.precision, and what fp8 and fp4 need of the other sections.
#include <fmt/format.h>

#include <array>

#include "configs/job_rules.h"
#include "configs/load_sections.h"
#include "configs/node_groups.h"

namespace simrun {
namespace {

constexpr std::array recipe_names{"delayed", "tensorwise", "blockwise", "mxfp8"};

void read_recipe(SectionReader& section, Fp8Config& fp8) {
  const WordRule rule{{recipe_names.begin(), recipe_names.end()}, {"custom"}};
  const std::string recipe = section.word("fp8_recipe", rule, "delayed");
  for (std::size_t r = 0; r < recipe_names.size(); ++r)
    if (recipe == recipe_names[r]) fp8.recipe = static_cast<Fp8Recipe>(r);
  fp8.param_gather = section.boolean("fp8_param_gather", false);
}

// The type to train in on a GPU that has neither fp8 nor fp4.
const char* wide_precision(const Gpu& gpu) {
  return gpu.peak_flops.contains(Dtype::bf16)   ? "bf16"
         : gpu.peak_flops.contains(Dtype::fp16) ? "fp16"
                                                : "fp32";
}

void check_gpu_kind(const Gpu& gpu, Reading& reading, const Job& job) {
  if (gpu.peak_flops.empty()) return;
  const Dtype narrow = operand_dtype(job.training.fp8->recipe);
  const bool has_fp8 = gpu.peak_flops.contains(Dtype::fp8);
  if (!gpu.peak_flops.contains(narrow))
    reading.problem("training.precision",
                    fmt::format("{} has no peak_flops for {}", gpu.name, to_string(narrow)),
                    fmt::format("precision: {}.", has_fp8 ? "fp8" : wide_precision(gpu)));
  else if (job.training.fp8->recipe == Fp8Recipe::mxfp8 && !gpu.mxfp8)
    reading.problem("training.fp8_recipe",
                    fmt::format("{} has no matrix products of mxfp8 (cluster.gpu.mxfp8)", gpu.name),
                    "fp8_recipe: blockwise.");
  else if (narrow == Dtype::fp8 && gpu.mxfp8 != job.cluster.gpu.mxfp8)
    reading.problem("training.precision",
                    fmt::format("fp8 on {} and {}: only one of them keeps a second copy of its operands",
                                job.cluster.gpu.name, gpu.name),
                    "precision: bf16.");
}

void check_device(Reading& reading, const Job& job) {
  const GpuKinds kinds(job.cluster);
  for (std::size_t kind = 0; kind < kinds.count(); ++kind) check_gpu_kind(kinds.gpu(kind), reading, job);
}

// Megatron-LM's arguments.py: "--fp8-param-gather only supported with distributed optimizer".
void check_parameters(Reading& reading, const Job& job) {
  if (!job.training.fp8->param_gather) return;
  const std::string path = "training.fp8_param_gather";
  if (job.optimizer.zero_stage == 0)
    reading.problem(path, "fp8 parameters need zero_stage 1, 2 or 3: main parameters in shards",
                    "fp8_param_gather: false.");
  else if (!job.optimizer.main_params_dtype)
    reading.problem(path, "fp8 parameters need main parameters to be cast from",
                    "optimizer.main_params_dtype: fp32.");
  if (job.training.fp8->recipe == Fp8Recipe::mxfp8)
    reading.problem(path, "mxfp8 parameters are gathered in bf16 and cast behind it",
                    "fp8_param_gather: false.");
}

void check_recompute(Reading& reading, const Job& job) {
  for (const std::string& module : job.recompute.modules)
    if (!fp8_allows_recompute(job.training, module))
      reading.problem(
          "recompute.modules",
          fmt::format("fp8_recipe: delayed keeps the fp8 copy of what '{}' would discard", module),
          "fp8_recipe: tensorwise.");
  if (!job.recompute.saved.empty() && job.training.fp8->recipe == Fp8Recipe::delayed)
    reading.problem("recompute.saved",
                    "fp8_recipe: delayed keeps the fp8 copies of operators that are not listed",
                    "fp8_recipe: tensorwise.");
}

void check_family(Reading& reading, const Job& job) {
  const ModelFamily& family = job.model.family;
  if (family_as<ResNetConfig>(family) != nullptr || family_as<VggConfig>(family) != nullptr ||
      family_as<GnmtConfig>(family) != nullptr)
    reading.problem("training.precision",
                    fmt::format("{} is for the linear layers of transformers; {} has none",
                                to_string(operand_dtype(job.training.fp8->recipe)), job.model.model_type),
                    fmt::format("precision: {}.", wide_precision(job.cluster.gpu)));
}

}  // namespace

void read_precision(SectionReader& section, Reading& reading, Training& training) {
  const std::string precision =
      section.word("precision", {{"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4"}, {"mxfp8"}});
  for (const Dtype dtype : {Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16})
    if (precision == to_string(dtype)) training.precision = dtype;
  if (precision == to_string(Dtype::fp8)) {
    training.precision = Dtype::bf16;
    return read_recipe(section, training.fp8.emplace());
  }
  if (precision == "nvfp4") {
    training.precision = Dtype::bf16;
    training.fp8 = Fp8Config{.recipe = Fp8Recipe::nvfp4};
  }
  for (const char* key : {"fp8_recipe", "fp8_param_gather"}) {
    if (section.has(key) && !precision.empty()) {
      section.text(key);
      reading.take(section.path_of(key));
      reading.problem(section.path_of(key),
                      fmt::format("{} means nothing with precision: {}", key, precision),
                      "it belongs to precision: fp8.");
    }
    section.ignore({key});
  }
}

bool fp8_allows_recompute(const Training& training, const std::string& module) {
  const bool delayed = training.fp8 && training.fp8->recipe == Fp8Recipe::delayed;
  return !delayed || (module != "layernorm" && module != "moe_act");
}

void apply_fp8_rules(Reading& reading, const Job& job) {
  if (!job.training.fp8) return;
  check_family(reading, job);
  check_device(reading, job);
  check_parameters(reading, job);
  check_recompute(reading, job);
}

}  // namespace simrun
