#!/usr/bin/env bash
# Checks the C++ sources: scripts/lint.sh format | tidy [COMMITS]. Exits with 77 (ctest: skipped) where the tool is missing.
#
#   format   clang-format 14 would change nothing (`scripts/lint.sh fix` applies it)
#   tidy     clang-tidy 14 finds nothing (.clang-tidy) in any source file, or in those that the last COMMITS commits (merges as one) and
#            the working tree changed: clang-tidy takes seconds for a file. Needs a configured build/dev
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=${1:-format}

sources() {  # $@: name patterns
  local names=() folders=() folder
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  for folder in configs models schedules traces sim validation backend planner visualizer cli tests bench; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
  done
  find "${folders[@]}" -name node_modules -prune -o -type f '(' "${names[@]:1}" ')' -print0 | sort -z
}
need() {
  if ! command -v "$1" >/dev/null; then
    echo "lint.sh: $1 is missing; scripts/setup.sh lint installs it" >&2
    exit 77
  fi
}

case "$check" in
  format)
    need clang-format-14
    unformatted=$(sources '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 -r clang-format-14 --dry-run 2>&1 |
      sed -n 's/:[0-9]*:[0-9]*: warning: code should be clang-formatted.*//p' | sort -u)
    if [ -n "$unformatted" ]; then
      printf 'not formatted; scripts/lint.sh fix would change:\n%s\n' "$unformatted" >&2
      exit 1
    fi
    ;;
  fix)
    need clang-format-14
    sources '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 -r clang-format-14 -i
    ;;
  tidy)
    need clang-tidy-14
    need clang++-14
    if [ ! -e build/dev/compile_commands.json ]; then
      echo "lint.sh: run 'cmake --preset dev' and build first: clang-tidy reads build/dev/compile_commands.json" >&2
      exit 1
    fi
    # Each file by itself, and without precompiled headers, so that it includes what it uses; generated headers are build/dev's.
    cmake --fresh --preset dev -B build/tidy -DSIMRUN_TESTS=OFF -DSIMRUN_CUDA=OFF -DSIMRUN_UNITY=OFF -DSIMRUN_PRECOMPILE=OFF >build/tidy.log ||
      { cat build/tidy.log >&2; exit 1; }
    sed -i "s#$PWD/build/tidy#$PWD/build/dev#g" build/tidy/compile_commands.json
    # Tests are not checked: Catch2's macros trip half of the rules. The analyzer follows each function's paths for 10,000 nodes
    # instead of 225,000, which takes a fraction of the time.
    changed=
    if [ -n "${2:-}" ] && since=$(git rev-list --first-parent -n 1 --skip="$2" HEAD 2>/dev/null) && [ -n "$since" ]; then
      changed=$(git diff --name-only "$since")
    fi
    # Plugins whose library is missing here are not built, and not checked.
    sources '*.cpp' | grep -zv -e '^tests/' -e '^bench/' |
      while IFS= read -r -d '' file; do
        if [ -n "$changed" ] && ! grep -qxF "$file" <<<"$changed"; then continue; fi
        if grep -qF "\"file\": \"$PWD/$file\"" build/tidy/compile_commands.json; then printf '%s\0' "$file"; fi
      done |
      xargs -0 -r -n 1 -P "$(nproc)" clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=10000
    ;;
  *) echo "usage: scripts/lint.sh format|fix|tidy [COMMITS]" >&2; exit 2 ;;
esac
