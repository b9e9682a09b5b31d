#!/usr/bin/env bash
# Pipeline schedules against published measurements, from the published times of single passes:
#
#   scripts/schedules-vs-measured.sh
#
# (a) DeepSeek-V3's step on 2,048 H800, row by row, under `simrun --schedule dualpipe`.
# (b) Zero Bubble (Qi et al. 2024), tables 4 to 6: bubble rates and throughput of 1F1B, interleaved 1F1B, ZB-1p and ZB-2p.
# Facts: tests/data/deepseek_v3_step.csv, zero_bubble_table{4,5,6}.csv. SIMRUN names another program.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
data=$root/tests/data
if [ ! -x "$simrun" ]; then
  echo "schedules-vs-measured.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

facts() { grep -v '^#' "$data/$1" | tail -n +2; }

# (a) ------------------------------------------------------------------------------------------------------------------------------
# The ops of each rank on standard input, one line per rank -> for each rank: forwards, input passes and weight passes that ran alone (a
# full backward is one of each) and pairs.
count_passes() {
  awk '{
    alone["F"] = alone["B"] = alone["I"] = alone["W"] = pairs = 0
    for (i = 1; i <= NF; ++i)
      if ($i ~ /^\(/) ++pairs; else ++alone[substr($i, match($i, /[FBIW]/), 1)]
    print alone["F"], alone["B"] + alone["I"], alone["B"] + alone["W"], pairs
  }'
}

