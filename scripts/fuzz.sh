#!/usr/bin/env bash
# Builds the fuzz targets (clang, libFuzzer, sanitizers) and runs each, starting from the presets in configs/.
#
#   scripts/fuzz.sh [SECONDS [BUILD]]      per target; default 30
#
# BUILD: a folder where they are built already (by CMake with SIMRUN_FUZZ_TESTS), less thoroughly instrumented.
# A crash leaves its input in build/fuzz/crashes/ and fails. Exits with 77 (ctest: skipped) without clang 14.
set -euo pipefail
seconds=${1:-30}
build=${2:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

if ! command -v clang++-14 >/dev/null; then
  echo "fuzz.sh: clang++-14 is missing; scripts/setup.sh fuzz installs it" >&2
  exit 77
fi
if [ -z "$build" ]; then
  build=build/fuzz
  if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=pch_defines,time_macros; fi
  cmake --preset fuzz
  cmake --build --preset fuzz --target fuzz_targets -j "$(nproc)"
fi

mkdir -p build/fuzz/crashes
rm -rf build/fuzz/seeds
mkdir -p build/fuzz/seeds/scripts build/fuzz/seeds/jobs build/fuzz/seeds/plans build/fuzz/seeds/schedules build/fuzz/seeds/traces
cp tests/data/traces/* build/fuzz/seeds/traces
printf 'TP=2\nA=(--num-layers 4 --hidden-size 64 --bf16)\nif [[ $TP == 2 ]]; then A+=(--tensor-model-parallel-size $TP); fi\ntorchrun --nnodes ${N:-1} p.py "${A[@]}" --lr $((1+2))\n' \
  >build/fuzz/seeds/scripts/run.sh
printf 'MODEL_ARGS:\n  --num-layers: 4\n  --bf16: true\n' >build/fuzz/seeds/scripts/model_config.yaml
printf '{"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}' >build/fuzz/seeds/scripts/ds.json
printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >build/fuzz/seeds/schedules/1f1b.csv
printf '0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1B0\n' >build/fuzz/seeds/schedules/v.csv
printf '0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1\n1F0,0F0,(1F1;0B0)OVERLAP_F_B,0F1,1B0,0B1,1B1\n' >build/fuzz/seeds/schedules/both.csv
printf '0F0s0,0F0s1,0B0s1,0B0s0,0SEND_F0\n' >build/fuzz/seeds/schedules/slices.csv
find configs -name '*.yaml' -exec cp -t build/fuzz/seeds/jobs {} +
# Plans as seeds for the reader of plan files, if a simrun is built.
for simrun in build/release/simrun build/dev/simrun; do
  if [ -x "$simrun" ]; then
    for job in configs/jobs/*.yaml; do
      plan=build/fuzz/seeds/plans/$(basename "${job%.yaml}").plan
      "$simrun" "$job" --no-html --plan "$plan" >/dev/null 2>&1 || true
    done
    break
  fi
done

export SIMRUN_CONFIGS=$root/configs seconds
fuzz_one() {
  set -euo pipefail
  local target=$1 name seeds limits corpus
  name=$(basename "$target")
  case "$name" in
    *import*) seeds=build/fuzz/seeds/scripts limits=-max_len=4096 ;;
    *csv*) seeds=build/fuzz/seeds/schedules limits=-max_len=4096 ;;
    *trace*) seeds=build/fuzz/seeds/traces limits=-max_len=8192 ;;
    *plan*) seeds=build/fuzz/seeds/plans limits=-max_len=65536 ;;
    *) seeds=build/fuzz/seeds/jobs limits=-max_len=8192 ;;
  esac
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  echo "== $name, $seconds s"
  "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 "$limits" -print_final_stats=1 \
    -artifact_prefix=build/fuzz/crashes/"$name"- "$corpus" "$seeds" 2>&1 | tail -n 30
}
export -f fuzz_one

targets=()
for target in "$build"/tests/fuzz/fuzz_*; do
  if [ -f "$target" ] && [ -x "$target" ]; then targets+=("$target"); fi
done
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz.sh: no fuzz target was built" >&2
  exit 1
fi
printf '%s\0' "${targets[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
