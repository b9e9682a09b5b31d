# SimGrid simulates flows that share links (sim/flow_engine.h). Debian's package has neither a CMake file nor another version.
find_path(SIMGRID_INCLUDE_DIR simgrid/s4u.hpp)
find_library(SIMGRID_LIBRARY simgrid)
if(NOT SIMGRID_INCLUDE_DIR OR NOT SIMGRID_LIBRARY)
  message(FATAL_ERROR "SimGrid is missing: no simgrid/s4u.hpp or no libsimgrid. On Debian 12: apt-get install libsimgrid-dev "
    "(or scripts/setup.sh). Elsewhere build SimGrid 3.32 and point CMAKE_PREFIX_PATH at it.")
endif()
find_package(Threads REQUIRED)  # a worker runs its task on a thread with a stack of its own
target_include_directories(simrun_sim SYSTEM PRIVATE ${SIMGRID_INCLUDE_DIR})
target_link_libraries(simrun_sim PRIVATE ${SIMGRID_LIBRARY} Threads::Threads)
