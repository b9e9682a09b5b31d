#include "configs/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr int longest_chain = 8;

std::vector<fs::path> folders_for(const ConfigNode& name, const std::string& folder,
                                  const PresetSearch& search) {
  const std::string& file = name.position.line > 0 ? name.position.file : search.job_file;
  std::vector<fs::path> folders = {fs::path(file).parent_path()};
  for (const std::string& directory : search.directories) {
    folders.push_back(fs::path(directory) / folder);
    folders.emplace_back(directory);
  }
  return folders;
}

// A job is no preset: gpt2.yaml may be a job whose model is `from: gpt2`.
bool is_job(const fs::path& path) {
  std::vector<Diagnostic> ignored;
  const TextFile file = read_text_file(path.string());
  return file.text && read_yaml(*file.text, path.string(), ignored).find("simrun") != nullptr;
}

// The first file of that name. `origin` is the file that names it: never meant, nor is a job beside it,
// unless the name is written with its extension.
std::optional<std::string> find_preset(const std::string& name, const std::vector<fs::path>& folders,
                                       const std::string& origin) {
  for (const fs::path& folder : folders)
    for (const char* extension : {"", ".yaml", ".json"}) {
      const fs::path candidate = folder / (name + extension);
      std::error_code error;
      if (!fs::is_regular_file(candidate, error) || fs::equivalent(candidate, origin, error)) continue;
      if (*extension == '\0' || !is_job(candidate)) return candidate.lexically_normal().string();
    }
  return std::nullopt;
}

// The presets of this kind, for a hint.
std::vector<std::string> preset_names(const std::string& folder, const PresetSearch& search) {
  std::vector<std::string> names;
  for (const std::string& directory : search.directories) {
    std::error_code error;
    for (fs::directory_iterator at(fs::path(directory) / folder, error), end; !error && at != end;
         at.increment(error))
      if (at->path().extension() == ".yaml") names.push_back(at->path().stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void report_missing(const ConfigNode& name, const std::string& folder, const PresetSearch& search,
                    Reading& reading) {
  const std::vector<std::string> names = preset_names(folder, search);
  const std::string meant = closest(name.text, names);
  std::string hint;
  if (!meant.empty())
    hint = fmt::format("did you mean '{}'?", meant);
  else if (!names.empty())
    hint = fmt::format("a path, or one of {}.", fmt::join(names, ", "));
  reading.problems.push_back(
      {name.position, fmt::format("no file {} in {}/", in_quotes(name.text), folder), hint});
}

// The map in a preset's file, or nothing when it cannot be read, which is reported.
std::optional<ConfigNode> read_preset(const std::string& path, const ConfigNode& name, Reading& reading) {
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

ResolvedSection resolve(ConfigNode section, const std::string& folder, const PresetSearch& search,
                        Reading& reading, int chain) {
  const ConfigNode* from = section.find("from");
  if (from == nullptr) return {std::move(section), "", true};
  const ConfigNode name = *from;
  std::erase_if(section.children, [](const ConfigNode& child) { return child.key == "from"; });

  if (name.kind != ConfigNode::Kind::scalar || name.text.empty()) {
    reading.problems.push_back({name.position, "'from' must be the name of a file", ""});
    return {std::move(section), "", false};
  }
  if (chain >= longest_chain) {
    reading.problems.push_back({name.position,
                                fmt::format("'from' leads through more than {} files", longest_chain),
                                "is it a circle?"});
    return {std::move(section), "", false};
  }
  const std::optional<std::string> path =
      find_preset(name.text, folders_for(name, folder, search),
                  name.position.line > 0 ? name.position.file : search.job_file);
  if (!path) {
    report_missing(name, folder, search, reading);
    return {std::move(section), "", false};
  }
  std::optional<ConfigNode> base = read_preset(*path, name, reading);
  if (!base) return {std::move(section), "", false};
  base->key = section.key;
  ResolvedSection below = resolve(std::move(*base), folder, search, reading, chain + 1);
  if (!below.found) return below;
  return {merged(std::move(below.node), section), fs::path(*path).stem().string(), true};
}

}  // namespace

ResolvedSection resolve_from(ConfigNode section, const std::string& folder, const PresetSearch& search,
                             Reading& reading) {
  return resolve(std::move(section), folder, search, reading, 0);
}

}  // namespace simrun
