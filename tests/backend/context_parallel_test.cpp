#include <catch2/catch.hpp>

#include "backend/tensor_part.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {
namespace {

std::vector<std::int64_t> indices(const DimPart& part) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < part.extent; ++i) all.push_back(part.at(i));
  return all;
}

using Indices = std::vector<std::int64_t>;

}  // namespace

TEST_CASE(
    "of two ranks the first has the first and last quarter of a zigzag sequence, the other the middle") {
  CHECK(indices(zigzag_part(8, 0, 2)) == Indices{0, 1, 6, 7});
  CHECK(indices(zigzag_part(8, 1, 2)) == Indices{2, 3, 4, 5});
  CHECK(zigzag_part(8, 1, 2).gap == 0);
  CHECK(indices(slice_of(zigzag_part(8, 0, 2), 1, 2)) == Indices{1, 6});
  CHECK(indices(slice_of(zigzag_part(8, 0, 2), 2, 2)) == Indices{6, 7});
  CHECK(slice_of(zigzag_part(8, 0, 2), 2, 2) == DimPart{6, 2, 8});
}

TEST_CASE("parts of zigzag sequences share out every index once, and meet where both have an index") {
  for (const std::int64_t ranks : {1, 2, 3, 4})
    for (const std::int64_t cut : {1, 2, 4}) {
      CAPTURE(ranks, cut);
      const std::int64_t whole = 24 * ranks;
      std::vector<int> owners(static_cast<std::size_t>(whole), 0);
      for (std::int64_t r = 0; r < ranks; ++r)
        for (std::int64_t c = 0; c < cut; ++c) {
          const DimPart part = slice_of(zigzag_part(whole, r, ranks), c * 24 / cut, 24 / cut);
          for (std::int64_t i = 0; i < part.extent; ++i) {
            ++owners[static_cast<std::size_t>(part.at(i))];
            CHECK(local_of(part, part.at(i)) == i);
          }
          for (std::int64_t other = 0; other < 2 * ranks; ++other) {
            const DimPart block = contiguous_part(whole, other, 2 * ranks);
            Indices expected;
            for (const std::int64_t i : indices(part))
              if (i >= block.first && i < block.first + block.extent) expected.push_back(i);
            const auto common = common_part({part}, {block});
            CHECK((common ? indices(common->front()) : Indices{}) == expected);
          }
        }
      CHECK(owners == std::vector<int>(owners.size(), 1));
    }
}

TEST_CASE("in step i of a ring of three, rank r meets the keys of rank r - i") {
  SequencePart part{{0}, true, false, 1};
  CHECK(keys_in_ring(part, zigzag_part(12, 0, 3)) == zigzag_part(12, 2, 3));
  part.key_offset = 2;
  CHECK(keys_in_ring(part, zigzag_part(12, 1, 3)) == zigzag_part(12, 2, 3));
  part.zigzag = false;
  CHECK(keys_in_ring(part, contiguous_part(12, 2, 3)) == contiguous_part(12, 0, 3));
}

TEST_CASE("context-parallel ranks compute what one rank does, however keys travel and sequences are cut",
          "[long]") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* layout : {"zigzag", "contiguous"}) {
      for (const char* exchange : {"p2p", "all_gather", "a2a"}) {
        const std::string common =
            "cp_comm_type: " + std::string(exchange) + ", context_parallel_layout: " + layout + "}";
        check_job({.model = model, .parallelism = "{context_parallel_size: 2, " + common, .gpus = 2});
      }
      const std::string four = ", context_parallel_layout: " + std::string(layout) + "}";
      for (const char* exchange : {"p2p", "all_gather"})
        check_job({.model = model,
                   .parallelism = "{context_parallel_size: 4, cp_comm_type: " + std::string(exchange) + four,
                   .gpus = 4});
      check_job({.model = model,
                 .parallelism = "{context_parallel_size: 4, cp_comm_type: a2a+p2p, "
                                "hierarchical_context_parallel_sizes: [2, 2]" +
                                four,
                 .gpus = 4});
    }
}

TEST_CASE("four ranks that exchange heads have copies of two key-value heads, whose gradients add up") {
  const std::string four = "{context_parallel_size: 4, cp_comm_type: a2a";
  check_job({.model = tiny_llama, .parallelism = four + "}", .gpus = 4});
  check_job({.model = tiny_llama, .parallelism = four + "}", .optimizer = "{zero_stage: 3}", .gpus = 8});
  check_job({.model = tiny_llama,
             .parallelism = four + ", pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}",
             .more = "recompute: {granularity: selective, modules: [core_attn]}\n",
             .gpus = 8});
  // Four heads of one: two inner ranks repeat it, rings of two carry it on; and ranks beside tensor-parallel
  // ones, which gather the rows first.
  const char* const one =
      "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, "
      "num_attention_heads: 4, num_key_value_heads: 1, vocab_size: 50, max_position_embeddings: 32}\n";
  check_job({.model = one,
             .parallelism = "{context_parallel_size: 4, cp_comm_type: a2a+p2p, "
                            "hierarchical_context_parallel_sizes: [2, 2]}",
             .gpus = 4});
  for (const char* sequence_parallel : {"false", "true"})
    check_job({.model = one,
               .parallelism = "{tensor_model_parallel_size: 2, context_parallel_size: 2, cp_comm_type: a2a, "
                              "sequence_parallel: " +
                              std::string(sequence_parallel) + "}",
               .gpus = 4});
}

TEST_CASE("a zigzag sequence is cut further by sequence parallelism and meets every other axis", "[long]") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* exchange : {"p2p", "all_gather"}) {
      const std::string cp = "context_parallel_size: 2, cp_comm_type: " + std::string(exchange);
      check_job({.model = model,
                 .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true, " + cp + "}",
                 .gpus = 4});
      check_job(
          {.model = model,
           .parallelism = "{pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2, " + cp + "}",
           .optimizer = "{zero_stage: 1}",
           .gpus = 16});
      check_job({.model = model,
                 .parallelism = "{" + cp + "}",
                 .optimizer = "{zero_stage: 3}",
                 .more = "recompute: {granularity: full}\n",
                 .gpus = 4,
                 .micro_batch_size = 2});
    }
}

TEST_CASE("windows and dropout are over places in the whole sequence") {
  const std::string windowed =
      "model: {model_type: mistral, num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, "
      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12, "
      "sliding_window: 3}\n";
  const std::string dropping =
      "model: {model_type: gpt, num_layers: 2, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
      "vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0.2, attention_dropout: 0.1}\n";
  for (const std::string& model : {windowed, dropping})
    for (const char* exchange : {"p2p", "all_gather", "a2a"})
      for (const char* layout : {"zigzag", "contiguous"})
        check_job({.model = model.c_str(),
                   .parallelism = "{context_parallel_size: 2, cp_comm_type: " + std::string(exchange) +
                                  ", context_parallel_layout: " + layout + "}",
                   .gpus = 4});
}

}  // namespace simrun
