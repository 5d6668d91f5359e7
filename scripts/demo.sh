#!/usr/bin/env bash
# Installs what is missing, builds Frit, trains a classifier on Fashion-MNIST's 60,000 images and prints how well it does on
# 10,000 others. Arguments go to the example.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh
echo "demo: building"
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target example_fashion_mnist
exec ./build/examples/fashion_mnist "$@"
