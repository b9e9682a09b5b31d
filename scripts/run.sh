#!/usr/bin/env bash
# Builds simrun (installing what it needs) and simulates a job.
#
#   scripts/run.sh [CONFIG] [simrun options]      (default: configs/jobs/llama3-70b-64xh100.yaml)
#
# The page goes to build/out/NAME.html and the plan to build/out/NAME.plan, unless the options say otherwise.
# Exits with simrun's code: 0 ok, 2 wrong command line or config, 3 the job does not fit in memory, 1 a bug.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

config=$root/configs/jobs/llama3-70b-64xh100.yaml
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  config=$1
  shift
  if [ ! -e "$config" ] && [ -e "$root/$config" ]; then config=$root/$config; fi
fi

"$root/scripts/setup.sh" run

if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=pch_defines,time_macros; fi
build=$root/build/release
log=$build/build.log
mkdir -p "$build"
echo "building simrun (the first time takes some minutes) ..." >&2
# The tests share this build directory, so nothing is compiled twice; without them Catch2 is not needed.
configure=(cmake --preset release)
if [ ! -e "$build/build.ninja" ]; then configure+=(-DSIMRUN_TESTS=OFF -DSIMRUN_BENCH=OFF); fi
if ! (cd "$root" && "${configure[@]}" && cmake --build "$build" --target simrun -j "$(nproc)") >"$log" 2>&1; then
  cat "$log" >&2
  echo "run.sh: the build failed; its output is above and in $log" >&2
  exit 1
fi

# Without an option that chooses another output, write the page and the plan.
name=$(basename "$config")
name=${name%.yaml}
name=${name%.plan}
out=$root/build/out
outputs=(--html "$out/$name.html" --plan "$out/$name.plan")
for argument in "$@"; do
  case "$argument" in
    --html* | --no-html | --plan* | --check | --print-config | --print-schedule | --json | --help | -h | --version) outputs=() ;;
  esac
done
mkdir -p "$out"
rm -f "$out/$name.html"

code=0
"$build/simrun" "$config" "${outputs[@]}" "$@" || code=$?
if [ ${#outputs[@]} -gt 0 ] && [ -e "$out/$name.html" ]; then
  echo
  echo "The page: $out/$name.html   (open it in any browser; it needs no network)"
fi
exit "$code"
