// YAML text -> ConfigNode, over yaml-cpp's event interface.
//
// Events rather than YAML::Node, because a Node has already lost what we must refuse: duplicate keys, aliases
// (which can build cycles and trees of exponential size) and whether a scalar was quoted.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <utility>

#include "configs/config_node.h"

namespace simrun {
namespace {

constexpr std::size_t deepest_level = 32;
constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr std::size_t most_refusals = 100;    // of one text
constexpr std::size_t most_copied = 100'000;  // nodes for anchors and aliases

// Ends the parse from inside an event; its diagnostic is already recorded.
struct StopReading {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, std::vector<Diagnostic>& problems)
      : file_(file), problems_(problems) {}

  ConfigNode take_root() { return std::move(root_); }
  SourcePosition position(const YAML::Mark& mark) const {
    if (mark.is_null()) return {file_, 0, 0};
    return {file_, mark.line + 1, mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) stop(mark, "a config is one YAML document; a second one starts here", "");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node(mark, ConfigNode::Kind::null), anchor);
  }
  // What it stands for is put there all the same, so that nothing seems to be missing.
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!is_behind_merge())
      refuse(position(mark), "YAML aliases (*name) are not accepted", "write the value again.");
    const auto meant = anchored_.find(anchor);
    if (meant == anchored_.end()) throw StopReading{};  // of what it stands in itself, or of too much
    copied_ += size_of(meant->second);
    if (copied_ > most_copied) throw StopReading{};
    ConfigNode copy = meant->second;
    copy.position = position(mark);
    add(std::move(copy));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!") refuse_tag(mark, tag);
    ConfigNode scalar = node(mark, ConfigNode::Kind::scalar);
    scalar.text = value;
    scalar.quoted = tag == "!" || tag.ends_with(":str");
    add(std::move(scalar), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    ConfigNode node = {};
    ConfigNode key = {};  // of a map: the key whose value comes next
    bool has_key = false;
    std::map<std::string, int> line_of_key = {};
    YAML::anchor_t anchor = 0;
    std::vector<ConfigNode> merges = {};  // maps, and lists of maps, at <<
  };

  bool is_behind_merge() const {
    return !levels_.empty() && levels_.back().has_key && levels_.back().key.text == "<<" &&
           !levels_.back().key.quoted;
  }
  static std::size_t size_of(const ConfigNode& node) {
    std::size_t size = 1;
    for (const ConfigNode& child : node.children) size += size_of(child);
    return size;
  }

  ConfigNode node(const YAML::Mark& mark, ConfigNode::Kind kind) const {
    ConfigNode made;
    made.kind = kind;
    made.position = position(mark);
    return made;
  }

  [[noreturn]] void stop(const YAML::Mark& mark, const std::string& message, const std::string& hint) {
    problems_.push_back({position(mark), message, hint});
    throw StopReading{};
  }
  [[noreturn]] void stop_at_key(const SourcePosition& at) {
    problems_.push_back(
        {at, "a key must be a plain word, not a list or a map", "is a bracket never closed?"});
    throw StopReading{};
  }
  // What can be read all the same is, so that all such places are told at once.
  void refuse(const SourcePosition& at, const std::string& message, const std::string& hint) {
    problems_.push_back({at, message, hint});
    if (++refusals_ >= most_refusals) throw StopReading{};
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      refuse(position(mark), "YAML anchors (&name) are not accepted", "write the value where it is needed.");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    refuse(position(mark), fmt::format("YAML tags are not accepted: {}", in_quotes(tag)), "remove the tag.");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ConfigNode::Kind kind) {
    refuse_anchor(mark, anchor);
    if (!tag.empty() && tag != "?" && tag != "!") refuse_tag(mark, tag);
    if (levels_.size() >= deepest_level)
      stop(mark, fmt::format("nested deeper than {} levels", deepest_level), "");
    if (!levels_.empty() && levels_.back().node.kind == ConfigNode::Kind::map && !levels_.back().has_key)
      stop_at_key(position(mark));
    levels_.push_back({.node = node(mark, kind), .anchor = anchor});
  }

  void close() {
    Level done = std::move(levels_.back());
    levels_.pop_back();
    for (const ConfigNode& merge : done.merges) add_absent(merge, done);
    add(std::move(done.node), done.anchor);
  }

  // Keys of a map, or of each map of a list, that `into` has not.
  static void add_absent(const ConfigNode& from, Level& into) {
    for (const ConfigNode& child : from.children)
      if (from.kind == ConfigNode::Kind::sequence)
        add_absent(child, into);
      else if (into.line_of_key.emplace(child.key, child.key_position.line).second)
        into.node.children.push_back(child);
  }

  // Anchors within anchors would hold what is innermost once for each of them; what is too much for an alias
  // need not be held.
  void keep(YAML::anchor_t anchor, const ConfigNode& meant) {
    const std::size_t size = size_of(meant);
    if (copied_ + size > most_copied) return;
    copied_ += size;
    anchored_[anchor] = meant;
  }

  void add(ConfigNode child, YAML::anchor_t anchor = 0) {
    if (anchor != 0) keep(anchor, child);
    if (levels_.empty()) {
      root_ = std::move(child);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == ConfigNode::Kind::map) {
      if (!level.has_key) return set_key(level, std::move(child));
      const bool is_merge = is_behind_merge();
      child.key = std::move(level.key.text);
      child.key_position = level.key.position;
      level.has_key = false;
      if (is_merge) {
        refuse(child.position, "YAML merges (<<: *name) are not accepted", "write the keys again.");
        level.merges.push_back(std::move(child));
        return;
      }
      const auto [first, is_new] = level.line_of_key.emplace(child.key, child.key_position.line);
      if (!is_new) {
        problems_.push_back({child.key_position, fmt::format("duplicate key {}", in_quotes(child.key)),
                             fmt::format("it is already on line {}; keep one.", first->second)});
        return;
      }
    }
    level.node.children.push_back(std::move(child));
  }

  void set_key(Level& level, ConfigNode key) {
    if (key.kind != ConfigNode::Kind::scalar && key.kind != ConfigNode::Kind::null) stop_at_key(key.position);
    if (key.kind != ConfigNode::Kind::scalar) {
      problems_.push_back({key.position, "a key is empty", ""});
      throw StopReading{};
    }
    level.key = std::move(key);
    level.has_key = true;
  }

  const std::string& file_;
  std::vector<Diagnostic>& problems_;
  std::vector<Level> levels_;
  ConfigNode root_;
  std::map<YAML::anchor_t, ConfigNode> anchored_;  // complete ones
  std::size_t copied_ = 0, refusals_ = 0;
  int documents_ = 0;
};

