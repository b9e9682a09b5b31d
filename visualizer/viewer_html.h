#pragma once

#include <string_view>

namespace simrun {

// visualizer/dist/viewer.html, compiled in (cmake/viewer.cmake). Built from visualizer/src by `npm run
// build`, and committed, so a C++ build needs no node. It holds one "<!--simrun:NAME-->" for each of title,
// numbers, tables, facts and columns.
std::string_view viewer_html();

// visualizer/dist/estimator.html, likewise: the page of `simrun --serve`, whole.
std::string_view estimator_html();

}  // namespace simrun
