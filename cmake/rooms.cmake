# One static library per folder; the rooms after DEPENDS are the only ones that it may include.
# tests/layering.cmake checks the same table against every #include "room/...".
set(SIMRUN_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and uninitialized bytes inside std::string and <=> of vectors when it optimizes (GCC bugs 105329, 105562, 105651).
  list(APPEND SIMRUN_WARNINGS -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overread)
endif()

function(simrun_room name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cpp)
  add_library(simrun_${name} STATIC ${sources})
  target_include_directories(simrun_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(simrun_${name} PRIVATE ${SIMRUN_WARNINGS})
  foreach(room ${arg_DEPENDS})
    target_link_libraries(simrun_${name} PUBLIC simrun_${room})
  endforeach()
  target_link_libraries(simrun_${name} PRIVATE ${arg_LIBS})
  list(JOIN arg_DEPENDS "|" allowed)
  set_property(GLOBAL APPEND PROPERTY SIMRUN_LAYERS "-DALLOWED_${name}=${allowed}")
endfunction()
