# What of the CUDA device needs no CUDA: instructions as kernels and products (backend/cuda/lower.h), what it refuses, and how a plan's
# communication becomes calls of NCCL. Tests run it on every machine.
file(GLOB cuda_lowering CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backend/cuda/lower*.cpp ${CMAKE_SOURCE_DIR}/backend/cuda/cuda_refusals.cpp
  ${CMAKE_SOURCE_DIR}/backend/cuda/nccl_schedule.cpp ${CMAKE_SOURCE_DIR}/backend/cuda/nccl_exchange.cpp)
add_library(simrun_cuda_lowering STATIC EXCLUDE_FROM_ALL ${cuda_lowering})
simrun_precompile(simrun_cuda_lowering KIND room HEADERS <fmt/format.h>)
simrun_unity(simrun_cuda_lowering)
target_compile_options(simrun_cuda_lowering PRIVATE ${SIMRUN_WARNINGS})
target_link_libraries(simrun_cuda_lowering PUBLIC simrun_backend PRIVATE fmt::fmt)
