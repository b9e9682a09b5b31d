#pragma once

#include <string>

namespace simrun {

// A gzip file (RFC 1952) without name or time in it: equal bytes give equal files, whoever compresses them
// with the same zlib.
std::string gzip(const std::string& bytes);

}  // namespace simrun
