#!/usr/bin/env bash
# Wrong input of every kind, given to the tool: a table of what it said, its exit code, and whether anything was lost. Fails when a message or a
# code is another than is stated here, when a file that was there before changed, or when something half made was left behind.
#   scripts/cli_wrong_inputs.sh [path of frit]          FRIT_CACHE_DIR: where compiled scripts are kept (default: a folder of its own)
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
frit=$(realpath "${1:-$here/build/frit}")
cases=$here/tests/cli/scripts/cases.cpp bodies=$here/tests/cli/scripts/bodies.cpp
work=$(mktemp -d /tmp/frit_wrong_XXXXXX)
full=$work/full
finish() {
  mountpoint -q "$full" && umount -l "$full"
  chmod -R u+rwX "$work" 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
export FRIT_CACHE_DIR=${FRIT_CACHE_DIR:-$work/cache} FRIT_CACHE=1 TMPDIR=$work/tmp
unset FRIT_MODE FRIT_BUCKETS FRIT_REPORT FRIT_THREADS
mkdir -p "$work"/{tmp,mine,full,closed}
cd "$work/mine"

# What is there before, and has to be there afterwards.
echo 'kept before' > policy.json && cp policy.json report.html && cp policy.json now.json && cp policy.json trace.json
printf '#include <frit/frit.h>\n\nint main() { return frit::tenzor(1); }\n' > bad.cpp
echo '#include <frit/frit.h>' > empty.cpp
echo '{"buckets": {"seq": "edges{3, 2}"}}' > edges.json
echo '{"buckets": {"se' > cut.json
cp "$cases" closed.cpp && chmod a-rwx closed.cpp
cp "$cases" mine.cpp && cp "$(dirname "$cases")/part.h" .
sums() { sha256sum ./*.json ./*.html bad.cpp empty.cpp mine.cpp; }
before=$(sums)

failed=0 number=0
declare -a rows
# wrong CODE PATTERN NAME COMMAND…   ("0": it runs all the same, with a note)
wrong() {
  local code=$1 pattern=$2 name=$3
  shift 3
  "$@" > "$work/out" 2> "$work/error"
  judge "$?" "$code" "$pattern" "$name"
}
judge() {
  local got=$1 code=$2 pattern=$3 name=$4 lost=nothing said
  number=$((number + 1))
  [ "$(sums)" = "$before" ] || lost='a file changed'
  [ -z "$(find "$work/mine" "$TMPDIR" \( -name '*.tmp-*' -o -name 'frit-*' \) -print -quit)" ] || lost='something half made is left'
  said=$(grep -a -m1 -E -- "$pattern" "$work/error" | sed "s|$work/mine/||g; s|$work/||g; s|$here/||g")
  if [ "$got" != "$code" ] || [ -z "$said" ] || [ "$lost" != nothing ]; then
    failed=$((failed + 1))
    { echo "FAILED: $name: exit code $got, not $code, or nothing said like \"$pattern\"; lost: $lost"; head -c 2000 "$work/error"; } >&2
  fi
  rows+=("| $name | $got | ${said//|/\\|} | $lost |")
}
as_nobody() {  # root may write everywhere
  if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi
}

"$frit" run "$cases" || { echo "the script for these cases does not run" >&2; exit 1; }

# ---- words
wrong 2 'needs a script' 'no script' "$frit" run
wrong 2 'no command ruin' 'no such command' "$frit" ruin
wrong 2 'no option --fast' 'no such option' "$frit" run --fast "$cases"
wrong 2 'automatic' 'no such mode' "$frit" run --mode lazy "$cases"
wrong 2 'automatic, eager' 'a setting that makes no sense' env FRIT_MODE=fast "$frit" run "$cases"
wrong 2 'Use --device cpu' 'a device that is not there' "$frit" run --device cuda "$cases"
wrong 2 'Use --device cpu' 'the same, for the suite' "$frit" bench --suite --device cuda
# ---- files
wrong 2 'there is no such file' 'missing file' "$frit" run absent.cpp
wrong 2 'is a folder' 'a folder' "$frit" run .
[ "$(id -u)" = 0 ] && chmod a+rx "$work" "$work/mine"
if [ "$(id -u)" != 0 ]; then
  wrong 2 'cannot be read' 'a file that may not be read' "$frit" run closed.cpp
elif as_nobody test -x "$frit"; then
  wrong 2 'cannot be read' 'a file that may not be read' as_nobody env FRIT_CACHE=0 "$frit" run closed.cpp
fi
wrong 2 'no such policy file' 'missing policy' "$frit" run --policy absent.json "$cases"
wrong 2 'cut.json.*(JSON|damaged|policy)' 'damaged policy: cut short' "$frit" run --policy cut.json "$cases"
wrong 2 'ascending' 'damaged policy: edges that do not ascend' "$frit" run --policy edges.json "$cases"
wrong 2 'FRIT_BUCKETS=.*edges.json: .*ascending' 'the same, by FRIT_BUCKETS' env FRIT_BUCKETS="$PWD/edges.json" "$frit" run "$cases"
wrong 2 'no record of a run' 'a record that is none' "$frit" report --record policy.json -o report.html
wrong 2 'no result of frit bench' 'a baseline that is none' "$frit" bench "$bodies" --baseline policy.json --json now.json
# ---- scripts
wrong 1 'bad.cpp:3:.*tenzor' 'a script that does not compile' "$frit" run bad.cpp
wrong 1 'neither a main nor FRIT_BENCH' 'a script with nothing to run' "$frit" run empty.cpp
wrong 1 'matmul.*\[2, 3\]' 'a script that throws' "$frit" run "$cases" throw
wrong 1 'exit code 3' 'a script that fails' "$frit" run --trace trace.json "$cases" three
wrong 1 'killed by signal 9' 'a script that is killed' "$frit" report "$cases" -o report.html -- die
wrong 1 'did not end within 0.3' 'a script that loops, with --timeout' "$frit" run --trace trace.json --timeout 0.3 "$cases" loop
wrong 1 'failed: throwing' 'a body that throws' "$frit" bench "$bodies" --seconds 0.01 --only throwing
wrong 1 'nothing to tune' 'a script without anything to tune' "$frit" tune "$cases" -o policy.json -- words

# ---- signals: while the script loops, the tool is told to end
interrupted() {
  local signal=$1 code=$2 name=$3 tool
  : > "$work/out"
  # A shell in between would ignore SIGINT for what it starts in the background.
  setsid env --default-signal=INT "$frit" run --trace trace.json "$cases" loop > "$work/out" 2> "$work/error" &
  tool=$!
  for _ in $(seq 1000); do [ -s "$work/out" ] && break; sleep 0.02; done
  kill "-$signal" "$tool"
  wait "$tool" 2> /dev/null
  local got=$?
  for _ in $(seq 200); do pgrep -s "$tool" > /dev/null || break; sleep 0.02; done
  pgrep -s "$tool" > /dev/null && { failed=$((failed + 1)); echo "FAILED: $name: the script still runs" >&2; pkill -KILL -s "$tool"; }
  [ "$signal" = KILL ] && rm -rf "$TMPDIR"/frit-*  # nobody is left who could: the next cleans nothing of the user's
  echo "(ended by the signal; so was the script)" > "$work/error"
  judge "$got" "$code" 'ended by the signal' "$name"
}
interrupted INT 130 'Ctrl-C while a script loops'
interrupted TERM 143 'the tool is told to end'
interrupted KILL 137 'the tool is killed'

# ---- places
wrong 2 'cannot be written' 'an output in a folder that is not there' "$frit" report "$cases" -o no/such/r.html -- words
if [ "$(id -u)" != 0 ]; then
  chmod a-w "$work/closed"
  wrong 2 'cannot be written: Permission denied' 'no permission to write the output' "$frit" report "$cases" -o "$work/closed/r.html" -- words
  wrong 0 'are not kept' 'no permission to write the cache' env FRIT_CACHE_DIR="$work/closed/cache" "$frit" run mine.cpp words
elif as_nobody test -x "$frit"; then
  mkdir -p "$work/nobody" && chmod a+rwx "$work/nobody"
  wrong 2 'cannot be written: Permission denied' 'no permission to write the output' as_nobody env TMPDIR="$work/nobody" FRIT_CACHE=0 "$frit" report mine.cpp -o "$work/closed/r.html" -- words
  wrong 0 'are not kept' 'no permission to write the cache' as_nobody env TMPDIR="$work/nobody" FRIT_CACHE_DIR="$work/closed/cache" "$frit" run mine.cpp words
fi
wrong 2 'output cannot be written' 'nobody takes the output' bash -c "'$frit' doctor --settings > /dev/full"
wrong 2 '/dev/full cannot be written: No space' 'full disk: a trace' "$frit" run --trace /dev/full "$cases" compute
if mount -t tmpfs -o size=1m tmpfs "$full" 2> /dev/null; then
  echo 'kept before' > "$full/report.html"
  head -c 2000000 /dev/zero > "$full/filler" 2> /dev/null
  wrong 2 'report.html cannot be written: No space' 'full disk (1 MiB): a report' "$frit" report "$cases" -o "$full/report.html" -- compute
  wrong 2 'now.json cannot be written: No space' 'full disk: a result' "$frit" bench "$bodies" --seconds 0.01 --only chain --json "$full/now.json"
  wrong 0 'has no room' 'full disk: the cache' env FRIT_CACHE_DIR="$full/cache" "$frit" run "$cases" words
  wrong 1 'No space|is the disk|cannot be (made|written)' 'full disk: the folder for temporary files' env TMPDIR="$full" FRIT_CACHE_DIR="$work/other" "$frit" run mine.cpp words
  rm -rf "$work/other"
  if [ "$(cat "$full/report.html")" != 'kept before' ] || [ -n "$(find "$full" -name '*.tmp-*' -print -quit)" ]; then
    failed=$((failed + 1)) && echo "FAILED: a full disk lost what was there" >&2
  fi
else
  echo "no file system can be mounted here: the cases of a full disk are left out, but for /dev/full" >&2
fi

# ---- an old or damaged cache: what is in it is made anew
"$frit" run mine.cpp words 2> /dev/null
entry=$(grep -l "$work/mine/mine.cpp" "$FRIT_CACHE_DIR"/scripts/script-*/files | head -1 | xargs dirname)
again() {
  wrong 0 'compiled in' "$1" "$frit" run -v mine.cpp words
}
truncate -s 100 "$entry/program" && again 'damaged cache: a program cut short'
echo '{"format": "of another version"}' > "$entry/files" && again 'old cache: a list of another format'
chmod o+w "$entry/program" && again 'a cached program that others may write'
printf 'damaged' > "$entry/files"
wrong 0 '1 damaged' 'frit cache verify finds and removes it' bash -c "'$frit' cache verify >&2"
rm -rf "$entry"
wrong 0 ' 0 damaged' 'and then finds nothing' bash -c "'$frit' cache verify >&2"

echo "| wrong input | exit code | what is said | lost |"
echo "|---|---:|---|---|"
printf '%s\n' "${rows[@]}"
echo
echo "$((number - failed)) of $number as stated"
[ "$failed" = 0 ]
