#!/bin/sh
# Makes a virtual environment with the Python peers of bench/compare from PyPI: torch (eager and torch.compile) and jax. Some gigabytes.
#   bench/peers/python_environment.sh FOLDER      then: bench/compare --python FOLDER/bin/python
set -eu
folder=${1:?"usage: python_environment.sh FOLDER"}
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet numpy
for peer in torch jax; do
  "$folder/bin/pip" install --quiet "$peer" || echo "$peer could not be installed; the comparison goes without it" >&2
done
"$folder/bin/python" - <<'END'
import importlib
for name in ("torch", "jax"):
    try:
        print(name, importlib.import_module(name).__version__)
    except Exception as problem:
        print(name, "is missing:", problem)
END
