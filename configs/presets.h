#pragma once

#include <string>
#include <vector>

#include "configs/config_node.h"
#include "configs/section_reader.h"

namespace simrun {

// Where the names after `from:` and `gpu:` are looked up.
struct PresetSearch {
  std::string job_file;                  // anchors names that came from the command line
  std::vector<std::string> directories;  // each with gpus/, clusters/, models/ and jobs/
  const ParsedFiles* parsed = nullptr;   // that need not be read again; may be nullptr
};

struct ResolvedSection {
  ConfigNode node;        // without `from`
  std::string base_name;  // stem of the file after `from:`, or ""
  bool found = true;  // false: a file is missing or unreadable, which is reported; the node holds the rest
};

// Replaces `from: x` in a map by the keys of file x, under the keys written beside it. `folder` is the
// presets' subfolder: "gpus", "clusters" or "models". x is looked up beside the file that says so, then in
// the preset directories and, where --set says so, in the folder of the command, with and without .yaml or
// .json; a file may itself start `from:` another, eight deep at most. The files that led to x are not meant
// by it, and a job (it has the key `simrun`), a result or an empty file only if no other file has the name.
ResolvedSection resolve_from(ConfigNode section, const std::string& folder, const PresetSearch& search,
                             Reading& reading);

// The names in a folder of presets ("models", "clusters", "jobs"), sorted, each once.
std::vector<std::string> preset_names(const std::string& folder, const std::vector<std::string>& directories);

}  // namespace simrun
