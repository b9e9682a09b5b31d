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

# Its max-min solver carries many flows at once, its communications do not (flow_engine.h), but its header is not in the package.
option(SIMRUN_LMM "use SimGrid's max-min solver as a plug-in, if the installed SimGrid is one that it works with" ON)
if(NOT SIMRUN_LMM)
  set(SIMRUN_FLOWS "switched off (SIMRUN_LMM) when simrun was built" CACHE INTERNAL "why SimGrid's solver is used, or is not")
  unset(SIMRUN_LMM_RUNS CACHE)
elseif(NOT DEFINED SIMRUN_LMM_RUNS)
  try_run(SIMRUN_LMM_RUNS SIMRUN_LMM_COMPILES
    SOURCES ${CMAKE_SOURCE_DIR}/cmake/checks/lmm_check.cpp ${CMAKE_SOURCE_DIR}/sim/lmm_flows.cpp ${CMAKE_SOURCE_DIR}/sim/simgrid_engine.cpp
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${CMAKE_SOURCE_DIR}\;${SIMGRID_INCLUDE_DIR}
    LINK_LIBRARIES ${SIMGRID_LIBRARY}
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    COMPILE_OUTPUT_VARIABLE compile_output RUN_OUTPUT_VARIABLE why_not)
  if(NOT SIMRUN_LMM_COMPILES)
    set(why "the check of SimGrid's max-min solver did not compile or link when simrun was built")
    file(WRITE ${CMAKE_BINARY_DIR}/lmm_check.log "${compile_output}")
  elseif(NOT SIMRUN_LMM_RUNS EQUAL 0)
    string(REGEX REPLACE "[^A-Za-z0-9 .,;:'()_/-]+" " " why_not "${why_not}")
    string(STRIP "${why_not}" why_not)
    set(why "the check of SimGrid's max-min solver failed when simrun was built: ${why_not}")
  else()
    set(why "SimGrid's max-min solver shared links exactly when simrun was built")
  endif()
  set(SIMRUN_FLOWS "${why}" CACHE INTERNAL "why SimGrid's solver is used, or is not")
endif()
message(STATUS "Flows: ${SIMRUN_FLOWS}")
set_property(SOURCE ${CMAKE_SOURCE_DIR}/sim/flow_engine.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  "SIMRUN_WHY_FLOW_SOLVER=\"${SIMRUN_FLOWS}\"")
if(SIMRUN_LMM AND SIMRUN_LMM_RUNS EQUAL 0)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/sim/flow_engine.cpp APPEND PROPERTY COMPILE_DEFINITIONS SIMRUN_HAS_LMM)
else()
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/sim/lmm_flows.cpp PROPERTY HEADER_FILE_ONLY ON)
endif()
