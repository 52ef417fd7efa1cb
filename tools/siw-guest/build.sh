#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# build.sh DIR: a Linux guest with the kernel's software iWARP (siw), rdma-core and perftest, in DIR: vmlinuz, initrd.cpio.
#
# Debian's kernel has no siw, so the module is built from its own source package: once as it is (siw-stock.ko), once with its
# constants made module parameters (siw-tun.ko). Packages are downloaded, not installed (225 MB, once); what is kept is 30 MB.
# Needs apt, dpkg, gcc, make, xz, cpio, perl (`make setup`, and build-essential's kin of Debian 12).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$1"
top=$(readlink -f "$1")
kernel=6.1 # Debian 12's
debs=$top/debs headers=$top/headers stage=$top/stage root=$top/root
stamp=$top/.built-$(cat "$here"/{build.sh,init,refuse.c} | sha256sum | cut -c1-16)
[ ! -e "$stamp" ] || exit 0
say() { echo "siw-guest: $*"; }

# ---- packages
mkdir -p "$debs"
release=$(apt-cache depends linux-image-amd64 | sed -n 's/ *Depends: linux-image-\(6\.1\.0-[0-9]*-amd64\)$/\1/p' | head -1)
[ -n "$release" ] || {
    apt-get update -qq || true
    release=$(apt-cache depends linux-image-amd64 | sed -n 's/ *Depends: linux-image-\(6\.1\.0-[0-9]*-amd64\)$/\1/p' | head -1)
}
[ -n "$release" ] || {
    echo "siw-guest: apt knows no kernel $kernel (Debian 12); run apt-get update" >&2
    exit 1
}
common=${release%-amd64}
user="libc6 libgcc-s1 libibverbs1 ibverbs-providers ibverbs-utils librdmacm1 rdmacm-utils rdma-core perftest iproute2 libnl-3-200
 libnl-route-3-200 libmnl0 libbpf1 libelf1 zlib1g libselinux1 libpcre2-8-0 libcap2 libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3
 libcom-err2 libkrb5support0 libkeyutils1 libpci3 libibumad3 libudev1 libzstd1 libdb5.3 libxtables12 libbsd0 libmd0 liblzma5 libssl3
 busybox-static libibverbs-dev librdmacm-dev"
need=''
for package in linux-image-$release linux-headers-$release linux-headers-$common-common linux-kbuild-$kernel linux-source-$kernel $user; do
    ls "$debs/${package}"_*.deb >/dev/null 2>&1 || need="$need $package"
done
if [ -n "$need" ]; then
    say "downloading$(echo "$need" | wc -w | sed 's/^/ /') packages"
    # shellcheck disable=SC2086
    (cd "$debs" && chmod 755 . && apt-get -o APT::Sandbox::User=root download -qq $need)
fi

# ---- siw
tree=$headers/usr/src/linux-headers-$release
if [ ! -e "$tree/Makefile" ]; then
    mkdir -p "$headers"
    for package in linux-headers-$release linux-headers-$common-common linux-kbuild-$kernel; do dpkg -x "$debs/${package}"_*.deb "$headers"; done
    sed -i "s#include /usr/src#include $headers/usr/src#" "$tree/Makefile"
fi
source=$top/source/linux-source-$kernel/drivers/infiniband/sw/siw
if [ ! -e "$source/siw_main.c" ]; then
    say "unpacking siw"
    mkdir -p "$top/source"
    dpkg --fsys-tarfile "$debs/linux-source-${kernel}"_*.deb | tar -xO "./usr/src/linux-source-$kernel.tar.xz" |
        tar -xJ -C "$top/source" "linux-source-$kernel/drivers/infiniband/sw/siw"
fi
module() { # kind
    nice make -s -j2 -C "$tree" M="$top/siw-$1" CONFIG_RDMA_SIW=m modules >"$top/siw-$1.log" 2>&1 || {
        tail -n 30 "$top/siw-$1.log" >&2
        exit 1
    }
    strip --strip-debug "$top/siw-$1/siw.ko"
}
rm -rf "$top/siw-stock" "$top/siw-tun"
cp -r "$source" "$top/siw-stock"
cp -r "$source" "$top/siw-tun"
say "building siw"
module stock
(
    cd "$top/siw-tun"
    for name in zcopy_tx try_gso loopback_enabled mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer; do
        sed -i -E "s/^extern const bool $name;/extern bool $name;/" siw.h
        sed -i -E "s/^const bool $name( = [a-z]+)?;/bool $name\1;\nmodule_param($name, bool, 0644);/" siw_main.c
    done
    sed -i -E 's/^(u_char mpa_version.*;)/\1\nmodule_param(mpa_version, byte, 0644);/' siw_main.c
    # bit 0: offer a Read as RTR, bit 1: a Write
    sed -i -E 's/^static __be16 rtr_type = .*;/static int rtr = 3;\nmodule_param(rtr, int, 0644);\n#define rtr_type ((__be16)((rtr \& 1 ? MPA_V2_RDMA_READ_RTR : 0) | (rtr \& 2 ? MPA_V2_RDMA_WRITE_RTR : 0)))/' siw_cm.c
    # seconds that an initiator waits for the Reply; a responder waits half of it for the Request
    sed -i -E 's/^#define MPAREQ_TIMEOUT .*/extern int mpa_timeout;\n#define MPAREQ_TIMEOUT (HZ * mpa_timeout)/; s/^#define MPAREP_TIMEOUT .*/#define MPAREP_TIMEOUT (HZ * mpa_timeout \/ 2)/' siw_cm.h
    sed -i -E 's/^(static int rtr = 3;)/int mpa_timeout = 10;\nmodule_param(mpa_timeout, int, 0644);\n\1/' siw_cm.c
)
module tun