// yaml-cpp takes byte 4 for the end of the text and would silently drop the rest.
bool is_plain_text(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems) {
  SourcePosition position{file, 1, 1};
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if ((byte < 0x20 && character != '\n' && character != '\r' && character != '\t') || byte == 0x7f) {
      problems.push_back({position, fmt::format("control character 0x{:02x}: not a text file", byte),
                          "configs are UTF-8 text."});
      return false;
    }
    ++position.column;
    if (character == '\n') position = {file, position.line + 1, 1};
  }
  return true;
}

// What a text lacks at its end is told behind its last line.
SourcePosition within(const std::string& text, SourcePosition position) {
  std::string line, last;
  int lines = 0, number = 0;
  for (std::istringstream stream(text); std::getline(stream, line);) {
    ++lines;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    number = lines;
    last = line;
  }
  if (number == 0 || position.line <= number) return position;
  return {position.file, number, static_cast<int>(last.size()) + 1};
}

std::string hint_for(const std::string& text, int error_line, const std::string& message) {
  if (message.find("end of map flow") != std::string::npos) return "a '{' wants its '}'.";
  if (message.find("end of sequence flow") != std::string::npos) return "a '[' wants its ']'.";
  std::istringstream lines(text);
  std::string line;
  for (int number = 0; number < error_line && std::getline(lines, line); ++number) {
  }
  return line.starts_with('\t') ? "YAML indents with spaces, not with tabs." : "";
}

}  // namespace

ConfigNode read_yaml(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems) {
  if (text.size() > largest_text) {
    problems.push_back({{file, 0, 0}, "larger than 1 MiB: not a config", ""});
    return {};
  }
  if (!is_plain_text(text, file, problems)) return {};
  TreeBuilder builder(file, problems);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const StopReading&) {
    return {};
  } catch (const YAML::Exception& error) {
    problems.push_back({within(text, builder.position(error.mark)), "not valid YAML: " + error.msg,
                        hint_for(text, error.mark.line + 1, error.msg)});
    return {};
  }
  ConfigNode root = builder.take_root();
  if (root.position.file.empty()) root.position = {file, 0, 0};
  return root;
}

}  // namespace simrun
