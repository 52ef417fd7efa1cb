#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh: instructions of a set-up on the host, the kernel's included, with the adapter as the provider and with the host's own TCP.
#
# A Linux guest in QEMU whose clock counts instructions (-icount shift=0: each takes one nanosecond). So the time that a process had the
# processor, in nanoseconds, is the number of instructions of its threads and of the kernel for them. In the same boot: both ends on the
# guest's loopback (--device soft), then both ends each with an adapter of its own through the guest's vfio-pci. The adapters are Verilated, outside.
#
# * Kernel and C library move large blocks by plain moves here (clearcpuid, GLIBC_TUNABLES): an instruction with a repeat prefix would be
#   counted once for each of its steps.
# * A simulated adapter lets the guest wait for seconds, in which the driver looks after its health: what that takes is measured with nothing
#   under way, and taken out in proportion to the time.
# * Not in the figures: the part of interrupts and timers that runs while no process does. Over loopback all of TCP runs in a process; on a
#   real network its receive side would not, and a network driver would come on top.
#
# Needs what tools/vfio-guest needs. Adds to build/report/bench.json, which `ironwarp bench` writes. SET_UPS: how many (24).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
guest=tools/vfio-guest
work=build/host-cost
set_ups=${SET_UPS:-24}
boot_limit=300 # s; it takes 60 to 120
mkdir -p "$work" build/report

bash $guest/qemu.sh build/qemu
bash $guest/kernel.sh build/guest-kernel
cargo build --quiet --release -p ironwarp-cli
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release -p ironwarp-cli --no-default-features --target x86_64-unknown-linux-gnu
target=${CARGO_TARGET_DIR:-target}

command='
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff
ifconfig lo up
mkfifo /tmp/a /tmp/b
both() { # name, server, client
    ironwarp set-ups --count '$set_ups' --clock 2 -p 7471 $2 </tmp/a >/tmp/server 2>&1 &
    exec 3>/tmp/a
    until grep -q listening /tmp/server; do sleep 0.1; done
    ironwarp set-ups --count '$set_ups' --clock 2 -p 7471 $3 </tmp/b >/tmp/client 2>&1 &
    exec 4>/tmp/b
    n=0
    until grep -q over /tmp/client && grep -q over /tmp/server || [ $n -gt 900 ]; do sleep 0.1; n=$((n + 1)); done
    for end in client server; do echo "counted $1 $end $(grep process_ns /tmp/$end || tail -1 /tmp/$end)"; done
    exec 3>&- 4>&-
    wait
}
both host_integrated "--device soft" "--device soft -s 127.0.0.1"
set -- $(cd /sys/bus/pci/drivers/vfio-pci && ls -d 0*)
both offloaded "--device vfio:$2 --mac 02:1b:ad:00:00:02 --address 192.0.2.2/24" "--device vfio:$1 --address 192.0.2.1/24 -s 192.0.2.2"
'
id() { sed -n "s/^pub const $1: u16 = 0x\([0-9a-f]\{4\}\);.*/\1/p" hdl/abi/src/lib.rs; }
bash $guest/initramfs.sh build/guest-kernel "$work/initramfs.gz" "$(id PCI_VENDOR)" "$(id PCI_DEVICE)" "$command" \
    "$target/x86_64-unknown-linux-gnu/release/ironwarp"

directory=$(mktemp -d) # a socket path has at most 107 octets
sim=''
cleanup() {
    [ -z "$sim" ] || kill "$sim" 2>/dev/null || true
    rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
# emulated boots fail now and then: once more then
for boot in 1 2; do
    nice "$target/release/ironwarp" sim --socket "$directory/a$boot.sock" --socket "$directory/b$boot.sock" </dev/null >"$work/sim.log" 2>&1 &
    sim=$!
    for _ in $(seq 600); do
        [ ! -S "$directory/b$boot.sock" ] || break
        sleep 0.1
    done
    second='{"driver":"vfio-user-pci","id":"second","x-msg-timeout":60000,"x-no-posted-writes":true,"socket":{"type":"unix","path":"'$directory/b$boot.sock'"}}'
    GUEST_ACCEL=tcg,thread=single GUEST_APPEND="clearcpuid=112,297,580" timeout --kill-after=5 $boot_limit \
        bash $guest/boot.sh build/qemu/qemu build/guest-kernel/vmlinuz "$work/initramfs.gz" "$directory/a$boot.sock" \
        -device "$second" -icount shift=0 </dev/null >"$work/guest.log" 2>"$work/qemu.log" || true
    kill $sim 2>/dev/null || true
    wait $sim 2>/dev/null || true
    sim=''
    [ "$(grep -c 'counted .* process_ns' "$work/guest.log")" != 4 ] || break
    echo "host-cost: the guest did not come to the end (boot $boot)"
    tail -n 12 "$work/guest.log" "$work/qemu.log"
done
python3 tools/host-cost/report.py "$work/guest.log" "$set_ups" build/report/bench.json