# Predicted bubble of a profile: rank (a number, or "mean") ranks microbatches F I W FB communication, ms -> "makespan bubble", s.
dualpipe_step() {
  "$simrun" --schedule dualpipe --ranks "$2" --microbatches "$3" --comm "$8" --json --costs \
    "$(awk -v f="$4" -v i="$5" -v w="$6" -v fb="$7" 'BEGIN { printf "F=%.6f,B=%.6f,I=%.6f,W=%.6f,FB=%.6f", f, i + w, i, w, fb }')" |
    awk -v rank="$1" '
      $1 == "\"makespan\":" { makespan = $2 / 1000 }
      $1 == "\"idle\":" {
        sub(/^[^[]*\[/, ""); sub(/\].*$/, "")
        n = split($0, idle, ", ")
        for (r = 1; r <= n; ++r) sum += idle[r]
      }
      END { print makespan, (rank == "mean" ? sum / n : idle[rank + 1]) / 1000 }'
}

# One network: the split as published, then as DualPipe has it if the table shows rank 0, the mean rank, or a middle rank.
deepseek_network() {
  local name=$1 ranks=$2 microbatches=$3 counts rank
  local published="$4 $5 $6 $7 $8 $9"
  local step=${10} send
  send=$(awk -v t="${11}" -v h="${12}" -v g="${13}" 'BEGIN { printf "%.6f", t * h * 2 / g / 1e6 }')
  counts=$("$simrun" --schedule dualpipe --ranks "$ranks" --microbatches "$microbatches" --dry | count_passes)
  for rank in 0 mean $((ranks / 2 - 1)); do
    awk -v rank="$rank" -v published="$published" '
      rank == "mean" || NR == rank + 1 { ++n; for (c = 1; c <= 4; ++c) count[c] += $c }
      END {
        split(published, s, " ")  # 1F bubble 1B 1W 1F1B optimizer
        for (c = 1; c <= 4; ++c) count[c] /= n
        printf "%s %s %s %s %.6f %.6f %.6f %.6f\n", count[1], count[2], count[3], count[4], 1000 * s[1] / count[1], 1000 * s[3] / count[2],
          1000 * s[4] / count[3], 1000 * s[5] / count[4]
      }' <<<"$counts" | while read -r forwards inputs weights pairs f i w fb; do
      echo "$rank $forwards $inputs $weights $pairs $f $i $w $fb" \
        "$(dualpipe_step "$rank" "$ranks" "$microbatches" "$f" "$i" "$w" "$fb" 0)" \
        "$(dualpipe_step "$rank" "$ranks" "$microbatches" "$f" "$i" "$w" "$fb" "$send")"
    done
  done | awk -v name="$name" -v ranks="$ranks" -v published="$published" -v step="$step" -v send="$send" '
    function row(label, value, i) {
      printf "  %-34s %9s", label, value
      for (i = 1; i <= n; ++i) printf "  %18s", cell[i]
      print ""
    }
    function against(value, measured) { return sprintf("%.2f (%+.1f %%)", value, 100 * (value / measured - 1)) }
    { ++n; split($0, of, " "); for (c = 1; c <= 13; ++c) v[n, c] = of[c] }
    END {
      split(published, s, " ")
      print ""
      for (i = 1; i <= n; ++i) cell[i] = v[i, 1] == "mean" ? "mean of ranks" : "rank " v[i, 1]
      row(name ", if the table shows", "published")
      for (i = 1; i <= n; ++i) cell[i] = sprintf("%.3g/%.3g/%.3g/%.3g", v[i, 2], v[i, 3], v[i, 4], v[i, 5])
      row("passes: F, I, W alone, pairs", "")
      for (i = 1; i <= n; ++i) cell[i] = sprintf("%.0f/%.0f/%.0f/%.0f", v[i, 6], v[i, 7], v[i, 8], v[i, 9])
      row("so one takes, ms", "")
      split("1F 1B 1W 1F1B", kind, " "); split("1 3 4 5", at, " ")
      for (k = 1; k <= 4; ++k) {
        for (i = 1; i <= n; ++i) cell[i] = sprintf("%.2f", v[i, k + 1] * v[i, k + 5] / 1000)
        row(kind[k] " s (passes x their time)", s[at[k]])
      }
      for (i = 1; i <= n; ++i) cell[i] = against((ranks / 2 - 1) * (v[i, 9] + v[i, 7] - 2 * v[i, 8]) / 1000, s[2])
      row("bubble s, (p/2 - 1)(FB + B - 3 W)", s[2])
      for (i = 1; i <= n; ++i) cell[i] = against(v[i, 11], s[2])
      row("bubble s, sends free", s[2])
      for (i = 1; i <= n; ++i) cell[i] = against(v[i, 13], s[2])
      row(sprintf("bubble s, a send %.2f ms", send), s[2])
      for (i = 1; i <= n; ++i) cell[i] = sprintf("%.2f", s[6])
      row("optimizer s (given)", s[6])
      for (i = 1; i <= n; ++i) cell[i] = against(v[i, 10] + s[6], step)
      row("step s, sends free", step)
      for (i = 1; i <= n; ++i) cell[i] = against(v[i, 12] + s[6], step)
      row(sprintf("step s, a send %.2f ms", send), step)
    }'
}

deepseek() {
  cat <<'TEXT'
DeepSeek-V3 on 2,048 H800, one step: published, and DualPipe's with the same passes.
Rank r of p = 16 with m = 120, h = min(r, 15 - r): 23 - h forwards run alone, 8 full backwards, 15 - h input and 15 - h weight
passes, and 97 + h pairs (the middle ranks begin with one pair as two passes).
The table's 1B is input backward time, its 1W weight backward time, so a full backward is one of each: 23 - h of every kind. Their sums give
the time of one; 1F, 1B, 1W and 1F1B therefore hold by construction, bubble and step are what the schedule says. The six rows sum to the
step, so they are one rank's or the mean's; which is not printed. Gradient reduction and stages that are not alike have no row: what they
cost is in the published bubble or nowhere. The formula is DualPipe's own (V3 report, table 2), exact where F = I >= W.
TEXT
  while IFS=, read -r -a of; do
    deepseek_network "${of[@]}"
  done < <(facts deepseek_v3_step.csv)
}

# (b) ------------------------------------------------------------------------------------------------------------------------------
# ranks microbatches F I W T_comm -> ZB-2p as the CSV of torch.distributed.pipelining. The paper searches it; this is its ZB-H2 with the
# numbers that hold for any pass times. Rank r is idle for (p - 1 - r)(F + I + 2 T_comm) between its first forward and its first backward:
# as many more forwards fit there. Behind its last backward it waits r (F + I + 2 T_comm) for the rank that started last: as many weight
# passes fit there, so many are held back from the start. Then I, W, F.
zb_2p() {
  awk -v p="$1" -v m="$2" -v f="$3" -v i="$4" -v w="$5" -v c="$6" 'BEGIN {
    for (r = 0; r < p; ++r) {
      ahead = int(1 + (p - 1 - r) * (f + i + 2 * c) / f); if (ahead > m) ahead = m
      held = int(r * (f + i + 2 * c) / w)
      forwards = weights = 0; line = ""
      for (; forwards < ahead; ++forwards) line = line "," r "F" forwards
      for (k = 0; k < m; ++k) {
        line = line "," r "I" k
        if (k >= held) line = line "," r "W" weights++
        if (forwards < m) line = line "," r "F" forwards++
      }
      while (weights < m) line = line "," r "W" weights++
      print substr(line, 2)
    }
  }'
}

