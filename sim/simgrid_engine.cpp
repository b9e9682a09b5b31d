#include "sim/simgrid_engine.h"

#include <xbt/log.h>

#include <csignal>
#include <memory>
#include <simgrid/s4u/Engine.hpp>

#include "sim/flow_mover.h"

namespace simrun {

simgrid::s4u::Engine& simgrid_engine() {
  using simgrid::s4u::Engine;
  require(!Engine::has_instance(), "a process can have one FlowEngine only: construct it in a worker");
  xbt_log_control_set("root.thres:critical");
  Engine& engine = *std::make_unique<Engine>("simrun").release();
  for (const int number : {SIGINT, SIGSEGV, SIGBUS})
    std::signal(number, SIG_DFL);  // its handlers talk and exit
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/optim:Lazy",
        "surf/precision:1e-12", "maxmin/precision:1e-9", "debug/verbose-exit:0"})
    Engine::set_config(setting);
  return engine;
}

}  // namespace simrun
