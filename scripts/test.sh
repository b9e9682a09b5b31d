#!/usr/bin/env bash
# Builds everything and runs all tests; ctest's summary comes last.
#
#   scripts/test.sh [--lint] [--fuzz] [--page] [--ci]
#
#   --lint   also clang-tidy over what the last commits changed (scripts/lint.sh tidy: over every file)
#   --fuzz   also the fuzz targets, 6 seconds each (clang)
#   --page   install Chromium and node, so that the pages are checked in it; without, they are if both are there
#   --ci     all of them, and warnings are errors; without debug information in the sanitized build: stacks name functions, not lines, and
#            it compiles in a fifth less
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lint=OFF
fuzz=OFF
page=OFF
symbols=()
warnings=OFF
for argument in "$@"; do
  case "$argument" in
    --lint) lint=ON ;;
    --fuzz) fuzz=ON ;;
    --page) page=ON ;;
    --ci) lint=ON fuzz=ON page=ON warnings=ON symbols=(-DCMAKE_CXX_FLAGS_DEBUG=-g0) ;;
    *) echo "test.sh: unknown option '$argument'; there are: --lint --fuzz --page --ci" >&2; exit 2 ;;
  esac
done

purposes=(run test)
if [ $lint = ON ]; then purposes+=(lint); fi
if [ $fuzz = ON ]; then purposes+=(fuzz); fi
# A browser is not needed before the tests: unpacked beside the builds, where no password need be asked for.
beside_builds=OFF
if [ $page = ON ] && [ "$(id -u)" -eq 0 ]; then beside_builds=ON; fi
if [ $page = ON ] && [ $beside_builds = OFF ]; then purposes+=(page); fi
scripts/setup.sh "${purposes[@]}"
mkdir -p build/tests
setting_up=
if [ $beside_builds = ON ]; then
  scripts/setup.sh page >build/tests/page-setup.log 2>&1 &
  setting_up=$!
  trap 'wait' EXIT  # the next run would find apt's lock taken
fi

if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=pch_defines,time_macros; fi

# dev: Debug with the address and undefined-behaviour sanitizers, all tests but the long ones, built with clang, which takes half of
# GCC's time for it and, told to inline little (its threshold of 225 is for code that stays as fast as it can), a fifth less. release: what users run, built with GCC, with the long tests, whole programs, the CUDA plugin, and ranks as
# threads under the thread sanitizer.
# SIMRUN_LINT and SIMRUN_FUZZ_TESTS add those checks to dev's list of tests; with SIMRUN_PAGE_REQUIRED release's check of the pages
# may not be skipped.
# CMake forgets half of a preset where the build folder's compiler was another.
if [ -e build/dev/CMakeCache.txt ] && ! grep -q '^CMAKE_CXX_COMPILER:.*clang' build/dev/CMakeCache.txt; then rm -rf build/dev; fi
cmake --preset dev -DSIMRUN_TESTS=ON -DSIMRUN_CUDA=OFF -DSIMRUN_LINT=$lint -DSIMRUN_FUZZ_TESTS=$fuzz -DCMAKE_COMPILE_WARNING_AS_ERROR=$warnings \
  "${symbols[@]}"
cmake --preset release -DSIMRUN_TESTS=ON -DSIMRUN_BENCH=ON -DSIMRUN_PAGE_REQUIRED=$page -DSIMRUN_LONG_TESTS_ONLY=ON \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=$warnings
# clang takes a sixth less time with its memory from jemalloc; GCC, whose precompiled headers have fixed addresses, more.
jemalloc=$(clang++-14 -print-file-name=libjemalloc.so 2>/dev/null || true)
if [ -f "$jemalloc" ]; then
  LD_PRELOAD=$jemalloc MALLOC_CONF=thp:always,narenas:1 cmake --build --preset dev -j "$(nproc)"
else
  cmake --build --preset dev -j "$(nproc)"
fi
cmake --build --preset release -j "$(nproc)"
if [ -n "$setting_up" ] && ! wait "$setting_up"; then
  cat build/tests/page-setup.log >&2
  exit 1
fi

# Of an allocation only who called, which takes no walk over the stack, and no more freed memory kept aside than stays in a cache:
# a third of the sanitized tests' time. With fewer than two frames leaks would not be reported at all. Whoever looks for the allocation
# behind a report runs that test with ASAN_OPTIONS=malloc_context_size=10.
export ASAN_OPTIONS="${ASAN_OPTIONS:-malloc_context_size=2:quarantine_size_mb=2:thread_local_quarantine_size_kb=64}"

# One list of tests over all builds, so that one summary covers everything. Alone none takes a quarter of the time limit: on a busy machine
# they take three times as long. One more at a time than there are processors: some wait for a browser, for a deadline or for other
# processes.
printf 'subdirs("%s" "%s")\n' "$PWD/build/dev" "$PWD/build/release" >build/tests/CTestTestfile.cmake
exec ctest --test-dir build/tests -j "$(($(nproc) + 1))" --timeout 900 --output-on-failure --no-label-summary --no-tests=error
