#include "configs/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "configs/name_hints.h"
#include "configs/part_of_node.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_chain = 8;

std::vector<fs::path> folders_for(const ConfigNode& name, const std::string& folder,
                                  const PresetSearch& search) {
  const std::string& file = name.position.line > 0 ? name.position.file : search.job_file;
  std::vector<fs::path> folders = {fs::path(file).parent_path()};
  for (const std::string& directory : search.directories) {
    folders.push_back(fs::path(directory) / folder);
    folders.emplace_back(directory);
  }
  if (name.position.line == 0) folders.emplace_back("");  // --set: where the command is given, too
  return folders;
}

const ConfigNode* parsed_already(const std::string& path, const PresetSearch& search) {
  if (search.parsed == nullptr) return nullptr;
  const auto found = search.parsed->find(path);
  return found == search.parsed->end() ? nullptr : &found->second;
}

// gpt2.yaml may be a job whose model is `from: gpt2`, and gpt2.json what --json said of it or will say.
bool is_preset(const fs::path& path, const PresetSearch& search) {
  const auto is_result = [](const ConfigNode& tree) { return tree.find("schema_version") != nullptr; };
  const auto is_another = [&](const ConfigNode& tree) {
    return tree.find("simrun") != nullptr || is_result(tree) ||
           (!tree.children.empty() && is_result(tree.children.front()));  // of two jobs: under a and b
  };
  if (const ConfigNode* tree = parsed_already(path.lexically_normal().string(), search))
    return !is_another(*tree);
  std::vector<Diagnostic> ignored;
  const TextFile file = read_text_file(path.string());
  if (!file.text) return true;
  if (file.text->empty()) return false;
  const bool may_be_another = file.text->find("simrun") != std::string::npos ||
                              file.text->find("schema_version") != std::string::npos;
  if (!may_be_another) return true;
  const ConfigNode tree = read_yaml(*file.text, path.string(), ignored);
  return !tree.children.empty() && !is_another(tree);  // what is too large to be read has none
}

bool is_one_of(const fs::path& path, const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [&](const std::string& file) {
    std::error_code error;  // a file that is not there equals none
    return fs::equivalent(path, file, error);
  });
}

struct FoundPreset {
  std::optional<std::string> path;
  bool is_circle = false;  // the only such file is one that led here
};

// The first file of that name that is not in `chain`, the files that led here. A job or a result is taken
// only where nothing else has the name.
FoundPreset find_preset(const ConfigNode& name, const std::string& folder_name, const PresetSearch& search,
                        const std::vector<std::string>& chain) {
  FoundPreset found;
  for (const fs::path& folder : folders_for(name, folder_name, search))
    for (const char* extension : {"", ".yaml", ".json"}) {
      const fs::path candidate = folder / (name.text + extension);
      std::error_code error;
      if (!fs::is_regular_file(candidate, error)) continue;
      const std::string path = candidate.lexically_normal().string();
      if (is_one_of(candidate, chain))
        found.is_circle = !found.path;
      else if (is_preset(candidate, search))
        return {path, false};
      else if (!found.path)
        found = {path, false};
    }
  return found;
}

void report_missing(const ConfigNode& name, const std::string& folder, const PresetSearch& search,
                    Reading& reading) {
  const std::vector<std::string> names = preset_names(folder, search.directories);
  std::string hint = did_you_mean(name.text, names);
  if (hint.empty() && !names.empty()) hint = fmt::format("a path, or one of {}.", fmt::join(names, ", "));
  const bool is_path = name.text.find_first_of("/.") != std::string::npos;
  const std::string places = fmt::format("{}in {}/",
                                         !is_path                 ? ""
                                         : name.position.line > 0 ? "beside this file or "
                                                                  : "here, beside the job or ",
                                         folder);
  std::error_code ignored;
  for (const fs::path& place : folders_for(name, folder, search))
    if (is_path && fs::is_directory(place / name.text, ignored)) {
      reading.problems.push_back(
          {name.position, fmt::format("{} is a directory, not a file", in_quotes(name.text)), hint});
      return;
    }
  reading.problems.push_back(
      {name.position, fmt::format("no file {} {}", in_quotes(name.text), places), hint});
}

