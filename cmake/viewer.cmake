# The pages' templates as byte arrays in the visualizer room. Run as a script (-DNAME=... -DHTML=... -DCPP=...) it writes one such source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${HTML} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  file(WRITE ${CPP} "#include \"visualizer/viewer_html.h\"\n\nnamespace simrun {\n\n"
    "namespace {\nconstexpr unsigned char bytes[] = {\n${bytes}\n};\n}  // namespace\n\n"
    "std::string_view ${NAME}_html() { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }\n\n}  // namespace simrun\n")
  return()
endif()

foreach(page viewer estimator)
  set(page_html ${CMAKE_SOURCE_DIR}/visualizer/dist/${page}.html)
  set(page_cpp ${CMAKE_BINARY_DIR}/${page}_html.cpp)
  add_custom_command(OUTPUT ${page_cpp}
    COMMAND ${CMAKE_COMMAND} -DNAME=${page} -DHTML=${page_html} -DCPP=${page_cpp} -P ${CMAKE_SOURCE_DIR}/cmake/viewer.cmake
    DEPENDS ${page_html} ${CMAKE_SOURCE_DIR}/cmake/viewer.cmake VERBATIM)
  target_sources(simrun_visualizer PRIVATE ${page_cpp})
endforeach()
