#include "backend/processes/launch.h"

#include <catch2/catch.hpp>
#include <map>

// How a process was started is read from its environment: the first launcher that says so decides.
namespace simrun {
namespace {

Launch launched(const std::map<std::string, std::string>& environment) {
  return detect_launch([&](const char* name) -> std::optional<std::string> {
    const auto at = environment.find(name);
    if (at == environment.end()) return {};
    return at->second;
  });
}

void check_launch(const Launch& launch, int process, int processes, const std::string& from) {
  CHECK(launch.error == "");
  CHECK(launch.process == process);
  CHECK(launch.processes == processes);
  CHECK(launch.from == from);
}

}  // namespace

TEST_CASE("without any launcher's variable a process is alone") {
  check_launch(launched({{"PATH", "/bin"}}), 0, 1, "");
}

TEST_CASE("every launcher's variables are read, in the order of what says most") {
  std::map<std::string, std::string> all{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  check_launch(launched(all), 1, 2, "RANK");
  all.insert({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  check_launch(launched(all), 2, 3, "SLURM_PROCID");
  all.insert({{"PMIX_RANK", "1"}});
  check_launch(launched(all), 1, 3, "PMIX_RANK");
  all.insert({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  check_launch(launched(all), 3, 4, "OMPI_COMM_WORLD_RANK");
  all.insert({{"SIMRUN_RANK", "0"}, {"SIMRUN_WORLD", "5"}});
  check_launch(launched(all), 0, 5, "SIMRUN_RANK");
}

TEST_CASE("a batch script of Slurm's is no process of a job step") {
  check_launch(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), 0, 1, "");
}

TEST_CASE("variables that contradict each other are refused by name and value") {
  CHECK(launched({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).error ==
        "OMPI_COMM_WORLD_RANK=4 and OMPI_COMM_WORLD_SIZE=4: a process's number is from 0 to below their "
        "number");
  CHECK(launched({{"SIMRUN_RANK", "one"}, {"SIMRUN_WORLD", "4"}}).error ==
        "SIMRUN_RANK=one and SIMRUN_WORLD=4: a process's number is from 0 to below their number");
  CHECK(launched({{"SIMRUN_RANK", "1"}}).error ==
        "SIMRUN_RANK is set and SIMRUN_WORLD is not: both say how processes were started");
}

}  // namespace simrun
