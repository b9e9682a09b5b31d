# Plugins: MODULE libraries that simrun opens with dlopen (backend/plugin.h says why and how they are found). AUTO builds one where
# its library is found; ON fails without it.
set(SIMRUN_MPI AUTO CACHE STRING "the MPI plugin: AUTO, ON or OFF")
set(SIMRUN_CUDA AUTO CACHE STRING "the CUDA plugin: AUTO, ON or OFF")
set_property(CACHE SIMRUN_MPI SIMRUN_CUDA PROPERTY STRINGS AUTO ON OFF)

# A plugin's sources are its own folder's and the few files of the rooms that it needs, compiled once more as position-independent
# code with hidden names (CORE): the rooms themselves stay as they are. What is missing fails to link (in sanitized builds of clang only
# when it is opened). LIBS: further libraries; INSTALL: it is installed to lib/simrun.
function(simrun_plugin name)
  cmake_parse_arguments(arg "INSTALL" "" "SOURCES;CORE;LIBS" ${ARGN})
  list(TRANSFORM arg_CORE PREPEND ${CMAKE_SOURCE_DIR}/)
  add_library(simrun_${name} MODULE ${arg_SOURCES} ${arg_CORE})
  target_include_directories(simrun_${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(simrun_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${SIMRUN_WARNINGS}> -fvisibility=hidden)
  target_link_options(simrun_${name} PRIVATE -Wl,--exclude-libs,ALL)
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize" OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(simrun_${name} PRIVATE -Wl,--no-undefined)
  endif()
  # A plugin's libraries come before the program's (backend/plugin.cpp), the C library's free() among them: who gives memory stands first.
  if(simrun_jemalloc)
    target_link_options(simrun_${name} BEFORE PRIVATE -Wl,--push-state,--no-as-needed ${simrun_jemalloc} -Wl,--pop-state)
  endif()
  target_link_libraries(simrun_${name} PRIVATE ${arg_LIBS})
  simrun_unity(simrun_${name} KEEP ${arg_CORE})
  set_target_properties(simrun_${name} PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  if(arg_INSTALL)
    install(TARGETS simrun_${name} LIBRARY DESTINATION lib/simrun)
    set_property(GLOBAL APPEND PROPERTY SIMRUN_PLUGINS simrun_${name})
  endif()
endfunction()

# Says in `${NAME}_not_built` why a plugin is not built, or stops where it must be: simrun_no_plugin(MPI "CMake found no MPI").
function(simrun_no_plugin NAME why)
  if(SIMRUN_${NAME} STREQUAL "ON")
    message(FATAL_ERROR "SIMRUN_${NAME}=ON, but ${why}")
  endif()
  message(STATUS "No ${NAME} plugin: ${why}")
  set(${NAME}_not_built "${why}" PARENT_SCOPE)
endfunction()

set(MPI_not_built "")
set(CUDA_not_built "")
foreach(plugin mpi cuda)
  string(TOUPPER ${plugin} NAME)
  if(SIMRUN_${NAME} STREQUAL "OFF")
    simrun_no_plugin(${NAME} "SIMRUN_${NAME} was OFF")
  elseif(EXISTS ${CMAKE_SOURCE_DIR}/cmake/plugin_${plugin}.cmake)
    include(cmake/plugin_${plugin}.cmake)
  else()
    simrun_no_plugin(${NAME} "there is no such plugin yet")
  endif()
endforeach()
set_property(SOURCE ${CMAKE_SOURCE_DIR}/backend/plugin.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  "SIMRUN_MPI_NOT_BUILT=\"${MPI_not_built}\"" "SIMRUN_CUDA_NOT_BUILT=\"${CUDA_not_built}\"")
target_link_libraries(simrun_backend PRIVATE ${CMAKE_DL_LIBS})
