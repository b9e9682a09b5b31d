#!/usr/bin/env bash
# Ranks over real processes, started by mpirun: the same bits as threads of one process; and whatever goes wrong, all processes end
# within 10 seconds with one message that says which rank, which instruction and who waited for whom. 77 (ctest: skipped) without mpirun.
#
#   run.sh RANK_PROGRAM PLUGIN_FOLDER [same | died | stopped | interrupted | failed | refused]...     (default: all)
set -uo pipefail
program=$1
export SIMRUN_PLUGIN_PATH=$2
shift 2
if ! command -v mpirun >/dev/null; then
  echo "run.sh: mpirun is missing; scripts/setup.sh test installs Open MPI" >&2
  exit 77
fi
if [ ! -e "$SIMRUN_PLUGIN_PATH/libsimrun_mpi.so" ]; then
  echo "run.sh: no MPI plugin was built" >&2
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0  # MPI keeps what it has until the end
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

fail() {
  echo "FAILED: $*" >&2
  cat "$out/error" >&2
  bad=1
}

# seconds, then mpirun's options and the program's: exit code in `code`, what was printed in out/result and out/error.
ranks() {
  local limit=$1 begin
  shift
  begin=$(date +%s%N)
  timeout -k 5 60 mpirun -q --oversubscribe "$@" >"$out/result" 2>"$out/error"
  code=$?
  local took=$((($(date +%s%N) - begin) / 1000000))
  if [ "$took" -gt $((limit * 1000)) ]; then fail "$*: $took ms"; fi
}

# exit code, pattern: exactly one line of error, and it says so. A process that was stopped and wakes within MPI may find that MPI cannot
# read the memory of one that has ended, and MPI says so itself.
ends_with() {
  sed -i '/^\[[^]]*\] Read -1, expected [0-9]*, errno = 3$/d' "$out/error"
  if [ "$code" -ne "$1" ]; then fail "$what: exit code $code, not $1"; fi
  if [ "$(wc -l <"$out/error")" -ne 1 ]; then fail "$what: not one message"; fi
  if ! grep -Eq "$2" "$out/error"; then fail "$what: not '$2'"; fi
  if [ -s "$out/result" ]; then fail "$what: a result was printed"; fi
}

a_wait='rank [0-7] waits for rank [0-7] in step [01], entry [0-9]+ \(.*instruction [0-9]+ \([a-z_]+ [a-z0-9_ ]+\)'

same() {
  local alone
  alone=$("$program")
  for processes in 1 2 4 8; do
    ranks 60 -n "$processes" "$program"
    if [ "$code" -ne 0 ] || [ "$(cat "$out/result")" != "$alone" ]; then fail "$processes processes: other bits than threads"; fi
  done
}

process_of() { echo "process $(($1 / 2)) \\(ranks $(($1 / 2 * 2))-$(($1 / 2 * 2 + 1)), pid [0-9]+\\)"; }

died() {
  for rank in 5 0; do
    what="rank $rank dies"
    ranks 10 -n 4 "$program" die "$rank"
    ends_with 137 "^$(process_of $rank) has died; .*$a_wait"
  done
}

# Four seconds of silence, and mpirun takes two to end a stopped process; the rest is for starting.
stopped() {
  for rank in 5 0; do
    what="the process of rank $rank stops"
    ranks 15 -n 4 "$program" stop "$rank"
    ends_with 1 "^$(process_of $rank) has not been heard of for 4 s; .*$a_wait"
  done
}

# As a scheduler ends a job: SIGTERM to every process. The 10 seconds count from then. (mpirun, told to end, sends it too, and ends with or
# without what they say.)
interrupted() {
  what="every process is told to end"
  (
    until grep -qs '^lingers$' "$out/error"; do sleep 0.1; done
    sleep 1
    date +%s%N >"$out/told"
    pkill -TERM -f "^$program linger"
  ) &
  local teller=$!
  ranks 60 -n 4 "$program" linger 3
  kill "$teller" 2>/dev/null
  sed -i '/^lingers$/d' "$out/error"
  ends_with "$code" "^ended by SIGTERM; .*rank 2 waits for rank 3 in step"
  local took=$((($(date +%s%N) - $(cat "$out/told")) / 1000000))
  if [ "$took" -gt 10000 ]; then fail "$what: $took ms"; fi
}

failed() {
  for rank in 0 7; do
    what="rank $rank throws"
    ranks 10 -n 4 "$program" throw "$rank"
    ends_with 1 "^rank $rank: step [01], entry [0-9]+ \(.*instruction [0-9]+ \([a-z_]+ .*\): the disk is full$"
  done
  what="rank 3 waits for ever"
  ranks 10 -n 4 "$program" wait 3
  ends_with 4 "^no rank can go on: .*rank 3 waits for rank 4 in a test"
  what="rank 3 computes on when rank 4 throws"
  ranks 10 -n 4 "$program" compute 3
  ends_with 1 "^rank 4: .*: the disk is full$"
}

refused() {
  what="process 2 has another plan"
  ranks 10 -n 4 "$program" plan 2
  ends_with 4 "^process 2 \(ranks 4-5, pid [0-9]+\) runs plan [0-9a-f]{12} with .*, process 0 plan [0-9a-f]{12} with"
  for processes in 3 7 16; do
    what="$processes processes"
    ranks 10 -n "$processes" "$program"
    ends_with 4 "^the plan has 8 ranks, which $processes processes cannot have equal numbers of; 1, 2, 4 or 8 can$"
  done
}

for check in "${@:-same died stopped interrupted failed refused}"; do
  for name in $check; do "$name"; done
done
exit $bad
