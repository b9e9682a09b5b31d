#include <mpi.h>

#include <array>
#include <string>

#include "backend/mpi/mpi_link.h"
#include "backend/plugin.h"

namespace simrun {
namespace {

// "Open MPI v4.1.4", the first words of what may be several lines.
std::string about() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

// Another library may have taken the place of MPI's functions (backend/plugin.cpp).
std::string why_not() {
#ifdef OPEN_MPI
  if (about().rfind("Open MPI", 0) != 0)
    return "it was built with Open MPI, but MPI's functions are those of " + about();
#endif
  return "";
}

const BackendPlugin mpi_plugin = {
    .abi = plugin_abi(),
    .name = "mpi",
    .about = about,
    .why_not = why_not,
    .devices = [] { return std::vector<std::string>(); },
    .make_device = nullptr,
    .join_processes = [](const LinkRequest& request) -> std::unique_ptr<ProcessLink> {
      auto link = std::make_unique<MpiLink>();
      if (link->processes() != request.processes)
        throw TransportError("MPI knows of " + std::to_string(link->processes()) +
                             " processes, the environment of " + std::to_string(request.processes) +
                             ": they were not started by the mpirun or srun --mpi=pmix of this MPI (" +
                             about() + ")");
      return link;
    },
};

}  // namespace
}  // namespace simrun

extern "C" __attribute__((visibility("default"))) const simrun::BackendPlugin* simrun_backend_plugin(
    std::uint64_t) {
  return &simrun::mpi_plugin;
}
