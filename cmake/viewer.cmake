# The page's template as a byte array in the visualizer room. Run as a script (-DHTML=... -DCPP=...) it writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${HTML} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  file(WRITE ${CPP} "#include \"visualizer/viewer_html.h\"\n\nnamespace simrun {\n\n"
    "namespace {\nconstexpr unsigned char bytes[] = {\n${bytes}\n};\n}  // namespace\n\n"
    "std::string_view viewer_html() { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }\n\n}  // namespace simrun\n")
  return()
endif()

set(viewer_html ${CMAKE_SOURCE_DIR}/visualizer/dist/viewer.html)
set(viewer_cpp ${CMAKE_BINARY_DIR}/viewer_html.cpp)
add_custom_command(OUTPUT ${viewer_cpp}
  COMMAND ${CMAKE_COMMAND} -DHTML=${viewer_html} -DCPP=${viewer_cpp} -P ${CMAKE_SOURCE_DIR}/cmake/viewer.cmake
  DEPENDS ${viewer_html} ${CMAKE_SOURCE_DIR}/cmake/viewer.cmake VERBATIM)
target_sources(simrun_visualizer PRIVATE ${viewer_cpp})
