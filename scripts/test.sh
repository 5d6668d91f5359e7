#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Arguments go to ctest: ./scripts/test.sh -L runtime
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)"

status=0
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@" || status=$?

# ctest keeps what each program printed; Catch2's closing lines tell how many cases and checks there were.
log=build/Testing/Temporary/LastTest.log
passed=$(grep -c '^Test Passed\.$' "$log" || true)
failed=$(grep -cE '^Test (Failed|Not Run|Timeout)' "$log" || true)
awk '/^All tests passed \(/ { gsub(/[(]/, ""); checks += $4; cases += $7 }
     END { printf "%d test cases, %d checks in the programs that passed\n", cases, checks }' "$log"
if [ "$((passed + failed))" = 0 ]; then
  echo "no test was run" >&2
  exit 1
fi
echo "$passed passed, $failed failed"
exit "$status"
