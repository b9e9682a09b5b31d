#include "models/packed_documents.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace simrun {
namespace {

using Lengths = std::vector<std::int64_t>;

TEST_CASE("four equal documents leave a quarter of the causal scores") {
  // 4 x 1024^2 / 2 of 4096^2 / 2.
  CHECK(document_share({1024, 1024, 1024, 1024}, {true, 0}) == Approx(0.25));
  CHECK(document_share({4096}, {true, 0}) == 1);
  // Without a causal mask likewise: sum of squares over the square.
  CHECK(document_share({3, 1}, {}) == Approx(10.0 / 16));
}

TEST_CASE("a window of which documents are not longer hides what lies between them anyway") {
  // w = 2, s = 4: 2 x 4 - 2 = 6 of the whole sequence; each document of 2: 2.
  CHECK(document_share({2, 2}, {true, 2}) == Approx(4.0 / 6));
}

TEST_CASE("chunks cut documents where they lie in the sequence") {
  // c = 3, s = 6: documents of 4 and 2 are pieces of 3, 1 and 2: (9 + 1 + 4) / 2 of (9 + 9) / 2 scores.
  CHECK(document_share({4, 2}, {true, 3, true}) == Approx(7.0 / 9));
}

TEST_CASE("recorded documents are cut where sequences end, and read in a circle") {
  DocumentConfig config;
  config.lengths = DocumentLengths::recorded;
  config.recorded = {5, 3};
  CHECK(documents_of_sequence(config, 4, 0) == Lengths{4});
  CHECK(documents_of_sequence(config, 4, 1) == Lengths{1, 3});
  CHECK(documents_of_sequence(config, 4, 2) == Lengths{4});
  CHECK(documents_of_sequence(config, 16, 0) == Lengths{5, 3, 5, 3});
}

TEST_CASE("drawn documents fill every sequence, are the same for one seed and have about their mean") {
  DocumentConfig config;
  config.lengths = GENERATE(DocumentLengths::fixed, DocumentLengths::uniform, DocumentLengths::lognormal);
  config.mean = 100;
  config.sigma = 1;
  config.seed = 7;
  std::int64_t documents = 0;
  constexpr std::int64_t sequences = 50, length = 20'000;
  for (std::int64_t n = 0; n < sequences; ++n) {
    const Lengths lengths = documents_of_sequence(config, length, n);
    CHECK(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == length);
    CHECK(lengths == documents_of_sequence(config, length, n));
    documents += static_cast<std::int64_t>(lengths.size());
  }
  CHECK(static_cast<double>(sequences * length) / static_cast<double>(documents) ==
        Approx(100).epsilon(0.05));
  if (config.lengths != DocumentLengths::fixed) {
    DocumentConfig other = config;
    other.seed = 8;
    CHECK(documents_of_sequence(other, length, 0) != documents_of_sequence(config, length, 0));
  }
}

}  // namespace
}  // namespace simrun
