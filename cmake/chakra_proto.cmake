# The part of Chakra's execution traces that simrun reads. The generated header is heavy: only traces/read_chakra.cpp includes it,
# and its test, which writes such files by the same schema (so PUBLIC).
if(EXISTS ${CMAKE_SOURCE_DIR}/traces/chakra.proto)
  protobuf_generate_cpp(chakra_proto_cpp chakra_proto_h ${CMAKE_SOURCE_DIR}/traces/chakra.proto)
  add_library(simrun_chakra_proto STATIC ${chakra_proto_cpp} ${chakra_proto_h})
  target_compile_options(simrun_chakra_proto PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  target_include_directories(simrun_chakra_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR})
  target_link_libraries(simrun_chakra_proto PUBLIC protobuf::libprotobuf-lite)
  target_link_libraries(simrun_traces PUBLIC simrun_chakra_proto)
endif()
