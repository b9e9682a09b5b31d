# The part of Perfetto's trace format that simrun writes. The generated header is heavy: only
# visualizer/perfetto_trace.cpp includes it, and its test, which reads traces back by the same schema (so PUBLIC).
if(EXISTS ${CMAKE_SOURCE_DIR}/visualizer/perfetto_trace.proto)
  protobuf_generate_cpp(perfetto_proto_cpp perfetto_proto_h ${CMAKE_SOURCE_DIR}/visualizer/perfetto_trace.proto)
  add_library(simrun_perfetto_proto STATIC ${perfetto_proto_cpp} ${perfetto_proto_h})
  target_compile_options(simrun_perfetto_proto PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  target_include_directories(simrun_perfetto_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR})
  target_link_libraries(simrun_perfetto_proto PUBLIC protobuf::libprotobuf-lite)
  target_link_libraries(simrun_visualizer PUBLIC simrun_perfetto_proto)
endif()