// The map in a preset's file, or nothing when it cannot be read, which is reported.
std::optional<ConfigNode> read_preset(const std::string& path, const ConfigNode& name,
                                      const PresetSearch& search, Reading& reading) {
  if (const ConfigNode* tree = parsed_already(path, search);
      tree != nullptr && tree->kind == ConfigNode::Kind::map) {
    reading.files.push_back(path);
    return *tree;
  }
  const TextFile file = read_text_file(path);
  if (!file.text) {
    reading.problems.push_back(
        {name.position, fmt::format("cannot read {}: {}", in_quotes(path), file.reason), ""});
    return std::nullopt;
  }
  reading.files.push_back(path);
  const std::size_t problems_before = reading.problems.size();
  ConfigNode base = read_yaml(*file.text, path, reading.problems);
  if (reading.problems.size() > problems_before) return std::nullopt;
  if (base.kind == ConfigNode::Kind::map) return base;
  reading.problems.push_back(
      {base.position, fmt::format("a preset must be a map of keys, not {}", describe(base)), ""});
  return std::nullopt;
}

void report_circle(const ConfigNode& name, Reading& reading) {
  reading.problems.push_back({name.position,
                              fmt::format("'from' leads back to {}, which led here", in_quotes(name.text)),
                              "start from another file, or write the keys."});
}

// `chain` holds the files that led here. Where a file is missing or unreadable, the keys beside `from` are
// what is left to check.
ResolvedSection resolve(ConfigNode section, const std::string& folder, const PresetSearch& search,
                        Reading& reading, std::vector<std::string> chain) {
  const ConfigNode* from = section.find("from");
  if (from == nullptr) return {std::move(section), "", true};
  const ConfigNode name = *from;
  std::erase_if(section.children, [](const ConfigNode& child) { return child.key == "from"; });

  if (name.kind != ConfigNode::Kind::scalar || name.text.empty()) {
    reading.problems.push_back({name.position, "'from' must be the name of a file", ""});
    return {std::move(section), "", false};
  }
  if (chain.size() > longest_chain) {
    reading.problems.push_back(
        {name.position, fmt::format("'from' leads through more than {} files", longest_chain), ""});
    return {std::move(section), "", false};
  }
  const bool is_from_a_file = name.position.line > 0;  // not from --set
  if (is_from_a_file && !is_one_of(name.position.file, chain)) chain.push_back(name.position.file);
  const FoundPreset found = find_preset(name, folder, search, chain);
  if (!found.path) {
    if (found.is_circle)
      report_circle(name, reading);
    else
      report_missing(name, folder, search, reading);
    return {std::move(section), "", false};
  }
  std::optional<ConfigNode> base = read_preset(*found.path, name, search, reading);
  if (!base) return {std::move(section), "", false};
  base->key = section.key;
  chain.push_back(*found.path);
  ResolvedSection below = resolve(std::move(*base), folder, search, reading, std::move(chain));
  if (folder == "clusters") below.node = part_of_node(std::move(below.node), section);
  return {merged(std::move(below.node), section), fs::path(*found.path).stem().string(), below.found};
}

}  // namespace

ResolvedSection resolve_from(ConfigNode section, const std::string& folder, const PresetSearch& search,
                             Reading& reading) {
  return resolve(std::move(section), folder, search, reading, {search.job_file});
}

std::vector<std::string> preset_names(const std::string& folder,
                                      const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (fs::directory_iterator at(fs::path(directory) / folder, error), end; !error && at != end;
         at.increment(error))
      if (at->path().extension() == ".yaml") names.push_back(at->path().stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace simrun
