# Plugins for the tests of the loader (tests/backend/plugin_test.cpp).
foreach(probe whole other_build throws other_memory)
  simrun_plugin(probe_${probe} SOURCES ${CMAKE_CURRENT_LIST_DIR}/backend/plugins/probe.cpp)
  target_compile_definitions(simrun_probe_${probe} PRIVATE PROBE=${probe} $<$<STREQUAL:${probe},other_memory>:PROBE_FREES>)
  set_target_properties(simrun_probe_${probe} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins
    EXCLUDE_FROM_ALL ON)
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/plugins/libsimrun_text.so "no library\n")
target_compile_definitions(test_backend PRIVATE SIMRUN_TEST_PLUGINS="${CMAKE_CURRENT_BINARY_DIR}/plugins")
add_dependencies(test_backend simrun_probe_whole simrun_probe_other_build simrun_probe_throws
  simrun_probe_other_memory)
