#!/usr/bin/env bash
# Installs what Frit needs to be built and tested on Debian 12, Ubuntu 24.04 or later, and says what it installs. Does nothing
# where all of it is there. Runs as root or with sudo.
set -euo pipefail

needed=(
  g++ cmake ninja-build pkg-config     # to build
  libasmjit-dev libtbb-dev libfmt-dev zlib1g-dev libxxhash-dev nlohmann-json3-dev libcli11-dev
  catch2                               # tests
  dataset-fashion-mnist                # 70,000 images for the demo
  bible-kjv                            # 31,102 verses for the demo
)
helpful=(ccache mold)                  # quicker builds; Frit does without

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; Frit needs these Debian packages or their like: ${needed[*]}"
  exit 0
fi
missing=()
for package in "${needed[@]}"; do
  installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "setup: nothing to install"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: please run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null; }

echo "setup: installing ${missing[*]}"
apt update
apt install --no-install-recommends -y "${missing[@]}" >/dev/null
for package in "${helpful[@]}"; do
  if ! installed "$package"; then
    apt install --no-install-recommends -y "$package" >/dev/null 2>&1 && echo "setup: installed $package too, for quicker builds"
  fi
done
echo "setup: done"
