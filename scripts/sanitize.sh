#!/usr/bin/env bash
# Builds Frit and its tests with the address and undefined-behaviour sanitizers, then with the thread sanitizer, and runs the
# tests under each. ./scripts/sanitize.sh asan (or tsan) does one of them; what follows goes to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh
presets=(asan tsan)
if [ $# -gt 0 ] && [[ $1 =~ ^(asan|tsan)$ ]]; then
  presets=("$1")
  shift
fi
# The sanitizers of older compilers cannot place their shadow memory when addresses are randomised too widely.
fixed=(setarch "$(uname -m)" -R)
"${fixed[@]}" true 2>/dev/null || fixed=()

status=0
for preset in "${presets[@]}"; do
  echo "== $preset =="
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -j "$(nproc)"
  "${fixed[@]}" ctest --preset "$preset" -j "$(nproc)" "$@" || status=$?
done
exit "$status"
