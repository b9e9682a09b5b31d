#include "backend/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace simrun {
namespace {

namespace fs = std::filesystem;

// Why the build has no such plugin ("CMake found no MPI"), as cmake/plugins.cmake found it; empty: it has.
std::string why_not_built(std::string_view name) {
  if (name == "mpi") return SIMRUN_MPI_NOT_BUILT;
  if (name == "cuda") return SIMRUN_CUDA_NOT_BUILT;
  return "";
}

std::string dl_error() {
  const char* const text = dlerror();  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "unknown error" : text;
}

std::string not_found(std::string_view name, const std::string& file,
                      const std::vector<std::string>& folders) {
  const std::string not_built = why_not_built(name);
  if (!not_built.empty()) return fmt::format("simrun was built without it: {}", not_built);
  return fmt::format("no {} in {}", file, fmt::join(folders, ", "));
}

// A plugin's library comes before the program's: SimGrid, which simrun uses, has functions of MPI's names.
// Sanitizers replace functions of all libraries and refuse that order.
#if defined(SIMRUN_ADDRESS_SANITIZER) || defined(__SANITIZE_THREAD__)
constexpr int own_libraries_first = 0;
#else
constexpr int own_libraries_first = RTLD_DEEPBIND;
#endif

// What one side's library gave, the other's would take back.
bool has_own_allocator(void* library) {
  return own_libraries_first != 0 && dlsym(library, "free") != dlsym(RTLD_DEFAULT, "free");
}

// REQUIRES: `plugin.path` is a file.
void open(LoadedPlugin& plugin) {
  void* const library = dlopen(plugin.path.c_str(), RTLD_NOW | RTLD_LOCAL | own_libraries_first);
  if (library == nullptr) {
    plugin.why_not = dl_error();
    return;
  }
  if (has_own_allocator(library)) {
    plugin.why_not = fmt::format("{} takes its memory from another library than simrun does", plugin.path);
    return;
  }
  void* const symbol = dlsym(library, plugin_entry);
  if (symbol == nullptr) {
    plugin.why_not = fmt::format("{} is no plugin: {}", plugin.path, dl_error());
    return;
  }
  const BackendPlugin* const functions = reinterpret_cast<PluginEntry>(symbol)(plugin_abi());
  if (functions == nullptr || functions->abi != plugin_abi()) {
    plugin.why_not = fmt::format("{} is of another build of simrun: its ABI is {:016x}, this one's {:016x}",
                                 plugin.path, functions == nullptr ? 0 : functions->abi, plugin_abi());
    return;
  }
  plugin.functions = functions;
  plugin.why_not = functions->why_not();
}

}  // namespace

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  if (const char* const path = std::getenv("SIMRUN_PLUGIN_PATH")) {  // NOLINT(concurrency-mt-unsafe)
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path().string());
    folders.push_back((program.parent_path().parent_path() / "lib" / "simrun").string());
  }
  return folders;
}

LoadedPlugin load_plugin(std::string_view name, const std::vector<std::string>& folders) {
  LoadedPlugin plugin;
  const std::string file = fmt::format("libsimrun_{}.so", name);
  try {
    for (const std::string& folder : folders) {
      std::error_code error;
      if (!fs::is_regular_file(fs::path(folder) / file, error)) continue;
      plugin.path = (fs::path(folder) / file).string();
      break;
    }
    if (plugin.path.empty())
      plugin.why_not = not_found(name, file, folders);
    else
      open(plugin);
  } catch (const std::exception& error) {  // of the plugin's own functions
    plugin.functions = nullptr;
    plugin.why_not = error.what();
  }
  return plugin;
}

}  // namespace simrun
