#!/usr/bin/env bash
# `mpirun -n N simrun --plan`: the first process prints and writes what one process would, the others are silent; a process that dies ends
# the search. 77 (ctest: skipped) without mpirun or plugin.
#
#   plan.sh SIMRUN JOBS_FOLDER
set -uo pipefail
simrun=$1
jobs=$2
if ! command -v mpirun >/dev/null || ! "$simrun" --doctor | grep -q '^transport  mpi  *yes'; then
  echo "plan.sh: mpirun or the MPI plugin is missing:" >&2
  "$simrun" --doctor | grep '^transport  mpi' >&2
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
expect() {  # what, then a command that must succeed
  if ! "${@:2}"; then
    echo "FAILED: $1" >&2
    cat error >&2
    bad=1
  fi
}
ranks() { timeout -k 5 120 mpirun -q --oversubscribe "$@"; }
without_seconds() { sed -E 's/"seconds": [0-9.]+/"seconds": -/' "$1"; }

for job in tiny-moe-8ranks tiny-4xa100; do
  search=("$simrun" --plan "$jobs/$job.yaml" --json --set plan.evaluations=12)
  "${search[@]}" -o alone.yaml >alone.json 2>error
  expect "$job alone" [ $? -eq 0 ]
  for processes in 2 3; do
    ranks -n "$processes" "${search[@]}" -o together.yaml >together.json 2>error
    expect "$job, $processes processes: exit code" [ $? -eq 0 ]
    expect "$job, $processes processes: silent" [ ! -s error ]
    expect "$job, $processes processes: best" cmp alone.yaml together.yaml
    expect "$job, $processes processes: result" diff -q <(without_seconds alone.json) <(without_seconds together.json)
  done
done

# Stopped while it simulates, after a time that is found by trying; taken up by two processes.
search=("$simrun" --plan "$jobs/llama3-8b-8xh100.yaml" --json --set plan.evaluations=120)
"${search[@]}" -o whole.yaml >whole.json 2>error
expect "resume: whole search" [ $? -eq 0 ]
for seconds in 0.2 0.3 0.4 0.6 0.8 1.1 1.5 2.1 3 4.2 6 8.4 12; do
  timeout -k 5 -s INT "$seconds" "${search[@]}" -o part.yaml >part.json 2>error
  if [ -e part.yaml.searched ] && [ "$(wc -l <part.yaml.searched)" -gt 1 ]; then break; fi
done
expect "resume: stopped while it simulates" grep -q '"stopped": true' part.json
ranks -n 2 "${search[@]}" -o part.yaml --resume >resumed.json 2>error
expect "resume: exit code" [ $? -eq 0 ]
expect "resume: best" cmp whole.yaml part.yaml
expect "resume: result" diff -q <(without_seconds whole.json) <(without_seconds resumed.json)

ranks -n 3 "$simrun" --plan "$jobs/tiny-4xa100.yaml" --set plan.fix.data_parallel_size=3 >result 2>error
expect "contradiction: exit code" [ $? -eq 2 ]
expect "contradiction: told once" [ "$(grep -c 'data_parallel_size is not 3' error)" -eq 1 ]

# Rank 1 dies while all of them search; then all are interrupted.
# So many are simulated that no machine has done before.
search="$simrun --plan $jobs/gpt3-175b-1024xa100.yaml -o dead.yaml --set plan.evaluations=5000"
begin=$SECONDS
ranks -n 3 sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then (sleep 2; kill -9 $$) & fi; exec '"$search" >result 2>error
expect "a process dies: exit code" [ $? -ne 0 ]
expect "a process dies: in time" [ $((SECONDS - begin)) -le 12 ]
expect "a process dies: no result" [ ! -s result ] 
expect "a process dies: nothing written" [ ! -e dead.yaml ]
expect "a process dies: told once" [ "$(grep -c 'has died' error)" -eq 1 ]
begin=$SECONDS
timeout -k 5 -s INT 2 mpirun -q --oversubscribe -n 3 sh -c "exec $search" >result 2>error
expect "interrupted: in time" [ $((SECONDS - begin)) -le 12 ]
expect "interrupted: no result" [ ! -s result ]
expect "interrupted: nothing written" [ ! -e dead.yaml ]
exit $bad
