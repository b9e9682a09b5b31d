#include "cli/doctor.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

// --doctor: what there is, and why not what there is not.
namespace simrun {
namespace {

const Facility& named(const std::vector<Facility>& all, const std::string& name) {
  for (const Facility& facility : all)
    if (facility.name == name) return facility;
  FAIL("no " << name);
  return all.front();
}

}  // namespace

TEST_CASE("a CPU, the null device and threads are everywhere; what is missing says why") {
  const std::vector<Facility> all = facilities();
  for (const char* name : {"cpu", "null", "threads"}) CHECK(named(all, name).why_not == "");
  for (const Facility& facility : all) {
    CAPTURE(facility.name, facility.why_not);
    CHECK((facility.kind == "device" || facility.kind == "transport" || facility.kind == "flows" ||
           facility.kind == "memory"));
    CHECK((facility.why_not.empty() ? !facility.about.empty() : facility.why_not.size() > 10));
  }
}

TEST_CASE("--doctor prints a line for each, yes or no, and ends well") {
  const Ran ran = run_simrun("--doctor");
  CHECK(ran.code == 0);
  for (const char* start : {"device     cpu      yes", "device     null     yes", "device     cuda     ",
                            "transport  threads  yes", "transport  mpi      ", "transport  nccl     "})
    CHECK(ran.output.find(start) != std::string::npos);
}

TEST_CASE("one flow engine is in use, and it says why") {
  const std::vector<Facility> all = facilities();
  const bool lmm = named(all, "lmm").why_not.empty();
  CHECK((named(all, "lmm").about.find("in use: ") == 0) == lmm);
  CHECK((named(all, "s4u").about.find("in use: ") == 0) == !lmm);
  CHECK(named(all, "s4u").why_not.empty());
  CHECK((lmm ? named(all, "lmm").about : named(all, "lmm").why_not).find("when simrun was built") !=
        std::string::npos);
}

TEST_CASE(
    "a plugin path that holds no plugin is named as the reason, and a broken one in the loader's words") {
  setenv("SIMRUN_PLUGIN_PATH", "/nowhere", 1);
  const std::vector<Facility> all = facilities();
  unsetenv("SIMRUN_PLUGIN_PATH");
  const Facility& mpi = named(all, "mpi");
  if (mpi.why_not.empty()) return;  // found in the build tree, which comes next
  CHECK((mpi.why_not.find("no libsimrun_mpi.so in /nowhere, ") == 0 ||
         mpi.why_not.find("simrun was built without it: ") == 0));
}

TEST_CASE("--doctor --json says the same for programs") {
  Facility broken{
      .kind = "device", .name = "cuda", .about = "", .why_not = "no \"driver\"", .plugin = "/a.so"};
  Facility whole{.kind = "transport", .name = "threads", .about = "up to 64", .devices = {"one", "two"}};
  CHECK(facilities_json({broken, whole}) ==
        "{\"facilities\": [\n"
        "  {\"kind\": \"device\", \"name\": \"cuda\", \"usable\": false, \"about\": null, \"why_not\": \"no "
        "\\\"driver\\\"\", \"devices\": [], \"plugin\": \"/a.so\"},\n"
        "  {\"kind\": \"transport\", \"name\": \"threads\", \"usable\": true, \"about\": \"up to 64\", "
        "\"why_not\": "
        "null, \"devices\": [\"one\", \"two\"], \"plugin\": null}\n"
        "]}\n");
  const Ran ran = run_simrun("--doctor --json");
  CHECK(ran.code == 0);
  CHECK(member(parsed_json(ran.output), "facilities").children.size() == facilities().size());
}

TEST_CASE("--doctor is about the machine: no job, no other mode") {
  CHECK(run_simrun("--doctor " + tiny).output ==
        "simrun: error: --doctor takes no job: it is about this machine\n");
  for (const char* other : {"--execute", "--check", "--set a=b", "--html page.html"}) {
    const Ran ran = run_simrun(std::string("--doctor ") + other);
    CHECK(ran.code == 2);
    CHECK(ran.output.find(" does not go with --doctor\n") != std::string::npos);
  }
}

}  // namespace simrun
