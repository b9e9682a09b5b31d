#include "backend/text_data.h"

#include <catch2/catch.hpp>
#include <set>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {
namespace {

const char* const byte_gpt =
    "model: {model_type: gpt, num_layers: 2, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
    "vocab_size: 256, max_position_embeddings: 12, hidden_dropout: 0, attention_dropout: 0}\n";

TEST_CASE("a sample is a stretch of the text, and samples begin everywhere") {
  const TextData text("abcdefghij");
  std::set<std::int64_t> begins;
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    const std::int64_t first = text.token(0, sample, 0, 4);
    begins.insert(first);
    for (std::int64_t i = 0; i <= 4; ++i) CHECK(text.token(0, sample, i, 4) == first + i);
  }
  // 5 letters and the label behind the last: from a to f.
  CHECK(begins == std::set<std::int64_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  CHECK(text.token(0, 7, 0, 4) == text.token(0, 7, 0, 4));
}

TEST_CASE("bytes above 127 are tokens too") { CHECK(TextData("\xff\xff").token(0, 0, 0, 1) == 255); }

TEST_CASE(
    "a model of fewer than 256 words, one that reads no text, and a text shorter than a sample are refused") {
  const TextData text("nine bytes");
  CHECK(text_refusal(compile(tiny_job({.model = byte_gpt})), text) == "");
  CHECK(text_refusal(compile(tiny_job({})), text).find("the vocabulary has 50: model.vocab_size") !=
        std::string::npos);
  CHECK(text_refusal(compile(tiny_job({.model = byte_gpt})), TextData("8 bytes.")) ==
        "a sample is 9 bytes long and the text has 8: training.seq_length");
}

TEST_CASE("every layout is trained on the same bytes, and learns a text that repeats") {
  const TextData text("the cat sat on the mat. the cat sat on the mat. the cat sat on the mat.");
  const auto trained = [&](const TinyJob& job, int steps) {
    ExecuteOptions options;
    options.steps = steps;
    options.training.learning_rate = 1e-2;
    options.training.text = &text;
    return execute(compile(tiny_job(job)), options);
  };
  const Execution alone = trained({.model = byte_gpt}, 150);
  CHECK(alone.loss.front() == Approx(std::log(256)).epsilon(0.02));
  CHECK(alone.loss.back() < 1);  // 8 letters of 24 that repeat: nothing but the beginning is a surprise
  const TinyJob eight_ranks{
      byte_gpt, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", "{zero_stage: 1}", "", "",
      8};
  const Execution eight = trained(eight_ranks, 2);
  for (std::size_t step : {0, 1}) CHECK(eight.loss[step] == Approx(alone.loss[step]).epsilon(1e-12));
}

}  // namespace
}  // namespace simrun
