#!/usr/bin/env bash
# Pipeline schedules against published measurements, from the published times of single passes:
#
#   scripts/schedules-vs-measured.sh
#
# (a) DeepSeek-V3's step on 2,048 H800: its F, B, W and overlapped times under `simrun --schedule dualpipe`.
# (b) Zero Bubble (Qi et al. 2024), tables 4 and 6: throughput of 1F1B, interleaved 1F1B, ZB-1p and ZB-2p from the profiled times of a
#     stage, as they are and with one factor per model.
# Facts: tests/data/deepseek_v3_step.csv, zero_bubble_table4.csv, zero_bubble_table6.csv. SIMRUN names another program.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
data=$root/tests/data
if [ ! -x "$simrun" ]; then
  echo "schedules-vs-measured.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi

# JSON of a schedule on standard input -> "makespan span": `span` is the longest time from a rank's first pass to its last, the period of
# steps that follow one another without a barrier.
periods() {
  awk '
    function list(line) { sub(/^[^[]*\[/, "", line); sub(/\].*$/, "", line); return line }
    $1 == "\"makespan\":" { makespan = $2 + 0 }
    $1 == "\"idle\":" { ranks = split(list($0), idle, ", ") }
    $1 == "\"span_idle\":" { split(list($0), gaps, ", ") }
    END {
      for (r = 1; r <= ranks; ++r) { span = makespan - idle[r] + gaps[r]; if (span > longest) longest = span }
      print makespan, longest
    }'
}

# (a) Rank 0 of DualPipe runs so many passes of each kind alone and in pairs; the published sums over them give the time of one:
# F = 1F / forwards, W = 1W / weight passes, B = (1B + W x input passes) / (backwards + input passes), as an input pass is B - W.
deepseek() {
  echo "DeepSeek-V3 on 2,048 H800, seconds per step: published, and DualPipe's with the same F, B, W and overlapped pair"
  echo "network      ranks  microbatches      F ms   B ms   W ms  F+B ms   bubble (published)        step (published)     error"
  local network ranks microbatches forward bubble backward weight pairs optimizer step ops times json
  while IFS=, read -r network ranks microbatches forward bubble backward weight pairs optimizer step; do
    ops=$("$simrun" --schedule dualpipe --ranks "$ranks" --microbatches "$microbatches" --dry | awk 'NR == 1')
    times=$(tr ' ' '\n' <<<"$ops" | awk -v f="$forward" -v b="$backward" -v w="$weight" -v fb="$pairs" '
      /^\(/ { ++pairs; next }
      { ++count[substr($0, match($0, /[FBIW]/), 1)] }
      END {
        F = f / count["F"]; W = w / count["W"]; B = (b + W * count["I"]) / (count["B"] + count["I"])
        printf "%.6f %.6f %.6f %.6f", F * 1000, B * 1000, W * 1000, fb / pairs * 1000
      }')
    read -r f b w fb <<<"$times"
    json=$("$simrun" --schedule dualpipe --ranks "$ranks" --microbatches "$microbatches" --json \
      --costs "$(awk -v f="$f" -v b="$b" -v w="$w" -v fb="$fb" \
        'BEGIN { printf "F=%.6f,B=%.6f,I=%.6f,W=%.6f,FB=%.6f", f, b, b - w, w, fb }')")
    awk -v name="$network" -v p="$ranks" -v m="$microbatches" -v f="$f" -v b="$b" -v w="$w" -v fb="$fb" -v bubble="$bubble" \
      -v optimizer="$optimizer" -v step="$step" '
      $1 == "\"makespan\":" { makespan = $2 / 1000 }
      $1 == "\"idle\":" { sub(/^[^[]*\[/, ""); idle = $1 / 1000 }
      END {
        printf "%-12s %5d  %12d  %8.2f %6.2f %6.2f %7.2f   %6.2f (%.2f) %+6.1f %%   %9.3f (%.3f) %+7.1f %%\n", name, p, m, f, b, w, fb,
          idle, bubble, 100 * (idle / bubble - 1), makespan + optimizer, step, 100 * ((makespan + optimizer) / step - 1)
      }' <<<"$json"
  done < <(grep -v '^#' "$data/deepseek_v3_step.csv" | tail -n +2)
}

# Period of a row of table 4: schedule ranks microbatches stages-per-rank t_f t_b t_w t_comm. ZB-1p and ZB-2p are zb_auto under p and 2 p
# activations, counted from F to W; the paper frees a part of one at I already, so its order may be a little better.
predict() {
  local schedule=$1 ranks=$2 microbatches=$3 stages=$4 costs
  local -a name
  costs=$(awk -v f="$5" -v b="$6" -v w="$7" -v v="$([ "$schedule" = 1F1B-interleaved ] && echo "$stages" || echo 1)" \
    'BEGIN { printf "F=%.6f,I=%.6f,W=%.6f", f / v, b / v, w / v }')
  case "$schedule" in
    1F1B) name=(1f1b) ;;
    1F1B-interleaved) name=(interleaved_1f1b --virtual "$stages") ;;
    ZB-1p) name=(zb_auto --memory-limit "$ranks") ;;
    ZB-2p) name=(zb_auto --memory-limit $((2 * ranks))) ;;
    *) echo "schedules-vs-measured.sh: unknown schedule '$schedule'" >&2; return 1 ;;
  esac
  "$simrun" --schedule "${name[@]}" --ranks "$ranks" --microbatches "$microbatches" --costs "$costs" --comm "$8" --json | periods
}

