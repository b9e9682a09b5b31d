#pragma once

#include <string>
#include <vector>

#include "planner/search.h"

namespace simrun {

// One process's share of a part of a search, by its text; every process then has all of them.
template <typename Share, typename Make, typename Write, typename Read>
std::vector<Share> of_all_processes(const SearchProcesses& among, const Make& make, const Write& write,
                                    const Read& read) {
  if (among.processes == 1) return {make()};
  std::vector<Share> shares;
  for (const std::string& text : among.gather([&] { return write(make()); })) shares.push_back(read(text));
  return shares;
}

}  // namespace simrun
