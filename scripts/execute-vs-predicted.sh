#!/usr/bin/env bash
# Predicted against measured on this machine: calibrates it, simulates each job of tests/data/execute on what was found, runs the job
# and prints a table. Needs a machine that does nothing else.
#
#   scripts/execute-vs-predicted.sh [--profile FILE] [--steps N] [JOB.yaml...]
#
#   --profile  use this calibration; written there first if it is missing (default: a temporary one)
#   --steps    steps per run, of which the first is not counted (default 6: the median of 5)
#
# Columns: ranks and the cores they share; the predicted and the measured step; the error of the prediction; the step that the measured
# instructions make in the simulator, and its error; last the error of the prediction against that step, which counts the ranks' own work
# by their threads' clocks and so nearly holds on a machine that does something else as well.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
if [ ! -x "$simrun" ]; then
  echo "execute-vs-predicted.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi
profile="" steps=6 jobs=()
while [ $# -gt 0 ]; do
  case "$1" in
    --profile) profile=${2:?--profile needs a file}; shift 2 ;;
    --steps) steps=${2:?--steps needs a number}; shift 2 ;;
    -*) echo "execute-vs-predicted.sh: unknown option '$1'; there are: --profile FILE, --steps N" >&2; exit 2 ;;
    *) jobs+=("$1"); shift ;;
  esac
done
if [ ${#jobs[@]} = 0 ]; then jobs=("$root"/tests/data/execute/*.yaml); fi
if [ -z "$profile" ]; then
  profile=$(mktemp --suffix .yaml)
  rm "$profile"
  trap 'rm -f "$profile"' EXIT
fi
if [ ! -e "$profile" ]; then "$simrun" --calibrate -o "$profile"; fi
profile=$(realpath "$profile")

# number KEY < JSON: the first value of a key of ours, which is a plain number.
number() { grep -o "\"$1\": [-0-9.e+]*" | head -n 1 | sed 's/.*: //'; }

printf '%-16s %5s %5s %12s %12s %8s %12s %8s %10s\n' job ranks cores predicted_s measured_s error replayed_s error of_work
for job in "${jobs[@]}"; do
  gpus=$(sed -n 's/.*gpus_per_node: \([0-9]*\).*/\1/p' "$job")
  json=$("$simrun" "$job" --set "cluster={from: $profile, nodes: 1, gpus_per_node: $gpus}" --execute --no-reference \
    --steps "$steps" --json --engine fast) || [ $? = 3 ]
  execute=${json#*\"execute\":}
  awk -v job="$(basename "$job" .yaml)" -v ranks="$gpus" -v cores="$(number cores <<<"$execute")" \
    -v predicted="$(number predicted_step_s <<<"$execute")" -v measured="$(number measured_step_s <<<"$execute")" \
    -v replayed="$(number replayed_step_s <<<"$execute")" 'BEGIN {
      printf "%-16s %5d %5d %12.4f %12.4f %+7.1f%% %12.4f %+7.1f%% %+9.1f%%\n", job, ranks, cores, predicted, measured,
        100 * (predicted / measured - 1), replayed, 100 * (replayed / measured - 1), 100 * (predicted / replayed - 1)
    }'
done
