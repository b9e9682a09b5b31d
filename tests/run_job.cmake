# One job through the whole program. Run as
#   cmake -DSIMRUN=<program> -DJOB=<file.yaml> -DSCRATCH=<a folder to write in> -P run_job.cmake
#
# --check accepts it; simulating it gives a summary whose `fits` agrees with the exit code; the plan that it wrote, simulated by
# itself, gives the same summary to the last digit.
cmake_minimum_required(VERSION 3.25)

function(run output_variable code_variable)
  execute_process(COMMAND ${SIMRUN} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code MATCHES "^[03]$")
    list(JOIN ARGN " " arguments)
    message(FATAL_ERROR "simrun ${arguments} exits with ${code}:\n${output}\n${errors}")
  endif()
  set(${output_variable} "${output}" PARENT_SCOPE)
  set(${code_variable} ${code} PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})

run(checked code ${JOB} --check)
run(summary code ${JOB} --json --no-html --plan ${SCRATCH}/job.plan)

string(JSON fits GET "${summary}" fits)
if((fits AND NOT code EQUAL 0) OR (NOT fits AND NOT code EQUAL 3))
  message(FATAL_ERROR "fits is ${fits}, but the exit code is ${code}")
endif()
string(JSON counts_tokens ERROR_VARIABLE missing GET "${summary}" tokens_per_s)
set(throughput tokens_per_s)
if(missing)
  set(throughput images_per_s)
endif()
foreach(key step_time_s compute_s peak_memory_bytes ${throughput} mfu)
  string(JSON value GET "${summary}" ${key})
  if(NOT value MATCHES "^[0-9.e+-]+$" OR value MATCHES "^-" OR value MATCHES "^0(\\.0*)?$")
    message(FATAL_ERROR "${key} is ${value}")
  endif()
endforeach()

run(again code ${SCRATCH}/job.plan --json --no-html)
if(NOT again STREQUAL summary)
  message(FATAL_ERROR "The plan file gives another summary than its job.\n--- job\n${summary}\n--- plan\n${again}")
endif()