# ---- the guest
say "making the guest"
image=$top/image
rm -rf "$image" "$stage" "$root"
mkdir -p "$image" "$stage"
dpkg -x "$debs/linux-image-${release}"_*.deb "$image"
cp "$image/boot/vmlinuz-$release" "$top/vmlinuz"
for package in "$debs"/*.deb; do
    case $(basename "$package") in linux-*) ;; *) dpkg -x "$package" "$stage" ;; esac
done
mkdir -p "$root"/{bin,sbin,usr/bin,lib64,etc/libibverbs.d,usr/lib/x86_64-linux-gnu/libibverbs,lib,dev,proc,sys,tmp}
ln -s ../usr/lib/x86_64-linux-gnu "$root/lib/x86_64-linux-gnu"
busybox=$(find "$stage" -path '*bin/busybox' -print -quit)
cp "$busybox" "$root/bin/busybox"
"$root/bin/busybox" --list | while read -r applet; do [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"; done
for program in rping ucmatose cmtime ibv_devices ibv_devinfo ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat rdma; do
    cp "$(find "$stage" -path "*bin/$program" -print -quit)" "$root/usr/bin/"
done
libraries=$stage/usr/lib/x86_64-linux-gnu
gcc -O1 -Wall -Werror -o "$root/usr/bin/refuse" "$here/refuse.c" -I"$stage/usr/include" -L"$libraries" -lrdmacm -libverbs -Wl,-rpath-link,"$libraries:$stage/lib/x86_64-linux-gnu"
rm -f "$root/bin/ip"
cp "$stage/bin/ip" "$root/bin/"
cp "$stage/etc/libibverbs.d/siw.driver" "$root/etc/libibverbs.d/"
cp "$libraries"/libibverbs/libsiw-*.so "$root/usr/lib/x86_64-linux-gnu/libibverbs/"
needed() { { readelf -d "$@" 2>/dev/null || true; } | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
todo=$(needed "$root"/usr/bin/* "$root/bin/ip" "$root"/usr/lib/x86_64-linux-gnu/libibverbs/* | sort -u)
seen=' '
while [ -n "$todo" ]; do
    next=''
    for library in $todo; do
        case $seen in *" $library "*) continue ;; esac
        seen="$seen$library "
        file=$(find "$stage" -name "$library" -print -quit)
        [ -n "$file" ] || {
            echo "siw-guest: no $library in the packages" >&2
            exit 1
        }
        cp -L "$file" "$root/usr/lib/x86_64-linux-gnu/"
        next="$next $(needed "$file")"
    done
    todo=$next
done
cp -L "$(find "$stage" -name ld-linux-x86-64.so.2 -print -quit)" "$root/lib64/"
cp -L "$(find "$stage" -name libgcc_s.so.1 -print -quit)" "$root/usr/lib/x86_64-linux-gnu/" # opened when a thread ends
printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
printf 'hosts: files\n' >"$root/etc/nsswitch.conf"
"$busybox" depmod -b "$image" "$release"
for name in virtio_pci virtio_net virtio_console af_packet crc32c_intel crc32c_generic libcrc32c ib_core ib_uverbs iw_cm rdma_cm rdma_ucm; do
    grep -E "/${name//_/[-_]}\.ko(\.xz)?:" "$image/lib/modules/$release/modules.dep" | tr -d : | tr ' ' '\n' || true # some are built in
done | grep . | sort -u | while read -r file; do
    to=$root/lib/modules/$release/$file
    mkdir -p "$(dirname "$to")"
    case $file in *.xz) xz -dc "$image/lib/modules/$release/$file" >"${to%.xz}" ;; *) cp "$image/lib/modules/$release/$file" "$to" ;; esac
done
cp "$image/lib/modules/$release"/modules.{builtin,order} "$root/lib/modules/$release/"
"$busybox" depmod -b "$root" "$release"
cp "$top/siw-stock/siw.ko" "$root/lib/siw-stock.ko"
cp "$top/siw-tun/siw.ko" "$root/lib/siw-tun.ko"
cp "$here/init" "$root/init"
chmod 755 "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$top/initrd.cpio"
rm -rf "$image" "$stage"
touch "$stamp"
say "Linux $release with siw, $(du -sh "$top/initrd.cpio" | cut -f1)"
