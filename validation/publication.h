#pragma once

#include <string>

namespace simrun {

// What the text of a source names whatever table or page of it: "arxiv 2302.13971" where it has an arXiv
// number; else the text in lower case, without what begins with "Table 2", "Figure 3", "section 2.4" or ';'.
std::string publication_of(const std::string& source);

}  // namespace simrun