# A CSV on standard input -> most memory of a rank, in p M_B: an activation is M_B from F to I and M_W = share x M_B from I to W.
peak_of() {
  awk -F, -v share="$1" '{
    live = 0
    for (n = 1; n <= NF; ++n) {
      live += ($n ~ /F/) ? 1 : ($n ~ /I/) ? share - 1 : -share
      if (live > peak) peak = live
    }
  } END { printf "%.3f", peak / NR }'
}

# schedule ranks microbatches stages-per-rank F I W communication, ms -> time of a step, ms. ZB runs without a barrier between steps: its
# period is the longest time from a rank's first pass to its last. 1F1B ends in one.
period() {
  local schedule=$1 ranks=$2 microbatches=$3 stages=$4
  local -a name=(--ranks "$ranks" --microbatches "$microbatches" --schedule)
  case "$schedule" in
    1F1B) name+=(1f1b) ;;
    1F1B-interleaved) name+=(interleaved_1f1b --virtual "$stages") ;;
    ZB-1p) name+=(zb_auto --memory-limit "$ranks") ;;
    ZB-2p) name=(--schedule "$scratch/zb_2p.csv") ;;
    *) echo "schedules-vs-measured.sh: unknown schedule '$schedule'" >&2; return 1 ;;
  esac
  "$simrun" "${name[@]}" --costs "F=$5,I=$6,W=$7" --comm "$8" --json |
    awk -v of_span="$([[ $schedule == ZB-* ]] && echo 1 || echo 0)" '
      function list(line) { sub(/^[^[]*\[/, "", line); sub(/\].*$/, "", line); return line }
      $1 == "\"makespan\":" { makespan = $2 + 0 }
      $1 == "\"idle\":" { ranks = split(list($0), idle, ", ") }
      $1 == "\"span_idle\":" { split(list($0), gaps, ", ") }
      END {
        for (r = 1; r <= ranks; ++r) { span = makespan - idle[r] + gaps[r]; if (span > longest) longest = span }
        print of_span ? longest : makespan
      }'
}

