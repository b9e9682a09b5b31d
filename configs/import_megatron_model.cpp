// Megatron-LM's arguments about the model, its experts and its types to the keys of a job.
#include <fmt/format.h>

#include "configs/import_megatron_hybrid.h"
#include "configs/megatron_reader.h"

namespace simrun {
namespace {

// Megatron-LM's default of a gated MLP: "a multiple of 64", two thirds of 4 h.
void import_gated_size(MegatronReader& flags) {
  if (!flags.is_given("--swiglu") || flags.is_given("--ffn-hidden-size")) return;
  // Of a hidden size that is refused, any: what follows from it is not missing.
  const std::int64_t hidden = flags.number("--hidden-size").value_or(64);
  flags.put("model.ffn_hidden_size", fmt::format("{}", hidden * 8 / 3 / 64 * 64),
            flags.position_of("--swiglu"));
}

void import_heads(MegatronReader& flags) {
  // Without the switch Megatron-LM does not look at the number.
  const bool grouped = flags.is_on("--group-query-attention");
  if (grouped)
    flags.put("model.num_query_groups", flags.word("--num-query-groups", "1"),
              flags.position_of(flags.is_given("--num-query-groups") ? "--num-query-groups"
                                                                     : "--group-query-attention"));
}

void import_positions(MegatronReader& flags) {
  if (flags.is_on("--use-rotary-position-embeddings"))
    flags.put("model.position_embedding_type", "rope", flags.position_of("--use-rotary-position-embeddings"));
  else if (const std::optional<ShellWord> type = flags.value("--position-embedding-type"))
    flags.put("model.position_embedding_type", type->text, type->position);
}

// The table that padding makes: rows in multiples of `divisor` x tensor parallel.
std::int64_t padded(std::int64_t vocabulary, std::int64_t divisor, std::int64_t tensor_parallel) {
  const std::int64_t step = divisor * tensor_parallel;
  return (vocabulary + step - 1) / step * step;
}

void import_vocabulary(MegatronReader& flags) {
  if (const std::optional<ShellWord> size = flags.value("--vocab-size")) {
    flags.put("model.vocab_size", size->text, size->position);
  } else if (!flags.is_given("--vocab-size")) {
    // pretrain_gpt.py: args_defaults. Others have other ones.
    const bool is_other = flags.program().starts_with("pretrain_") && flags.program() != "pretrain_gpt.py";
    const std::string tokenizer = flags.word("--tokenizer-type", is_other ? "" : "GPT2BPETokenizer");
    if (tokenizer == "GPT2BPETokenizer")  // of others it is in their files: --set may say it
      flags.put("model.vocab_size", "50257", flags.position_of("--tokenizer-type"));
  }
  const std::optional<std::int64_t> divisor = flags.number("--make-vocab-size-divisible-by");
  const std::optional<std::int64_t> size = flags.number("--vocab-size");
  const std::int64_t tp = flags.number("--tensor-model-parallel-size").value_or(1);
  if (divisor && size && *divisor < 1'000'000 && *size < 1'000'000'000 && tp < 1'000'000 &&
      padded(*size, *divisor, tp) != padded(*size, 128, tp))
    flags.problem(flags.position_of("--make-vocab-size-divisible-by"),
                  fmt::format("a vocabulary of {} padded to {} rows; here it is padded to multiples of 128 x "
                              "tensor parallel: {}",
                              *size, padded(*size, *divisor, tp), padded(*size, 128, tp)),
                  "--make-vocab-size-divisible-by 128.");
}

void import_attention_kernel(MegatronReader& flags) {
  const bool is_local = flags.word("--transformer-impl", "transformer_engine") == "local";
  const std::string backend = flags.word("--attention-backend", "auto");
  const bool asks_for_flash = flags.is_on("--use-flash-attn");
  const bool is_unfused =
      backend == "unfused" || backend == "local" || (backend == "auto" && is_local && !asks_for_flash);
  const char* flag = is_unfused && backend == "auto" ? "--transformer-impl" : "--attention-backend";
  if (backend != "auto" && backend != "flash" && backend != "fused" && !is_unfused)
    flags.problem(flags.position_of(flag), fmt::format("--attention-backend cannot be '{}'", backend),
                  "one of flash, fused, unfused, local, auto.");
  if (is_unfused) flags.put("training.attention", "unfused", flags.position_of(flag));
}

}  // namespace

void import_megatron_model(MegatronReader& flags) {
  import_hybrid_layers(flags);
  import_gated_size(flags);
  import_heads(flags);
  import_positions(flags);
  import_vocabulary(flags);
  import_attention_kernel(flags);
}

void import_megatron_experts(MegatronReader& flags) {
  if (!flags.is_given("--num-experts")) return;
  if (const std::optional<ShellWord> layers = flags.value("--moe-layer-freq"))
    flags.put("model.moe_layer_freq", layers->text, layers->position);
  const std::string type = flags.word("--moe-token-dispatcher-type", "allgather");
  const SourcePosition at = flags.position_of("--moe-token-dispatcher-type");
  const bool is_deepep = flags.is_on("--moe-enable-deepep");
  if (type == "flex" && !is_deepep)
    flags.problem(at, "the flex dispatcher without DeepEP is not modelled", "--moe-enable-deepep.");
  if (is_deepep && type != "flex")
    flags.problem(flags.position_of("--moe-enable-deepep"),
                  fmt::format("DeepEP is the flex dispatcher's, not {}'s", type),
                  "--moe-token-dispatcher-type flex.");
  flags.put("moe.token_dispatcher", type == "flex" ? "deepep" : type, at);
  const bool pads = flags.is_on("--moe-pad-expert-input-to-capacity");
  if (flags.is_given("--moe-expert-capacity-factor") && !pads)
    flags.problem(flags.position_of("--moe-expert-capacity-factor"),
                  "experts with a capacity are padded to it here",
                  "--moe-pad-expert-input-to-capacity, or no capacity.");
}

namespace {

// Megatron-LM's arguments.py: fp4 excludes fp8, and what is in neither is in bf16 here.
void import_fp4(MegatronReader& flags) {
  const std::optional<ShellWord> format = flags.value("--fp4-format"), recipe = flags.value("--fp4-recipe");
  const SourcePosition at = flags.position_of("--fp4-format");
  if (!flags.is_on("--bf16")) flags.problem(at, "what is not in fp4 is in bf16 here", "--bf16.");
  if (flags.is_given("--fp8-format"))
    flags.problem(at, "--fp4-format and --fp8-format exclude each other", "keep one.");
  if (format && format->text != "e2m1")
    flags.problem(format->position, fmt::format("--fp4-format cannot be '{}'", format->text), "e2m1.");
  if (recipe && recipe->text != "nvfp4")
    flags.problem(recipe->position, fmt::format("--fp4-recipe cannot be '{}'", recipe->text), "nvfp4.");
  flags.drop("training.fp8_param_gather");
  flags.put("training.precision", "nvfp4", at);
}

}  // namespace

void import_megatron_precision(MegatronReader& flags) {
  const bool bf16 = flags.is_on("--bf16"), fp16 = flags.is_on("--fp16");
  const std::optional<ShellWord> fp8 = flags.value("--fp8-format");
  if (bf16 && fp16)
    flags.problem(flags.position_of("--fp16"), "--bf16 and --fp16 exclude each other", "keep one.");
  if (flags.is_given("--fp4-format")) return import_fp4(flags);
  if (!flags.is_given("--fp8-format")) {
    flags.drop("training.fp8_param_gather");
    return flags.put("training.precision",
                     bf16   ? "bf16"
                     : fp16 ? "fp16"
                            : "fp32",
                     flags.position_of(bf16 ? "--bf16" : "--fp16"));
  }
  if (!bf16)
    flags.problem(flags.position_of("--fp8-format"), "what is not in fp8 is in bf16 here", "--bf16.");
  if (!fp8) return;
  if (fp8->text != "hybrid" && fp8->text != "e4m3")
    flags.problem(fp8->position, fmt::format("--fp8-format cannot be '{}'", fp8->text), "hybrid or e4m3.");
  flags.put("training.precision", "fp8", fp8->position);
  if (const std::optional<ShellWord> recipe = flags.value("--fp8-recipe"))
    flags.put("training.fp8_recipe", recipe->text, recipe->position);
}

}  // namespace simrun
