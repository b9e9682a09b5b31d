# layering.cmake accepts a good tree and refuses a bad one, naming each fault. Run as
#   cmake -DLAYERING=<layering.cmake> -DTREE=<a folder to write in> -P layering_test.cmake
cmake_minimum_required(VERSION 3.25)

set(table -DALLOWED_configs= -DALLOWED_models=configs "-DALLOWED_sim=configs|models")

function(expect what code_expected text_expected)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${TREE} ${ARGN} -P ${LAYERING}
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code_expected STREQUAL "ok" AND NOT code EQUAL 0)
    message(FATAL_ERROR "${what}: should pass, but:\n${output}")
  elseif(code_expected STREQUAL "fails" AND code EQUAL 0)
    message(FATAL_ERROR "${what}: should fail, but passed")
  endif()
  string(FIND "${output}" "${text_expected}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${what}: the output lacks '${text_expected}':\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${TREE})
file(WRITE ${TREE}/CMakeLists.txt
  "simrun_room(configs    LIBS fmt::fmt)\nsimrun_room(models     DEPENDS configs LIBS fmt::fmt)\nsimrun_room(sim DEPENDS configs models)\n")
file(WRITE ${TREE}/configs/job.h "#include <vector>\n")
file(WRITE ${TREE}/models/attention.cpp "#include \"models/attention.h\"\n#include <sys/stat.h>\n#include \"configs/job.h\"\n")
file(WRITE ${TREE}/sim/engine.cpp "#include \"configs/job.h\"\n#include \"models/graph.h\"\n")
file(WRITE ${TREE}/cli/main.cpp "#include \"sim/simulate.h\"\n#include \"models/graph.h\"\n")
file(WRITE ${TREE}/tests/t.cpp "#include \"sim/simulate.h\"\n")
expect("a good tree" ok "" ${table})
expect("a good tree, table from CMakeLists.txt" ok "")

file(WRITE ${TREE}/models/attention.cpp "#include \"configs/job.h\"\n  #  include \"sim/simulate.h\"\n")
expect("a room above" fails "models/attention.cpp: may not include sim/" ${table})
expect("a room above, table from CMakeLists.txt" fails "models/attention.cpp: may not include sim/")
file(WRITE ${TREE}/models/attention.cpp "#include <sim/simulate.h>\n")
expect("angle brackets" fails "models/attention.cpp: may not include sim/" ${table})
file(WRITE ${TREE}/models/attention.cpp "#include \"cli/options.h\"\n")
expect("cli" fails "models/attention.cpp: may not include cli/" ${table})
file(WRITE ${TREE}/models/attention.cpp "#include \"../sim/simulate.h\"\n")
expect("a relative path" fails "models/attention.cpp: includes are written from the root" ${table})
file(WRITE ${TREE}/models/attention.cpp "")

file(WRITE ${TREE}/configs/deep/er.cpp "#include \"models/graph.h\"\n")
expect("the room without dependencies, in a subfolder" fails "configs/deep/er.cpp: may not include models/" ${table})
file(REMOVE_RECURSE ${TREE}/configs/deep)

file(WRITE ${TREE}/planner/search.cpp "")
expect("a room without a target" fails "planner/: a room without a simrun_room(planner" ${table})
file(REMOVE_RECURSE ${TREE}/planner)
expect("the good tree again" ok "" ${table})
file(REMOVE_RECURSE ${TREE})
