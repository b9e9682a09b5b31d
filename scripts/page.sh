#!/usr/bin/env bash
# Checks the page.
#
#   scripts/page.sh sources                 its TypeScript: types, unit tests (tests/page/*.test.mjs), and that the committed
#                                           visualizer/dist is what `npm run build` makes of visualizer/src.
#                                           Needs node 18, npm and a registry that answers
#   scripts/page.sh browser [--required]    the pages of all jobs in configs/jobs (written by $SIMRUN, default build/release/simrun
#                                           or build/dev/simrun), that of one with overlapped pairs, that of two compared, two
#                                           galleries of schedules, and those that $SIMRUN_PAGES names, in Chromium:
#                                           tests/page/chromium.mjs; and the page of `simrun --serve`:
#                                           tests/page/serve.mjs. Needs node 18 and Chromium, no package, no network
#
# Exits with 77 (ctest: skipped) where something needed is missing; with --required that is a failure. Works in build/page, so the
# tree stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=${1:-sources}
missing=77
if [ "${2:-}" = --required ]; then missing=1; fi

skip() {
  if [ $missing = 77 ]; then echo "page.sh: skipped: $1" >&2; else echo "page.sh: failed: $1" >&2; fi
  exit $missing
}
need_node() {
  command -v node >/dev/null || skip "no node; scripts/setup.sh page installs it"
  [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ] || skip "node $(node --version) is older than 18"
}

check_sources() {
  need_node
  command -v npm >/dev/null || skip "no npm"
  local copy=build/page
  mkdir -p $copy/visualizer $copy/tests
  rm -rf $copy/visualizer/src $copy/visualizer/dist $copy/tests/page
  for entry in visualizer/*; do
    if [ "$entry" != visualizer/node_modules ]; then cp -R "$entry" $copy/visualizer/; fi
  done
  cp -R tests/page $copy/tests/
  cd $copy/visualizer

  # Fresh packages only when the lock file changed.
  if ! cmp -s package-lock.json node_modules/.installed-lock; then
    timeout 120 npm ci --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000 >npm.log 2>&1 ||
      { tail -n 5 npm.log >&2; skip "npm ci did not succeed (no registry?)"; }
    cp package-lock.json node_modules/.installed-lock
  fi

  npm run --silent check
  npm test --silent
  rm -rf committed
  cp -R dist committed
  npm run --silent build
  for page in viewer estimator; do
    if ! cmp committed/$page.html dist/$page.html; then
      echo "page.sh: visualizer/dist/$page.html is not what its sources give; run 'npm ci && npm run build' in visualizer/" >&2
      exit 1
    fi
  done
}

# write_page JOB.yaml PAGE.html FLAG...: a job that does not fit (exit code 3) has a page as well.
write_page() {
  local job=$1 page=$2 code=0
  "$simrun" "$job" -q --html "$page" "${@:3}" || code=$?
  if [ $code != 0 ] && [ $code != 3 ]; then
    echo "page.sh: $simrun $job ${*:3} exits with $code" >&2
    exit 1
  fi
  pages+=("$page")
}

check_browser() {
  need_node
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    skip "no chromium; scripts/setup.sh page installs it"
  local simrun=${SIMRUN:-build/release/simrun} folder=build/page/pages pages=()
  if [ ! -x "$simrun" ]; then simrun=build/dev/simrun; fi
  [ -x "$simrun" ] || skip "no simrun; build it first"
  rm -rf $folder
  mkdir -p $folder
  for job in configs/jobs/*.yaml; do
    write_page "$job" "$folder/$(basename "$job" .yaml).html"
  done
  write_page configs/jobs/llama3-70b-64xh100.yaml $folder/dualpipe.html --set parallelism.pipeline_schedule=dualpipe \
    --set parallelism.virtual_pipeline_model_parallel_size=1
  "$simrun" configs/jobs/llama3-70b-64xh100.yaml configs/jobs/tiny-4xa100.yaml -q --html $folder/compared.html
  pages+=($folder/compared.html)
  "$simrun" --schedule all --ranks 4 --microbatches 8 -q --html $folder/schedules.gallery.html
  "$simrun" --schedule all --ranks 16 --microbatches 64 -q --html $folder/schedules-p16.gallery.html
  pages+=($folder/*.gallery.html)
  SIMRUN=$simrun node tests/page/serve.mjs
  # shellcheck disable=SC2086  # a list of paths
  exec node tests/page/chromium.mjs "${pages[@]}" ${SIMRUN_PAGES:-}
}

case "$check" in
  sources) check_sources ;;
  browser) check_browser ;;
  *) echo "usage: scripts/page.sh sources | browser [--required]" >&2; exit 2 ;;
esac
