# One static library per folder; the rooms after DEPENDS are the only ones that it may include.
# tests/layering.cmake checks the same table against every #include "room/...".
set(SIMRUN_WARNINGS -Wall -Wextra -Wpedantic -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SIMRUN_WARNINGS -Wshadow)  # clang's minds names of unnamed namespaces, too
else()
  # GCC's -Wconversion leaves these out; a pack without members uses no capture.
  list(APPEND SIMRUN_WARNINGS -Wno-sign-conversion -Wno-unused-lambda-capture)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and uninitialized bytes inside std::string and <=> of vectors when it optimizes (GCC bugs 105329, 105562, 105651).
  list(APPEND SIMRUN_WARNINGS -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds)
endif()

# One name for what GCC and clang say differently.
string(TOUPPER "${CMAKE_BUILD_TYPE}" configuration)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${configuration}}" MATCHES "-fsanitize=[a-z,]*address")
  add_compile_definitions(SIMRUN_ADDRESS_SANITIZER)
  # Sanitized programs are of 100 MB: LLVM's linker takes a quarter of GNU's time for one, and what is not moved starts sooner.
  find_program(SIMRUN_LLD ld.lld)
  if(SIMRUN_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

# What nearly every file includes, parsed once for all targets of a KIND, which share their compile options: a third of the time to
# build. Files still include what they use; scripts/lint.sh tidy compiles them without.
option(SIMRUN_PRECOMPILE "precompile the standard library's headers" ON)
function(simrun_precompile target)
  cmake_parse_arguments(arg "" "KIND" "HEADERS" ${ARGN})
  if(NOT SIMRUN_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY SIMRUN_PRECOMPILED_${arg_KIND})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional>
      <set> <stdexcept> <string> <tuple> <utility> <vector> ${arg_HEADERS})
    set_property(GLOBAL PROPERTY SIMRUN_PRECOMPILED_${arg_KIND} ${target})
  endif()
  # ccache asks for these.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# Several files per object: what they all include is parsed once, and building takes half the time. A file's group hangs on its name
# only, so that a new file joins one group and leaves the others as they are. At most four groups: more parse the same headers again,
# and two of a large room are one processor's while the other has nothing left. A file with compile options of its own stays alone.
option(SIMRUN_UNITY "compile several source files as one object" ON)
# Groups are the files', not the target's: KEEP names those of another target, which stay in its groups.
function(simrun_unity target)
  cmake_parse_arguments(arg "" "" "KEEP" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  if(arg_KEEP)
    list(REMOVE_ITEM sources ${arg_KEEP})
  endif()
  list(LENGTH sources count)
  if(NOT SIMRUN_UNITY OR count LESS 4)
    return()
  endif()
  set(groups 1)
  while(groups LESS 4 AND count GREATER_EQUAL 24)
    math(EXPR groups "${groups} * 2")
    math(EXPR count "${count} / 2")
  endwhile()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS sources)
    get_filename_component(file "${source}" NAME)
    string(MD5 hash "${file}")
    string(SUBSTRING "${hash}" 0 2 hash)
    math(EXPR group "0x${hash} % ${groups}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endforeach()
endfunction()

# For code that hardly computes: unoptimised in the sanitized build, which compiles it in less than half the time, and hardly optimised in
# the release build, which does so in two thirds.
function(simrun_plain target)
  simrun_precompile(${target} KIND plain HEADERS <fmt/format.h>)
  target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
endfunction()

# A function of the standard library is in every object that calls it, as well optimised as that object, and the linker takes the first
# (C++20 has no std::string in libstdc++). So the rooms that compute stand before what is optimised less: a fifth of the tests' time.
function(simrun_link_first target)
  set(archives)
  foreach(room IN LISTS ARGN)
    get_property(plain GLOBAL PROPERTY SIMRUN_PLAIN_${room})
    if(NOT plain)
      list(APPEND archives "$<TARGET_FILE:simrun_${room}>")
    endif()
  endforeach()
  if(archives)
    list(JOIN archives "," archives)
    target_link_options(${target} BEFORE PRIVATE "LINKER:--whole-archive,${archives},--no-whole-archive")
  endif()
endfunction()

# PLAIN: see simrun_plain(). FUZZED: among what the fuzz targets read files with, so libFuzzer has to see where it runs. Without comparisons,
# which the preset `fuzz` instruments too: the tests run this code as well.
function(simrun_room name)
  cmake_parse_arguments(arg "PLAIN;FUZZED" "" "FOLDERS;DEPENDS;LIBS" ${ARGN})
  set(patterns ${CMAKE_SOURCE_DIR}/${name}/*.cpp)
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns ${CMAKE_SOURCE_DIR}/${name}/${folder}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  add_library(simrun_${name} STATIC ${sources})
  set_property(GLOBAL PROPERTY SIMRUN_PLAIN_${name} ${arg_PLAIN})
  set_property(GLOBAL PROPERTY SIMRUN_DEPENDS_${name} ${arg_DEPENDS})
  if(arg_PLAIN)
    simrun_plain(simrun_${name})
  else()
    simrun_precompile(simrun_${name} KIND room HEADERS <fmt/format.h>)
  endif()
  if(arg_FUZZED AND SIMRUN_FUZZ_TESTS)
    target_compile_options(simrun_${name} PRIVATE -fsanitize-coverage=inline-8bit-counters,pc-table)
  endif()
  simrun_unity(simrun_${name})
  target_include_directories(simrun_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(simrun_${name} PRIVATE ${SIMRUN_WARNINGS})
  foreach(room ${arg_DEPENDS})
    target_link_libraries(simrun_${name} PUBLIC simrun_${room})
  endforeach()
  target_link_libraries(simrun_${name} PRIVATE ${arg_LIBS})
  list(JOIN arg_DEPENDS "|" allowed)
  set_property(GLOBAL APPEND PROPERTY SIMRUN_LAYERS "-DALLOWED_${name}=${allowed}")
endfunction()
