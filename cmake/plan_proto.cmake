# The Plan's file format. The generated header is heavy: only schedules/plan_file.cpp includes it.
if(EXISTS ${CMAKE_SOURCE_DIR}/schedules/plan.proto)
  protobuf_generate_cpp(plan_proto_cpp plan_proto_h ${CMAKE_SOURCE_DIR}/schedules/plan.proto)
  add_library(simrun_plan_proto STATIC ${plan_proto_cpp} ${plan_proto_h})
  target_compile_options(simrun_plan_proto PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  target_include_directories(simrun_plan_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR})
  target_link_libraries(simrun_plan_proto PUBLIC protobuf::libprotobuf-lite)
  target_link_libraries(simrun_schedules PRIVATE simrun_plan_proto)
endif()
