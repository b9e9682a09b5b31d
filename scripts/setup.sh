#!/usr/bin/env bash
# Installs what is missing of Debian 12's packages for the named purposes; does nothing if all is there.
#
#   scripts/setup.sh [run] [test] [lint] [fuzz] [page]      (default: run)
#
# Works as root or as a user with sudo. On a machine without dpkg it names the packages and leaves the rest to CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=()
optional=()  # without, something is slower or left out
for purpose in "${@:-run}"; do
  case "$purpose" in
    run)
      packages+=(g++ cmake ninja-build protobuf-compiler libprotobuf-dev libyaml-cpp-dev libcli11-dev libfmt-dev zlib1g-dev
        libsimgrid-dev libeigen3-dev)
      optional+=(libjemalloc-dev libcpp-httplib-dev pkg-config) ;;
    test)
      packages+=(clang-14 libclang-rt-14-dev llvm-14 lld)               # the sanitized build; llvm-symbolizer names its stacks
      packages+=(catch2 nlohmann-json3-dev libopenmpi-dev openmpi-bin)  # MPI: without, its plugin and tests are left out
      packages+=(coinor-libcbc-dev)                                     # without, no plan is held against CBC's
      if grep -q 'find_package(benchmark' bench/CMakeLists.txt 2>/dev/null; then packages+=(libbenchmark-dev); fi ;;
    lint) packages+=(clang-14 clang-format-14 clang-tidy-14) ;;
    fuzz) packages+=(clang-14 libclang-rt-14-dev llvm-14) ;;
    page) packages+=(chromium nodejs) ;;
    *) echo "setup.sh: unknown purpose '$purpose'; there are: run test lint fuzz page" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh: no apt here; simrun needs the equivalents of these Debian 12 packages: ${packages[*]}; better also of: ${optional[*]}" >&2
  exit 0
fi

absent() {
  local package status
  for package in "$@"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    if [ "$status" != installed ]; then echo "$package"; fi
  done
}
mapfile -t needed < <(absent "${packages[@]}")
mapfile -t missing < <(absent "${packages[@]}" "${optional[@]}")
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "setup.sh: these packages are missing: ${missing[*]}" >&2
  echo "  This user is not root and there is no sudo. Have an administrator run: apt-get install ${missing[*]}" >&2
  if [ ${#needed[@]} -eq 0 ]; then
    echo "  simrun goes without them: slower, or with less." >&2
    exit 0
  fi
  exit 1
fi

echo "setup: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
