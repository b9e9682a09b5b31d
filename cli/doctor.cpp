#include "cli/doctor.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>

#include "backend/core_gate.h"
#include "backend/cpu/math.h"
#include "backend/execute.h"
#include "backend/plugin.h"
#include "backend/processes/launch.h"
#include "cli/console.h"
#include "cli/execution_memory.h"
#include "sim/flow_engine.h"
#include "visualizer/json.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

// The value behind "name : " in /proc/cpuinfo, of the first core; empty where there is none.
std::string cpu_fact(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && line.compare(0, name.size(), name) == 0) return line.substr(colon + 2);
  }
  return "";
}

// Of those that kernels could use, the ones that this processor has.
std::string instruction_sets() {
  const std::string flags = " " + cpu_fact("flags") + " ";
  std::string all;
  for (const char* set : {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"})
    if (flags.find(fmt::format(" {} ", set)) != std::string::npos) all += fmt::format(" {}", set);
  return all.empty() ? " none known" : all;
}

Facility processor() {
  Facility facility{.kind = "device", .name = "cpu"};
  const std::string model = cpu_fact("model name");
  facility.about = fmt::format("{}, {} of {} cores, {}, has{}; kernels for {}; f64, f32, bf16",
                               model.empty() ? "processor of unknown name" : model, available_cores(),
                               sysconf(_SC_NPROCESSORS_ONLN), memory_text(memory_of_this_machine()),
                               instruction_sets(), cpu::has_avx2() ? "AVX2 and FMA" : "any processor");
  return facility;
}

// A device or transport whose plugin is named so.
Facility from_plugin(const char* kind, const char* name) {
  Facility facility{.kind = kind, .name = name};
  const LoadedPlugin plugin = load_plugin(name);
  facility.plugin = plugin.path;
  facility.why_not = plugin.why_not;
  try {
    if (plugin.functions != nullptr) facility.about = plugin.functions->about();
    if (plugin.usable()) facility.devices = plugin.functions->devices();
  } catch (const std::exception& error) {
    facility.why_not = error.what();
  }
  return facility;
}

std::string started_how() {
  const Launch launch = detect_launch();
  if (!launch.error.empty()) return launch.error;
  if (launch.from.empty()) return "this process was started alone";
  return fmt::format("this is process {} of {} by {}", launch.process, launch.processes, launch.from);
}

Facility nccl_of(const Facility& cuda) {
  Facility nccl{.kind = "transport", .name = "nccl"};
  nccl.plugin = cuda.plugin;
  nccl.why_not = cuda.why_not.empty() ? "" : "it goes with the device cuda, which cannot be used";
  nccl.about = cuda.about;
  return nccl;
}

// Who shares links under --engine simgrid: SimGrid's solver where it is built in, else SimGrid's
// communications.
std::vector<Facility> flow_engines() {
  const bool has_lmm = flow_solvers().front() == FlowSolver::lmm;
  return {
      {.kind = "flows",
       .name = "lmm",
       .about = has_lmm ? "in use: " + why_flow_solver() : "",
       .why_not = has_lmm ? "" : why_flow_solver()},
      {.kind = "flows",
       .name = "s4u",
       .about = std::string(has_lmm ? "" : "in use: ") + "SimGrid's own communications, to the same dates" +
                (has_lmm ? "" : "; slow with thousands of flows at once")}};
}

// Who gives memory: jemalloc where this program is linked with it, or was started with it in LD_PRELOAD.
Facility allocator() {
  Facility facility{.kind = "memory", .name = "jemalloc"};
  using Mallctl = int(const char*, void*, std::size_t*, void*, std::size_t);
  auto* const mallctl = reinterpret_cast<Mallctl*>(dlsym(RTLD_DEFAULT, "mallctl"));
  const char* version = nullptr;
  std::size_t size = sizeof version;
  if (mallctl != nullptr && mallctl("version", &version, &size, nullptr, 0) == 0)
    facility.about = fmt::format("jemalloc {} gives it", version);
  else
    facility.why_not = "simrun was built without it: searches take a quarter longer";
  return facility;
}

}  // namespace

std::vector<Facility> facilities() {
  std::vector<Facility> all;
  all.push_back(processor());
  all.push_back({.kind = "device", .name = "null", .about = "computes nothing, checks memory and messages"});
  all.push_back(from_plugin("device", "cuda"));
  all.push_back({.kind = "transport",
                 .name = "threads",
                 .about = fmt::format("up to {} ranks in this process", most_thread_ranks)});
  Facility mpi = from_plugin("transport", "mpi");
  if (mpi.why_not.empty()) mpi.about += "; " + started_how();
  all.push_back(std::move(mpi));
  all.push_back(nccl_of(all[2]));
  for (Facility& flows : flow_engines()) all.push_back(std::move(flows));
  all.push_back(allocator());
  return all;
}

std::string facilities_text(const std::vector<Facility>& all) {
  std::string text;
  for (const Facility& facility : all) {
    text += fmt::format("{:<9}  {:<7}  {:<7}  {}\n", facility.kind, facility.name,
                        facility.why_not.empty() ? "yes" : "no",
                        facility.why_not.empty() ? facility.about : facility.why_not);
    for (const std::string& device : facility.devices) text += fmt::format("{:<29}{}\n", "", device);
    if (!facility.plugin.empty()) text += fmt::format("{:<29}{}\n", "", facility.plugin);
  }
  return text;
}

std::string facilities_json(const std::vector<Facility>& all) {
  std::string json = "{\"facilities\": [";
  for (const Facility& facility : all) {
    std::vector<std::string> devices;
    for (const std::string& device : facility.devices) devices.push_back(json_quoted(device));
    const auto text = [](const std::string& value) { return value.empty() ? "null" : json_quoted(value); };
    json += fmt::format(
        "{}\n  {{\"kind\": {}, \"name\": {}, \"usable\": {}, \"about\": {}, \"why_not\": {}, \"devices\": "
        "[{}], "
        "\"plugin\": {}}}",
        &facility == &all.front() ? "" : ",", json_quoted(facility.kind), json_quoted(facility.name),
        facility.why_not.empty(), text(facility.about), text(facility.why_not), fmt::join(devices, ", "),
        text(facility.plugin));
  }
  return json + "\n]}\n";
}

int run_doctor(const Options& options) {
  const std::vector<Facility> all = facilities();
  print(options.json ? facilities_json(all) : facilities_text(all));
  return 0;
}

}  // namespace simrun
