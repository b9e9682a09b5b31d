# The MPI plugin, compiled against whatever MPI is found: there is no common ABI, so it belongs to that one alone.
if(SIMRUN_MPI STREQUAL "ON")
  find_package(MPI REQUIRED COMPONENTS CXX)
else()
  find_package(MPI QUIET COMPONENTS CXX)
endif()
if(NOT MPI_CXX_FOUND)
  simrun_no_plugin(MPI "CMake found no MPI (on Debian: apt-get install libopenmpi-dev openmpi-bin)")
  return()
endif()
file(GLOB mpi_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backend/mpi/*.cpp)
simrun_plugin(mpi INSTALL SOURCES ${mpi_sources} LIBS MPI::MPI_CXX)
# The C interface only: the C++ one was removed from the standard, and its headers are deprecated.
target_compile_definitions(simrun_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