# One line per row of table 4: its columns, the passes of a microbatch and its transfers in ms, the step's time in ms with sends beside
# the passes and with sends that passes wait for, the paper's bubble rate, ZB-2p's memory in p M_B. The profile is that of the same model at the same number of
# microbatches, or the nearest below (else the first).
zero_bubble_rows() {
  local id model slots ranks batch microbatches schedule samples f i w c share stages beside waiting paper memory
  while IFS=, read -r id model slots ranks batch microbatches schedule samples; do
    stages=1
    if [ "$schedule" = 1F1B-interleaved ]; then stages=$((slots / ranks)); fi
    # share: M_W / M_B = 32 s b h / (s b (34 h + 5 a s)) by the paper's table 1, for its sequences of 1,024.
    read -r f i w c share < <(facts zero_bubble_table6.csv | awk -F, -v model="$model" -v m="$microbatches" -v v="$stages" '
      $2 == model && (best == "" || $3 + 0 <= m + 0) {
        best = sprintf("%.6f %.6f %.6f %s %.6f", $4 / v, $5 / v, $6 / v, $7, 32 / (34 + 5 * $9 * 1024 / $8))
      }
      END { print best }')
    memory=0
    if [ "$schedule" = ZB-2p ]; then
      zb_2p "$ranks" "$microbatches" "$f" "$i" "$w" "$c" >"$scratch/zb_2p.csv"
      memory=$(peak_of "$share" <"$scratch/zb_2p.csv")
    fi
    beside=$(period "$schedule" "$ranks" "$microbatches" "$stages" "$f" "$i" "$w" "$c")
    waiting=$beside
    if [[ $schedule != ZB-* ]]; then
      read -r slow_f slow_i < <(awk -v f="$f" -v i="$i" -v c="$c" 'BEGIN { printf "%.6f %.6f\n", f + c, i + c }')
      waiting=$(period "$schedule" "$ranks" "$microbatches" "$stages" "$slow_f" "$slow_i" "$w" 0)
    fi
    paper=$(facts zero_bubble_table5.csv | awk -F, -v model="$model" -v m="$microbatches" -v s="$schedule" '
      BEGIN { column["1F1B"] = 4; column["1F1B-interleaved"] = 5; column["ZB-1p"] = 6; column["ZB-2p"] = 7 }
      $1 == model && $3 == m { print $column[s] }')
    awk -v f="$f" -v i="$i" -v w="$w" -v c="$c" -v v="$stages" -v head="$id $model $ranks $batch $microbatches $schedule $samples" \
      -v tail="$beside $waiting $paper $memory" 'BEGIN { print head, v * (f + i + w), 2 * v * c, tail }'
  done < <(facts zero_bubble_table4.csv)
}

zero_bubble() {
  cat <<'TEXT'
Zero Bubble (Qi et al. 2024), tables 4, 5 and 6: bubble rate and samples per GPU and second from the profiled T_F, T_B, T_W, T_comm.
bubble     the program's, and the paper's own calculation (table 5: no measurement in it). =: equal in its four digits. 1.5B with 64 and 6.2B
           with 32 microbatches take the profile of fewer here; 1F1B-I has p T_comm less in the paper; ZB-2p is the paper's search, and
           here its ZB-H2 fitted to the pass times, within the same memory
sends      2 T_comm for each stage of a rank, of a microbatch's passes: what all transfers come to if none is hidden
profiled   samples if a step were the profiled passes in this order, and no more. Megatron-LM's 1F1B and 1F1B-I wait for each transfer
           (batch_isend_irecv, wait, synchronize: T_comm then belongs to every F and B); ZB's run beside the passes
extra      (measured step - that step) / microbatches, ms: what a microbatch takes beyond the profile
with extra samples if every microbatch takes the model's extra on the busiest rank: m of it, whatever the schedule, and no bubble longer.
           It comes from one row per model (*), 1F1B with the most microbatches: the paper's baseline, whose table it also estimates
           its upper bound from
only schedule  yes: sends are below 3 % of the passes, so that no way of hiding them could move the row by more
TEXT
  echo "row      model      ranks  microb.  schedule          bubble (paper)    sends  measured  profiled   error  extra  with extra   error  only schedule"
  zero_bubble_rows | awk '
    {
      line[NR] = $0; steps[NR] = 1000 * $5 * $4 / ($3 * $7); extra[NR] = (steps[NR] - $11) / $5
      if ($6 == "1F1B" && $5 > most[$2]) { most[$2] = $5; of_model[$2] = extra[NR]; anchor[$2] = NR }
    }
    function near(error) { return error < 3 && error > -3 }
    END {
      for (i = 1; i <= NR; ++i) {
        split(line[i], of, " ")
        per = 1000 * of[5] * of[4] / of[3]
        raw = 100 * (steps[i] / of[11] - 1)
        with = of[11] + of[5] * of_model[of[2]]
        error = 100 * (steps[i] / with - 1)
        bubble = 1 - of[5] * of[8] / of[10]
        only = of[9] < 0.03 * of[8]
        same = bubble - of[12] < 0.00006 && of[12] - bubble < 0.00006
        if (of[13] > memory) memory = of[13]
        ++bubbles[of[6]]; same_bubbles[of[6]] += same
        if (i != anchor[of[2]]) { ++rows[only]; raw_near[only] += near(raw); all_near[only] += near(error) }
        printf "%-8s %-10s %5d  %7d  %-16s  %.4f (%.4f)%s  %4.1f %%  %8.2f  %8.2f  %+5.1f %%  %5.2f  %10.2f  %+5.1f %%  %s%s\n", of[1], of[2],
          of[3], of[5], of[6], bubble, of[12], same ? " =" : "  ", 100 * of[9] / of[8], of[7], per / of[11], raw, extra[i], per / with, error,
          only ? "yes" : "no", i == anchor[of[2]] ? " *" : ""
      }
      printf "where only the schedule matters: %d of %d rows within 3 %% with extra, %d as profiled (rows marked * not counted)\n", all_near[1], rows[1],
        raw_near[1]
      printf "other rows:                      %d of %d rows within 3 %% with extra, %d as profiled\n", all_near[0], rows[0], raw_near[0]
      printf "bubble rates equal to the paper'"'"'s four digits:"
      n = split("1F1B 1F1B-interleaved ZB-1p ZB-2p", order, " ")
      for (k = 1; k <= n; ++k) printf "%s %s %d of %d", (k > 1 ? "," : ""), order[k], same_bubbles[order[k]], bubbles[order[k]]
      printf "\nZB-2p needs at most %.2f p M_B (the paper: 2): an activation is M_B from F to I and, by the paper'"'"'s table 1, M_W = 0.37 to 0.43 M_B from I to W\n", memory
    }'
}

deepseek
echo
zero_bubble
