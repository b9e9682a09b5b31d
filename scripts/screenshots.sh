#!/usr/bin/env bash
# The pictures of README.md, taken in Chromium from pages of jobs in configs/jobs.
#
#   scripts/screenshots.sh [FOLDER]     into FOLDER, default docs
#
# Needs node 18, Chromium and a built simrun ($SIMRUN, default build/release/simrun). Exits with 2 where one of them is missing; then,
# and where a picture fails, those that are there stay as they are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-docs}
simrun=${SIMRUN:-build/release/simrun}

stop() {
  echo "screenshots.sh: $1" >&2
  exit 2
}
command -v node >/dev/null || stop "no node; scripts/setup.sh page installs it"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
  stop "no chromium; scripts/setup.sh page installs it"
[ -x "$simrun" ] || stop "$simrun is missing; scripts/run.sh builds it"
[ -d "$out" ] || stop "$out is not a folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for job in llama3-70b-64xh100 tiny-4xa100; do
  "$simrun" configs/jobs/$job.yaml -q --html "$work/$job.html"
done
node tests/page/screenshots.mjs "$work"
mv "$work"/*.png "$out/"
ls -l "$out"/page-*.png