# One line per row of table 4: its columns, then the predicted period in ms. The profile is that of the same model at the same number of
# microbatches, or the nearest below (else the first).
zero_bubble_rows() {
  local id model slots ranks batch microbatches schedule samples profile both
  while IFS=, read -r id model slots ranks batch microbatches schedule samples; do
    profile=$(grep -v '^#' "$data/zero_bubble_table6.csv" | awk -F, -v model="$model" -v m="$microbatches" '
      $2 == model && (best == "" || $3 + 0 <= m + 0) { best = $4 " " $5 " " $6 " " $7 }
      END { print best }')
    # shellcheck disable=SC2086  # four words
    both=$(predict "$schedule" "$ranks" "$microbatches" $((slots / ranks)) $profile)
    echo "$id $model $ranks $batch $microbatches $schedule $samples $both"
  done < <(grep -v '^#' "$data/zero_bubble_table4.csv" | tail -n +2)
}

zero_bubble() {
  echo "Zero Bubble, table 4: samples per GPU and second. Profiled: with the times of table 6 as printed. Scaled: these times one factor"
  echo "slower for each model, such that its ZB-2p row with the most microbatches is met (marked *): what is left is the schedule's."
  echo "row      model      ranks  microbatches  schedule          measured  profiled    error   scaled    error"
  zero_bubble_rows | awk '
    {
      # ZB runs without a barrier between steps: its period is a rank'"'"'s span. 1F1B ends in one.
      period = ($6 ~ /^ZB/ ? $9 : $8) / 1000
      line[NR] = $0; profiled[NR] = $5 * $4 / ($3 * period); measured[NR] = $7; model[NR] = $2
      if ($6 == "ZB-2p" && $5 > most[$2]) { most[$2] = $5; factor[$2] = $7 / profiled[NR]; anchor[$2] = NR }
    }
    END {
      for (i = 1; i <= NR; ++i) {
        split(line[i], of, " ")
        scaled = profiled[i] * factor[model[i]]
        error = 100 * (scaled / measured[i] - 1)
        if (i != anchor[model[i]]) {
          ++rows
          if (error < 3 && error > -3) ++near
        }
        printf "%-8s %-10s %5d  %12d  %-16s  %8.2f  %8.2f  %+5.1f %%  %7.2f  %+5.1f %%%s\n", of[1], of[2], of[3], of[5], of[6],
          measured[i], profiled[i], 100 * (profiled[i] / measured[i] - 1), scaled, error, i == anchor[model[i]] ? " *" : ""
      }
      printf "%d of %d rows within 3 %% (scaled, those marked not counted)\n", near, rows
      for (m in factor) if (factor[m] > 0) printf "  %s: measured passes take %.3f of the profiled time\n", m, 1 / factor[m] | "sort"
    }'
}

deepseek
echo
zero_bubble
