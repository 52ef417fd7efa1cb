#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# kernel.sh DIR: Debian's kernel for virtual machines, unpacked (not installed), with DIR/vmlinuz. Nothing is done if it is there.
set -euo pipefail
tree=${1:?directory}
[ ! -e "$tree/vmlinuz" ] || exit 0

package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" { print $2; exit }')
[ -n "$package" ] || { echo "kernel.sh: apt does not know linux-image-cloud-amd64; run apt-get update" >&2; exit 1; }
part=$tree.part
rm -rf "$part"
mkdir -p "$part"
(cd "$part" && timeout 180 apt-get download -qq -o APT::Sandbox::User=root "$package")
dpkg-deb --extract "$part"/*.deb "$part"
rm "$part"/*.deb
mv "$part"/boot/vmlinuz-* "$part/vmlinuz"
mv "$part" "$tree"
