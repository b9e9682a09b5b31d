# Kernels are fast in every build: an unoptimised matrix product takes a hundred times as long. Hence a target of their own, whose
# objects are part of the room.
file(GLOB cpu_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backend/cpu/*.cpp)
add_library(simrun_cpu_kernels OBJECT ${cpu_kernels})
target_include_directories(simrun_cpu_kernels PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(simrun_cpu_kernels PRIVATE ${SIMRUN_WARNINGS} -O2)
target_compile_definitions(simrun_cpu_kernels PRIVATE EIGEN_DONT_PARALLELIZE)
target_link_libraries(simrun_cpu_kernels PRIVATE fmt::fmt Eigen3::Eigen Threads::Threads)
# Which variant there is has to be said before it is asked for.
set_source_files_properties(${CMAKE_SOURCE_DIR}/backend/cpu/math.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
simrun_unity(simrun_cpu_kernels)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes a file that another includes for a header, whose unnamed namespaces would differ from one object to the next.
  target_compile_options(simrun_cpu_kernels PRIVATE -Wno-subobject-linkage)
endif()
target_sources(simrun_backend PRIVATE $<TARGET_OBJECTS:simrun_cpu_kernels>)
set_source_files_properties(${CMAKE_SOURCE_DIR}/backend/parameter_values.cpp PROPERTIES COMPILE_OPTIONS "-O2"
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
# And one that the threads' tests compile once more.
set_source_files_properties(${CMAKE_SOURCE_DIR}/backend/cpu/device.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
