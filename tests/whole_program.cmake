# Tests of the program as a whole and of the tree; included by tests/CMakeLists.txt.
# Names start with the build's type, since scripts/test.sh runs the tests of two builds as one list.
# A check exits with 77 where its tool is missing: ctest reports it as skipped.
option(SIMRUN_LINT "add clang-tidy to the tests" OFF)
option(SIMRUN_PAGE_REQUIRED "a machine without Chromium or node fails the check of the pages instead of skipping it" OFF)
string(TOLOWER "${CMAKE_BUILD_TYPE}" build_type)

# Every preset job is accepted, simulated, and its plan file gives the same result again. Those of hundreds of GPUs, and the one whose
# recompute is searched over packed documents, are left to the optimised build.
if(TARGET simrun)
  file(GLOB jobs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/jobs/*.yaml)
  foreach(job IN LISTS jobs)
    cmake_path(GET job STEM LAST_ONLY name)
    if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND name MATCHES "-[0-9][0-9][0-9]+x|-lora-")
      continue()
    endif()
    set(test ${build_type}.job.${name})
    add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -DSIMRUN=$<TARGET_FILE:simrun> -DJOB=${job}
      -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/jobs/${name} -P ${CMAKE_CURRENT_LIST_DIR}/run_job.cmake)
    set_tests_properties(${test} PROPERTIES LABELS whole-program TIMEOUT 240)
  endforeach()

  # The published measurements can all be expressed and simulated; the errors themselves are printed, not judged.
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_test(NAME ${build_type}.predict-vs-measured COMMAND ${CMAKE_SOURCE_DIR}/scripts/predict-vs-measured.sh)
    set_tests_properties(${build_type}.predict-vs-measured PROPERTIES LABELS whole-program TIMEOUT 240
      ENVIRONMENT SIMRUN=$<TARGET_FILE:simrun>)

    # docs/schedules.md shows what the program prints; the bubble rates that Zero Bubble's paper calculates for 1F1B are met to the
    # digit. Errors against measurements are printed, not judged.
    add_test(NAME ${build_type}.schedules-doc COMMAND ${CMAKE_SOURCE_DIR}/scripts/schedules-doc.sh --check)
    add_test(NAME ${build_type}.schedules-vs-measured COMMAND ${CMAKE_SOURCE_DIR}/scripts/schedules-vs-measured.sh)
    set_tests_properties(${build_type}.schedules-doc ${build_type}.schedules-vs-measured PROPERTIES LABELS whole-program TIMEOUT 120
      ENVIRONMENT SIMRUN=$<TARGET_FILE:simrun>)
    set_tests_properties(${build_type}.schedules-vs-measured PROPERTIES
      PASS_REGULAR_EXPRESSION "four digits: 1F1B 9 of 9,")
  endif()
endif()

# The pages of all jobs in Chromium; not from a build with sanitizers, which would be slow at making them.
if(TARGET simrun AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_test(NAME page-in-chromium WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    COMMAND scripts/page.sh browser $<$<BOOL:${SIMRUN_PAGE_REQUIRED}>:--required> COMMAND_EXPAND_LISTS)
  set_tests_properties(page-in-chromium PROPERTIES LABELS whole-program SKIP_RETURN_CODE 77 TIMEOUT 500 FIXTURES_REQUIRED example-page COST 250
    ENVIRONMENT "SIMRUN=$<TARGET_FILE:simrun>;SIMRUN_PAGES=${CMAKE_CURRENT_BINARY_DIR}/example.html")
  add_test(NAME example-page COMMAND example_page ${CMAKE_CURRENT_BINARY_DIR}/example.html)
  set_tests_properties(example-page PROPERTIES FIXTURES_SETUP example-page COST 999)
endif()

# What does not depend on the build is checked once.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_test(NAME layering-test COMMAND ${CMAKE_COMMAND} -DLAYERING=${CMAKE_CURRENT_LIST_DIR}/layering.cmake
    -DTREE=${CMAKE_CURRENT_BINARY_DIR}/layering_tree -P ${CMAKE_CURRENT_LIST_DIR}/layering_test.cmake)

  function(simrun_script_test name)
    cmake_parse_arguments(arg "" "TIMEOUT;PROCESSORS" "COMMAND" ${ARGN})
    add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS tree SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS})
  endfunction()
  simrun_script_test(format COMMAND scripts/lint.sh format TIMEOUT 60 PROCESSORS 1)
  simrun_script_test(page COMMAND scripts/page.sh sources TIMEOUT 300 PROCESSORS 1)
  # First, as they take all processors: later one of these would wait for them.
  if(SIMRUN_LINT)
    simrun_script_test(tidy COMMAND scripts/lint.sh tidy 4 TIMEOUT 1200 PROCESSORS 2)
    set_tests_properties(tidy PROPERTIES COST 1000)
  endif()
  if(SIMRUN_FUZZ_TESTS)
    simrun_script_test(fuzz COMMAND scripts/fuzz.sh 6 ${CMAKE_BINARY_DIR} TIMEOUT 300 PROCESSORS 2)
    set_tests_properties(fuzz PROPERTIES COST 1000)
  endif()
endif()
