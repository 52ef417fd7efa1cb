#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# initramfs.sh KERNEL_TREE OUT VENDOR DEVICE COMMAND PROGRAM..: busybox, the kernel's vfio modules, `init`, the static programs (in the
# guest's PATH), and the shell command that the guest runs. VENDOR and DEVICE (four hex digits each) say which PCI function is meant.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
kernel=${1:?} out=${2:?} vendor=${3:?} device=${4:?} command=${5:?}
shift 5
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,modules,tmp}
busybox=$(command -v busybox) || { echo "initramfs.sh: busybox-static is missing" >&2; exit 1; }
cp -L "$busybox" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"

order=10
loaded=" "
add() { # module: what it depends on first, so that the file names sort in the order of insertion
    local name=$1 file copy needed
    case $loaded in *" $name "*) return ;; esac
    loaded="$loaded$name "
    file=$(find "$kernel/lib/modules" \( -name "${name//_/-}.ko*" -o -name "${name//-/_}.ko*" \) | head -1)
    [ -n "$file" ] || { echo "initramfs.sh: no module $name, taken to be built in" >&2; return; }
    copy=$root/tmp/$name.ko
    case $file in
    *.xz) xz -dc "$file" >"$copy" ;;
    *.zst) zstd -dqc "$file" >"$copy" ;;
    *) cp "$file" "$copy" ;;
    esac
    # the module says it itself: no depmod needed
    for needed in $(tr '\0' '\n' <"$copy" | sed -n 's/^depends=//p' | tr , ' '); do add "$needed"; done
    mv "$copy" "$root/modules/$order-$name.ko"
    order=$((order + 1))
}
add vfio_iommu_type1
add vfio-pci

for program in "$@"; do
    strip -o "$root/bin/$(basename "$program")" "$program"
done
printf '%s\n' "$command" >"$root/command"
printf '0x%s 0x%s\n' "$vendor" "$device" >"$root/device"
install -m 755 "$here/init" "$root/init"
(cd "$root" && find . | cpio --create --format=newc --quiet | gzip -1) >"$out"
