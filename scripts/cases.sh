#!/usr/bin/env bash
# The numeric cases, passed and failed by class: runs the built test_cases_* programs and reads what each test case came to.
#   scripts/cases.sh [build folder]
set -euo pipefail
build=${1:-build}
names=(  # of the classes
  "A stale or over-narrow specialisation" "B wrong numbers" "C gradients" "D products and linear algebra" "E threads, processes, failures" "F random numbers" "G errors"
)
found=0
for program in "$build"/tests/test_cases_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  found=1
  "$program" -r xml || true  # a failed case is a result
done | awk -v classes="$(IFS='|'; echo "${names[*]}")" '
  /<TestCase / { name = $0; sub(/.*<TestCase name="/, "", name); sub(/".*/, "", name) }
  /<OverallResult / {
    good = index($0, "success=\"true\"") > 0
    rest = name
    while (match(rest, /[A-G][0-9][0-9]/)) {  # one test may stand for several cases, and a case for several tests
      id = substr(rest, RSTART, 3)
      rest = substr(rest, RSTART + 3)
      if (!(id in result)) result[id] = 1
      if (!good) result[id] = 0
    }
  }
  END {
    n = split(classes, list, "|")
    printf "%-45s %7s %7s\n", "class", "passed", "failed"
    for (i = 1; i <= n; ++i) {
      letter = substr(list[i], 1, 1); passed = failed = 0; bad = ""
      for (id in result) if (substr(id, 1, 1) == letter) { if (result[id]) ++passed; else { ++failed; bad = bad " " id } }
      printf "%-45s %7d %7d%s\n", list[i], passed, failed, bad
      total += passed; lost += failed
    }
    printf "%-45s %7d %7d\n", "all", total, lost
    exit lost > 0 || total == 0
  }'
