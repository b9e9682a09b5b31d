#!/usr/bin/env bash
# Checks the page's TypeScript: types, unit tests (tests/page), and that the committed visualizer/dist/viewer.html is what
# `npm run build` makes of visualizer/src. Exits with 77 (ctest: skipped) without node, npm or a registry that answers.
# Works on a copy in build/page, so the tree stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() { echo "page.sh: skipped: $1" >&2; exit 77; }
command -v node >/dev/null || skip "no node"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ] || skip "node $(node --version) is older than 18"
command -v npm >/dev/null || skip "no npm"

copy=build/page
mkdir -p "$copy/visualizer" "$copy/tests"
rm -rf "$copy/visualizer/src" "$copy/visualizer/dist" "$copy/tests/page"
for entry in visualizer/*; do
  if [ "$entry" != visualizer/node_modules ]; then cp -R "$entry" "$copy/visualizer/"; fi
done
if [ -d tests/page ]; then cp -R tests/page "$copy/tests/"; fi
# A real page for the browser tests, which skip themselves without it or without Chromium.
for simrun in build/release/simrun build/dev/simrun; do
  if [ -x "$simrun" ] && "$simrun" configs/jobs/llama3-70b-64xh100.yaml -q --html "$copy/page.html"; then
    export SIMRUN_PAGE=$PWD/$copy/page.html
    break
  fi
done
cd "$copy/visualizer"

# Fresh packages only when the lock file changed.
if ! cmp -s package-lock.json node_modules/.installed-lock; then
  timeout 120 npm ci --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000 >npm.log 2>&1 ||
    { tail -n 5 npm.log >&2; skip "npm ci did not succeed (no registry?)"; }
  cp package-lock.json node_modules/.installed-lock
fi

npm run --silent check
if compgen -G '../tests/page/*.test.mjs' >/dev/null; then npm test --silent; fi

cp dist/viewer.html committed.html
npm run --silent build
if ! cmp committed.html dist/viewer.html; then
  echo "page.sh: visualizer/dist/viewer.html is not what its sources give; run 'npm ci && npm run build' in visualizer/" >&2
  exit 1
fi
