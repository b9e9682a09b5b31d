#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simrun {

// A job as dotted keys and their values in YAML, in the order in which they came.
class JobText {
 public:
  // Replaces a value that is there.
  void set(const std::string& key, std::string value);
  void set_if_absent(const std::string& key, std::string value);
  bool has(const std::string& key) const;
  // Or "".
  std::string value(const std::string& key) const;
  // With every key whose path starts so.
  void erase(const std::string& prefix);
  // The file that the loader reads: block maps, sections in the order of a job file.
  std::string yaml() const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace simrun
