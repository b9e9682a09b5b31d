#!/usr/bin/env bash
# docs/schedules.md, every schedule side by side, from what the program prints:
#
#   scripts/schedules-doc.sh            writes it
#   scripts/schedules-doc.sh --check    fails if it is not what the program prints today
#
# SIMRUN names another program than build/release/simrun.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
document=$root/docs/schedules.md
sizes=(--ranks 4 --microbatches 8)
if [ ! -x "$simrun" ]; then
  echo "schedules-doc.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# name|paper: where the order of passes is from.
sources() {
  cat <<'TEXT'
gpipe|Huang et al. 2019, [GPipe](https://arxiv.org/abs/1811.06965); backwards in PyTorch's order
1f1b|PipeDream-Flush, Narayanan et al. 2021, [Megatron-LM](https://arxiv.org/abs/2104.04473)
bpipe|Kim et al. 2023, BPipe (ICML), studied in [arXiv 2401.02088](https://arxiv.org/abs/2401.02088)
pipedream|Narayanan et al. 2019, PipeDream (SOSP); [Harlap et al. 2018](https://arxiv.org/abs/1806.03377)
seq1f1b|Sun et al. 2024, [Seq1F1B](https://arxiv.org/abs/2406.03488)
zb_h1|Qi et al. 2024, [Zero Bubble](https://arxiv.org/abs/2401.10241)
zb_h2|Qi et al. 2024, [Zero Bubble](https://arxiv.org/abs/2401.10241)
zb_auto|Qi et al. 2024, [Zero Bubble](https://arxiv.org/abs/2401.10241); searched by this program
interleaved_1f1b|Narayanan et al. 2021, [Megatron-LM](https://arxiv.org/abs/2104.04473)
interleaved_1f1b_overlap|Megatron-LM, `overlap_moe_expert_parallel_comm`
looped_bfs|Lamy-Poirier 2022, [Breadth-first pipeline parallelism](https://arxiv.org/abs/2211.05953)
interleaved_zb|Qi et al. 2024, [Zero Bubble](https://arxiv.org/abs/2401.10241), over virtual stages as PyTorch has it
grouped_interleaved_1f1b|Wan et al. 2025, [PipeOffload](https://arxiv.org/abs/2503.01328)
zb_v|Qi et al. 2024, [Zero Bubble](https://arxiv.org/abs/2401.10241), section 6
hanayo|Liu et al. 2023, [Hanayo](https://arxiv.org/abs/2308.15762)
dualpipe|DeepSeek-AI 2024, [DeepSeek-V3](https://arxiv.org/abs/2412.19437)
dualpipe_v|DeepSeek's DualPipe repository, after the "cut in half" of Sea AI Lab
chimera|Li and Hoefler 2021, [Chimera](https://arxiv.org/abs/2107.06925), direct concatenation
v_half|Qi et al. 2024, [Controllable memory](https://arxiv.org/abs/2405.15362)
v_min|Qi et al. 2024, [Controllable memory](https://arxiv.org/abs/2405.15362)
v_auto|Qi et al. 2024, [Controllable memory](https://arxiv.org/abs/2405.15362); searched by this program
auto|this program's own search
TEXT
}

introduction() {
  cat <<'TEXT'
# Every schedule, side by side

4 pipeline ranks, 8 microbatches, F = I = W = 1, B = 2, an overlapped pair 3, communication free. Written by `scripts/schedules-doc.sh`
from what the program prints; a test compares the two.

- **bubble**: idle time of all ranks / (ranks x makespan), in a step whose ranks end together; **span idle**: the most that a rank idles
  between its first and its last pass, what is left if the next step may start rank by rank.
- **in flight**: most activations of one stage and microbatch alive at once on a rank, from F to W; **memory**: the same as a multiple of
  what all stages of a rank keep for one microbatch. **copies**: ranks that hold each stage's weights.
- **transfers**: results that a microbatch hands to another rank, forward and backward.

Costs are per pass of a stage: where a rank has two stages a pass is half as much of the model, so compare bubbles, not makespans.

| schedule | stages/rank | bubble | makespan | span idle | in flight | memory | copies | transfers | source |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
TEXT
}

# The table as the program prints it, best first, with the sources.
table() {
  awk -F'|' 'NR == FNR { source[$1] = $2; next }
    FNR == 1 { next }
    /^idle: / { exit }
    {
      split($0, of, " +")
      if (!(of[1] in source)) { print "schedules-doc.sh: no source for " of[1] > "/dev/stderr"; exit 1 }
      printf "| [%s](#%s) | %s | %s %% | %s | %s | %s | %g | %s | %s | %s |\n", of[1], of[1], of[2], of[3], of[5], of[7], of[8], of[9], of[10],
        of[11], source[of[1]]
    }' <(sources) "$scratch/table"
}

# A heading, what it is in a line, and what the program prints.
section() {
  local name=$1
  local -a more=()
  if [ "$name" = seq1f1b ]; then more=(--slices 2); fi  # one slice is 1f1b
  printf '\n## %s\n\n' "$name"
  sed -n "s|.*<section id=\"$name\"><h2>.*</h2><p>\\([^<]*\\)</p>.*|\\1.|p" "$scratch/gallery.html"
  if [ "$name" = seq1f1b ]; then echo "The table's row has one slice, which is 1f1b; here it has two, and a pass is of a slice."; fi
  printf '\n```\n$ simrun --schedule %s\n' "$name ${sizes[*]}${more:+ ${more[*]}}"
  "$simrun" --schedule "$name" "${sizes[@]}" "${more[@]}" --no-html --color never
  printf '```\n'
}

"$simrun" --schedule all "${sizes[@]}" --html "$scratch/gallery.html" >"$scratch/table"
{
  introduction
  table
  echo
  grep '^refused: ' "$scratch/table" | sed 's/^refused: \([^:]*\): /Refused at these sizes: `\1`: /' || true
  for name in $(awk 'NR == 1 { next } /^idle: / { exit } { print $1 }' "$scratch/table"); do section "$name"; done
} | sed 's/ *$//' | cat -s >"$scratch/schedules.md"

if [ "${1:-}" != --check ]; then
  mkdir -p "$(dirname "$document")"
  cp "$scratch/schedules.md" "$document"
  echo "wrote $document"
elif ! diff -u "$document" "$scratch/schedules.md"; then
  echo "schedules-doc.sh: docs/schedules.md is not what the program prints; scripts/schedules-doc.sh writes it" >&2
  exit 1
fi
