#!/bin/sh
# Runs generated AVX-512 code in the emulator Bochs (Debian: apt-get install bochs bochs-term) and compares every bit with the interpreter.
# Usage: scripts/bochs_avx512.sh [BUILD_FOLDER [MODEL]]; models: bochs -help cpu. Exit 77: there is no Bochs, or nothing to run.
set -eu
build=${1:-$(dirname "$0")/../build}
model=${2:-corei7_skylake_x}
bochs=$(command -v bochs) || { echo "skipped: no bochs"; exit 77; }
program=$build/tests/avx512/avx512_image
[ -x "$program" ] || { echo "skipped: build the target avx512_image first"; exit 77; }
"$bochs" -help cpu 2>&1 | grep -x "$model" > /dev/null || { echo "skipped: this bochs has no processor $model"; exit 77; }
export BXSHARE="${BXSHARE:-/usr/share/bochs}"
[ -f "$BXSHARE/BIOS-bochs-latest" ] || { echo "skipped: no BIOS in $BXSHARE"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" "$bochs" "$folder" "$model"
