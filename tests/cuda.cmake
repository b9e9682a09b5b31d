# Tests of what of the CUDA device needs no GPU; those that need one are labelled `gpu` and skip themselves.
target_link_libraries(test_backend PRIVATE simrun_cuda_lowering)
target_sources(test_backend PRIVATE backend/cuda/cuda_host_device.cpp backend/cuda/threads_nccl.cpp)
set_source_files_properties(backend/cuda/cuda_host_device.cpp PROPERTIES COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON)
if(TARGET simrun_cuda)
  add_dependencies(test_backend simrun_cuda)
  target_compile_definitions(test_backend PRIVATE SIMRUN_CUDA_PLUGIN_FOLDER="$<TARGET_FILE_DIR:simrun_cuda>")
else()
  target_compile_definitions(test_backend PRIVATE SIMRUN_CUDA_PLUGIN_FOLDER="")
endif()
add_test(NAME ${build_type}.gpu COMMAND test_backend [gpu])
set_tests_properties(${build_type}.gpu PROPERTIES LABELS gpu TIMEOUT 300 SKIP_REGULAR_EXPRESSION "skipped: "
  ENVIRONMENT SIMRUN_PLUGIN_PATH=${CMAKE_BINARY_DIR})
