# The CUDA plugin, libsimrun_cuda.so: built where a toolkit is found, loaded where a GPU is. Included by cmake/plugins.cmake.
# CMake 3.25 passes no -std=c++20 to nvcc, and asking for the architecture of this machine's GPU fails where there is none, so .cu
# files are C++17 and the architectures are named.
find_package(CUDAToolkit 12 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
  simrun_no_plugin(CUDA "CMake found no CUDA toolkit with nvcc and cublasLt")
else()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual")
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backend/cuda/*.cpp ${CMAKE_SOURCE_DIR}/backend/cuda/*.cu)
  simrun_plugin(cuda INSTALL SOURCES ${cuda_sources}
    CORE backend/exchange_partners.cpp backend/gemm_shape.cpp backend/parameter_values.cpp backend/tensor_part.cpp configs/node_groups.cpp
      schedules/extent_tables.cpp schedules/plan.cpp
    LIBS CUDA::cudart_static CUDA::cublasLt fmt::fmt ${CMAKE_DL_LIBS})
  target_compile_options(simrun_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-fPIC>)
  # NCCL is opened when it is needed; its header tells the layout of what it is given.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NCCL_INCLUDE_DIR)
    target_include_directories(simrun_cuda PRIVATE ${NCCL_INCLUDE_DIR})
    target_compile_definitions(simrun_cuda PRIVATE SIMRUN_NCCL)
  endif()
  set_target_properties(simrun_cuda PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static)
endif()
