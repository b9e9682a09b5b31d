#include "validation/publication.h"

#include <catch2/catch.hpp>

namespace simrun {

TEST_CASE("publications: the tables of one paper or page are one source") {
  CHECK(publication_of("LLaMA (arXiv 2302.13971) section 2.4") == "arxiv 2302.13971");
  CHECK(publication_of("LLaMA (arXiv:2302.13971v1) Table 15") == "arxiv 2302.13971");
  CHECK(publication_of("A Blog  Table 2") == "a blog");
  CHECK(publication_of("a blog, Figure 3; fast runs") == "a blog");
  CHECK(publication_of("owner/repo log_metrics.csv (nanotron)") == "owner/repo log_metrics.csv (nanotron)");
  CHECK(publication_of("a stable table of rows") == "a stable table of rows");
  CHECK(publication_of("Table 4") == "table 4");
  CHECK(publication_of("") == "");
}

}  // namespace simrun
