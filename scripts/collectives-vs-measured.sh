#!/usr/bin/env bash
# Predicted against published bus bandwidths of collectives (nccl-tests curves):
#
#   scripts/collectives-vs-measured.sh
#
# Runs `simrun --collective` for every row of tests/data/nccl_busbw.csv on the cluster that the row names and prints a table with the
# errors. Clusters (tests/data/collectives/*.yaml) say which link rates and latencies were set for all their rows; nothing is fitted to
# a row. SIMRUN names another program.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
if [ ! -x "$simrun" ]; then
  echo "collectives-vs-measured.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi
data=$root/tests/data

# A row's "algorithm protocol busbw", in GB/s.
predicted() {
  local cluster=$1 collective=$2 nodes=$3 gpus=$4 algorithm=$5 bytes=$6
  local forced=()
  [ "$algorithm" = auto ] || forced=(--algorithm "$algorithm")
  "$simrun" --collective "$collective" --cluster "$data/collectives/$cluster.yaml" --nodes "$nodes" --gpus-per-node "$gpus" \
    --bytes "$bytes" "${forced[@]}" --json |
    sed -n 's/.*"algorithm": "\([a-z_]*\)".*"busbw": \([0-9.e+]*\), "protocol": "\([a-z0-9]*\)".*/\1 \3 \2/p'
}

printf '%-21s %-11s %-15s %5s %4s %12s  %-14s %-7s %9s %9s %8s\n' \
  source cluster collective nodes gpus bytes algorithm proto measured predicted error
grep -v '^#' "$data/nccl_busbw.csv" | tail -n +2 |
  while IFS=, read -r source cluster collective nodes gpus algorithm bytes busbw _; do
    read -r taken protocol value < <(predicted "$cluster" "$collective" "$nodes" "$gpus" "$algorithm" "$bytes")
    awk -v s="$source" -v c="$cluster" -v k="$collective" -v n="$nodes" -v g="$gpus" -v b="$bytes" -v a="$taken" -v p="$protocol" \
      -v m="$busbw" -v v="$value" 'BEGIN {
        v /= 1e9
        printf "%-21s %-11s %-15s %5d %4d %12s  %-14s %-7s %9.2f %9.2f %+7.1f%%\n", s, c, k, n, g, b, a, p, m, v, 100 * (v / m - 1)
      }'
  done | awk '{
      print
      error = $NF + 0; if (error < 0) error = -error
      if ($6 >= 16777216) { ++large; sum += error; within += error <= 15 }
    }
    END { printf "\n%d rows of 16 MiB and more: %d within 15 %%, mean error %.1f %%\n", large, within, sum / large }'
