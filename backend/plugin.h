#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "backend/operations.h"
#include "backend/processes/link.h"
#include "backend/transport.h"
#include "schedules/plan.h"

// Devices and links that need a library which most machines lack (CUDA, MPI) are plugins: MODULE libraries
// libsimrun_NAME.so that are opened when they are asked for. The program itself needs none of them, and says
// why one is not there instead of failing to start.
//
// A plugin links what it needs of the backend statically and hides it (cmake/plugins.cmake), rather than
// taking it from the program that opens it: so the linker finds what is missing when the plugin is built,
// any program may open it without exporting its symbols, and neither sees the other's libraries (a plugin's
// names mean its own libraries first: dlopen's RTLD_DEEPBIND). So both must name the same library that gives
// memory: one with another is refused. Two copies of the same pure functions do no harm, since no room has
// state.
//
// C++ objects cross the seam, so both sides must agree on every type: plugin_abi() changes with any of them,
// and a plugin of another build is refused. Exceptions cross it too (types are compared by name).
namespace simrun {

enum class RealType : std::uint8_t { f64, f32, bf16 };

struct DeviceRequest {
  RealType real = RealType::f32;
  std::int64_t rank = 0;     // of the plan
  int local_rank = 0;        // among the ranks of this machine
  bool one_process = false;  // all ranks of the plan are threads of this process: payloads may be handles
  std::int64_t limit_ms = 60'000;  // for which a rank waits for another
};

// Of processes that were started together (backend/processes/launch.h).
struct LinkRequest {
  int process = 0;
  int processes = 1;
};

// What a plugin offers. `abi` stays the first member for ever.
struct BackendPlugin {
  std::uint64_t abi = 0;
  const char* name = "";  // "mpi"
  // What it stands on, for people: "Open MPI 4.1.4".
  std::string (*about)() = nullptr;
  // Why it cannot be used on this machine, as the library says it; empty if it can.
  std::string (*why_not)() = nullptr;
  // One line per device of this machine: "NVIDIA H200, 139 GiB, sm_90".
  std::vector<std::string> (*devices)() = nullptr;
  // Those that it does not offer are null. They throw std::runtime_error with the library's words.
  std::unique_ptr<Device> (*make_device)(const DeviceRequest& request) = nullptr;
  std::unique_ptr<ProcessLink> (*join_processes)(const LinkRequest& request) = nullptr;
  // Calls what the plugin's library does for it, alone on this machine, and says what went wrong; empty:
  // nothing.
  std::string (*check_library)() = nullptr;
};

// The number that both sides must have: a version, changed by hand when a meaning changes, and the sizes of
// all that crosses the seam.
constexpr std::uint64_t plugin_abi() {
  std::uint64_t abi = 3;
  for (const std::size_t size :
       {sizeof(BackendPlugin), sizeof(DeviceRequest), sizeof(LinkRequest), sizeof(Plan), sizeof(Buffer),
        sizeof(BufferDim), sizeof(Instruction), sizeof(Communication), sizeof(Program), sizeof(Segment),
        sizeof(KernelCall), sizeof(Argument), sizeof(Hyperparameters), sizeof(Frame), sizeof(Message),
        sizeof(void*)})
    abi = abi * 1099511628211u + size;  // FNV's prime
  return abi;
}

// The one exported function of a plugin. `abi`: of the program that asks. The returned value lives as long as
// the plugin; its `abi` is compared before anything else of it is read.
constexpr const char* plugin_entry = "simrun_backend_plugin";
using PluginEntry = const BackendPlugin* (*)(std::uint64_t abi);

// A plugin that was looked for.
struct LoadedPlugin {
  std::string path;                          // of the library; empty: there is none
  const BackendPlugin* functions = nullptr;  // nullptr: it could not be loaded
  std::string why_not;                       // why it cannot be used; empty: it can
  bool usable() const { return why_not.empty(); }
};

// Where plugins are looked for: the folders of $SIMRUN_PLUGIN_PATH (between colons), next to the program (the
// build tree), ../lib/simrun from there (where it is installed).
std::vector<std::string> plugin_folders();

// Opens libsimrun_NAME.so in the first folder that has it. Never throws and never closes it again: objects
// and handlers that its libraries leave behind (CUDA, MPI) would lose their code.
LoadedPlugin load_plugin(std::string_view name, const std::vector<std::string>& folders = plugin_folders());

}  // namespace simrun
