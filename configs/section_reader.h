#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/config_node.h"
#include "configs/key_rule.h"
#include "configs/numbers.h"
#include "configs/reading.h"

namespace simrun {

struct WordRule {
  std::vector<std::string> accepted;
  std::vector<std::string> not_yet = {};            // known to the world, refused as "not supported yet"
  std::map<std::string, std::string> refused = {};  // likewise, with the sentence that says why
  std::string file_ending = "";                     // words that end so are paths; "": none are
  bool may_repeat = false;                          // of a list: words stand for one thing after the other
  bool may_guess = true;  // false: never "did you mean", since words that look alike mean different things
};

// Reads one map of the config strictly. Every method reads one key once, records it in Reading::values, and
// reports what is wrong with it. A key without a fallback is required. After a problem a method returns 0,
// false or ""; finish() reports the keys that nobody asked for.
class SectionReader {
 public:
  // `section` may be null (not written). `path` is the dotted path, "model" or "cluster.gpu".
  SectionReader(Reading& reading, const ConfigNode* section, std::string path);

  bool is_no_map() const { return is_no_map_; }  // which is reported
  bool has(const std::string& key) const;        // written, and not null
  std::int64_t integer(const std::string& key, IntegerRange range, std::optional<std::int64_t> fallback = {});
  double real(const std::string& key, RealRange range, std::optional<double> fallback = {});
  bool boolean(const std::string& key, std::optional<bool> fallback = {});
  std::string word(const std::string& key, const WordRule& rule, std::optional<std::string> fallback = {});
  std::vector<std::string> words(const std::string& key, const WordRule& rule,
                                 std::vector<std::string> fallback);
  // A list of `count` integers. Required where it is asked for.
  std::vector<std::int64_t> integers(const std::string& key, IntegerRange range, std::size_t count);
  // A list of whole numbers; empty after a problem.
  std::vector<std::int64_t> integer_list(const std::string& key, IntegerRange range,
                                         std::vector<std::int64_t> fallback);
  // Letters, digits and ._-
  std::string name(const std::string& key, const std::string& fallback);
  // Any ASCII; its position is that of its first character, within the quotes. "" when it is not written.
  std::string text(const std::string& key);
  double quantity(const std::string& key, Unit unit, RealRange range,
                  std::optional<std::string> fallback = {});
  // A nested map; null when it is not written.
  const ConfigNode* section(const std::string& key);
  // Keys that are known and have no effect here.
  void ignore(const std::vector<std::string>& keys);

  const std::vector<std::string>& known_keys() const { return known_; }
  std::string path_of(const std::string& key) const { return path_ + "." + key; }
  void finish();

 private:
  const ConfigNode* find(const std::string& key);
  const ConfigNode* scalar(const std::string& key, bool required, const char* expected);
  void bad(const std::string& key, const std::string& message, const std::string& hint);
  void wrote(const std::string& key, const ConfigNode& node, const std::string& value);
  void defaulted(const std::string& key, const std::string& value);
  std::string checked_word(const std::string& key, const ConfigNode& node, const WordRule& rule);

  Reading& reading_;
  const ConfigNode* section_;
  std::string path_;
  std::vector<std::string> known_;
  bool is_no_map_ = false;   // reported; its missing keys are not
  bool is_partial_ = false;  // nor are those of a section whose `from` is missing
};

}  // namespace simrun
