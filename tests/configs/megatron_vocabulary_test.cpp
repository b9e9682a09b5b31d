// The size of the vocabulary, which Megatron-LM reads from its tokenizer's files unless a flag says it.
#include <catch2/catch.hpp>

#include "configs/import_megatron.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

const std::string script =
    "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py \\\n"
    "  --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --bf16 \\\n"
    "  --max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 8 \\\n"
    "  --tokenizer-type ";

std::string vocabulary_of(const std::string& rest, const std::vector<Override>& overrides = {}) {
  try {
    const Job job = import_megatron(script + rest, "run.sh", {overrides, {preset_directory}}).job;
    return fmt::format("{}", job.model.vocab_size);
  } catch (const ConfigError& error) {
    return render(error.diagnostics());
  }
}

}  // namespace

TEST_CASE("a vocabulary in the tokenizer's files is said by a flag or by --set") {
  for (const char* tokenizer : {"Llama2Tokenizer", "HuggingFaceTokenizer", "SentencePieceTokenizer"}) {
    CAPTURE(tokenizer);
    CHECK(vocabulary_of(tokenizer) ==
          fmt::format("run.sh:4:3: error: the size of the vocabulary is in the tokenizer's files ({})\n"
                      "  hint: --vocab-size N, or its key by --set.\n"
                      "1 error; nothing was run.\n",
                      tokenizer));
    CHECK(vocabulary_of(tokenizer, {{"model.vocab_size", "32000"}}) == "32000");
    CHECK(vocabulary_of(std::string(tokenizer) + " --vocab-size 32000") == "32000");
  }
  CHECK(vocabulary_of("GPT2BPETokenizer") == "50257");
  CHECK(vocabulary_of("GPT2BPETokenizer", {{"model.vocab_size", "50000"}}) == "50000");
}

TEST_CASE("a tokenizer that the file does not name is the only fault of a script without a vocabulary") {
  const std::string refused = vocabulary_of("$TOKENIZER");
  CHECK(refused.find("the file does not say what '$TOKENIZER' is") != std::string::npos);
  CHECK(refused.find("1 error; nothing was run.") != std::string::npos);
}

}  // namespace simrun::test
