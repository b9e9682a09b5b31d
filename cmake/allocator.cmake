# Plans are many small vectors, which a search makes and drops by the million: with mimalloc it takes an eighth less than with glibc's
# malloc. A program that links it first has all of its allocations from there. Not under sanitizers, which bring an allocator of their own.
find_package(mimalloc 2.0 QUIET)
if(NOT mimalloc_FOUND)
  message(STATUS "mimalloc is missing (on Debian 12: apt-get install libmimalloc-dev): searches take an eighth longer")
endif()

function(simrun_allocator target)
  if(TARGET mimalloc AND NOT "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    target_link_libraries(${target} PRIVATE mimalloc)
  endif()
endfunction()
