# Ranks over real processes: a program that mpirun starts (tests/processes/run.sh), with faults to order.
add_executable(rank_program processes/rank_program.cpp)
target_compile_options(rank_program PRIVATE ${SIMRUN_WARNINGS})
target_link_libraries(rank_program PRIVATE simrun_backend fmt::fmt)
set_target_properties(rank_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
if(TARGET simrun_mpi)
  add_dependencies(rank_program simrun_mpi)
endif()
