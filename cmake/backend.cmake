# Kernels are fast in every build: an unoptimised matrix product takes a hundred times as long.
file(GLOB cpu_kernels ${CMAKE_SOURCE_DIR}/backend/cpu/*.cpp ${CMAKE_SOURCE_DIR}/backend/parameter_values.cpp)
set_source_files_properties(${cpu_kernels} PROPERTIES COMPILE_OPTIONS "-O2" COMPILE_DEFINITIONS "EIGEN_DONT_PARALLELIZE"
  SKIP_PRECOMPILE_HEADERS ON)

# The two variants of the innermost loops (backend/cpu/math.h). No sanitizer: its checks are per element, and what it makes of
# inline functions of the standard library would be shared by both variants.
set(math_options -O3 -fno-math-errno -fno-trapping-math -fno-sanitize=all)
function(simrun_math_variant name)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/backend/cpu/math_${name}.cpp PROPERTIES
    COMPILE_OPTIONS "${math_options};${ARGN}"
    COMPILE_DEFINITIONS "EIGEN_DONT_PARALLELIZE;EIGEN_NO_DEBUG;Eigen=Eigen_${name};SIMRUN_MATH=${name}")
endfunction()
simrun_math_variant(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  simrun_math_variant(avx2 -mavx2 -mfma)
else()
  simrun_math_variant(avx2)
endif()

# An object of its own: a test that counts what ranks allocate puts another in its place.
set_source_files_properties(${CMAKE_SOURCE_DIR}/backend/device_memory.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
