# Kernels are fast in every build: an unoptimised matrix product takes a hundred times as long.
file(GLOB cpu_kernels ${CMAKE_SOURCE_DIR}/backend/cpu_*.cpp ${CMAKE_SOURCE_DIR}/backend/parameter_values.cpp)
set_source_files_properties(${cpu_kernels} PROPERTIES COMPILE_OPTIONS "-O2" COMPILE_DEFINITIONS "EIGEN_DONT_PARALLELIZE"
  SKIP_PRECOMPILE_HEADERS ON)
