#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace simrun {

// Where the page goes, if there is one. By default it is beside the input, whose extension `ending`
// replaces: ".html", ".sweep.html".
std::optional<std::string> page_path(const Options& options, const std::string& ending);

// Before anything runs: throws ConfigError if an output would replace an input or another output, or cannot
// be written.
void probe_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// "0.40 MB", of less than 0.1 MB "12.3 kB".
std::string file_size_text(std::size_t bytes);

// Writes the file whole; "wrote PATH (0.40 MB)\n". Throws OutputError.
std::string write_reported(const std::string& path, const std::string& bytes);

}  // namespace simrun
