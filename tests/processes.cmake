# Ranks over real processes: a program that mpirun starts (tests/processes/run.sh), with faults to order.
add_executable(rank_program processes/rank_program.cpp)
target_compile_options(rank_program PRIVATE ${SIMRUN_WARNINGS})
target_compile_definitions(rank_program PRIVATE SIMRUN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(rank_program PRIVATE simrun_allocator simrun_backend fmt::fmt)
set_target_properties(rank_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
if(TARGET simrun_mpi)
  add_dependencies(rank_program simrun_mpi)
endif()
foreach(check same died stopped interrupted failed refused)
  add_test(NAME ${build_type}.processes.${check}
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/processes/run.sh $<TARGET_FILE:rank_program> ${CMAKE_BINARY_DIR} ${check})
  # Each has up to 16 processes, and says how long they may take.
  set_tests_properties(${build_type}.processes.${check} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL ON)
endforeach()
