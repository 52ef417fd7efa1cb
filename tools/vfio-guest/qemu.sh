#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# qemu.sh DIR: a QEMU that has vfio-user-pci (10.1 or later), in a tree of its own; DIR/qemu runs it. Nothing is done if it is there.
#
# Debian 12's QEMU is older, so the packages come from Debian 13 and its backports, from the archive that this machine uses
# already. Nothing is installed: the tree is unpacked (38 MB of packages, 112 MB on disk) and run through its own dynamic loader.
set -euo pipefail
tree=${1:?directory}
[ ! -x "$tree/qemu" ] || exit 0

archive=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' | awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }')
# before the first apt-get update apt knows only its sources
[ -n "$archive" ] || archive=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    awk '$1 == "URIs:" || ($1 == "deb" && $2 ~ /^http/) { print $2; exit }')
[ -n "$archive" ] || { echo "qemu.sh: apt knows no Debian archive; run apt-get update" >&2; exit 1; }

mode=root
[ "$(id -u)" = 0 ] || mode=unshare
part=$tree.part
mkdir -p "$(dirname "$tree")"
rm -rf "$part"
# APT::Default-Release: the dependencies come from backports, too, where they must.
timeout 300 mmdebstrap --quiet --mode=$mode --variant=extract --aptopt='APT::Default-Release "trixie-backports"' \
    --include=qemu-system-x86 trixie "$part" "deb $archive trixie main" "deb $archive trixie-backports main"
(
    cd "$part"
    rm -rf usr/share/{doc,man,locale,icons} usr/bin/qemu-system-{i386,x86_64-microvm} var/cache/apt/archives/*.deb
)
cat >"$part/qemu" <<'Q'
#!/bin/sh
tree=$(dirname "$(readlink -f "$0")")
export QEMU_MODULE_DIR="$tree/usr/lib/x86_64-linux-gnu/qemu"
exec "$tree/usr/lib64/ld-linux-x86-64.so.2" --library-path "$tree/usr/lib/x86_64-linux-gnu" "$tree/usr/bin/qemu-system-x86_64" \
    -L "$tree/usr/share/qemu" -L "$tree/usr/share/seabios" "$@"
Q
chmod +x "$part/qemu"
"$part/qemu" -device vfio-user-pci,help | grep -q x-msg-timeout || { echo "qemu.sh: this QEMU has no vfio-user-pci" >&2; exit 1; }
mv "$part" "$tree"
