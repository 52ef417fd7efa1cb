#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh: the driver on a real kernel. A Linux guest in QEMU, its own vfio-pci, and `ironwarp selftest` in it, against the Verilated
# adapter that `ironwarp sim` serves outside: LISTEN -> LISTEN_REPLY with DMA and MSI-X. Last line `vfio-guest: PASS` or FAIL.
#
# No KVM, no root in the guest's way: needs bash, cargo, busybox-static, cpio, mmdebstrap and apt (`make setup`). QEMU and kernel are
# fetched once into build/ (65 MB). A guest that does not come to the end of the test while the adapter is alive is booted once more:
# emulated boots fail now and then. A test that failed, and an adapter that ended, are final. Everything is bounded in
# time, and only processes started here are ended.
# VFIO_GUEST_COMMAND: another shell command for the guest ($BDF is the adapter's address). VFIO_GUEST_PROFILE: dev or release.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
here=tools/vfio-guest
work=build/vfio-guest
static_target=x86_64-unknown-linux-gnu
profile=${VFIO_GUEST_PROFILE:-release} # `make demo` has built it already
built=${profile/#dev/debug}
command=${VFIO_GUEST_COMMAND:-'ironwarp selftest --device vfio:$BDF'}
boot_limit=240 # s; a boot takes 4 to 20
mkdir -p "$work" build/report

start=$(date +%s)
lap=$start
step() { # what: the time since the last step
    local now
    now=$(date +%s)
    printf 'vfio-guest: %4d s  %s\n' $((now - lap)) "$1"
    lap=$now
}
finish() { # result reason
    printf '{"result":"%s","reason":"%s","boots":%d,"seconds":%d,"kernel":"%s","qemu":"%s"}\n' \
        "$1" "$2" "${boot:-0}" $(($(date +%s) - start)) "${kernel_release:-}" "${qemu_version:-}" >build/report/vfio-guest.json
    echo "vfio-guest: $2, $(($(date +%s) - start)) s in all"
    echo "vfio-guest: $1"
    [ "$1" = PASS ]
    exit
}

sim='' vm='' directory=''
end() { # pid: asks, then insists; then reaps
    [ -n "$1" ] || return 0
    kill "$1" 2>/dev/null || true
    for _ in $(seq 50); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
cleanup() {
    end "$vm"
    end "$sim"
    [ -z "$directory" ] || rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

bash $here/qemu.sh build/qemu || finish FAIL "no QEMU"
qemu_version=$(build/qemu/qemu --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
step "QEMU $qemu_version"
bash $here/kernel.sh build/guest-kernel || finish FAIL "no kernel"
kernel_release=$(basename build/guest-kernel/lib/modules/*)
step "Linux $kernel_release"

cargo build --quiet --profile "$profile" -p ironwarp-cli || finish FAIL "the ironwarp command does not build"
binary=${CARGO_TARGET_DIR:-target}/$built/ironwarp
step "ironwarp with the Verilated adapter"
# With --target, flags and output are apart from the host's, and what runs on the host while building is shared.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --profile "$profile" -p ironwarp-cli --no-default-features \
    --target $static_target || finish FAIL "the static ironwarp command does not build"
guest_binary=${CARGO_TARGET_DIR:-target}/$static_target/$built/ironwarp
step "static ironwarp for the guest"

# The adapter is known by the numbers that the one description gives it.
id() { sed -n "s/^pub const $1: u16 = 0x\([0-9a-f]\{4\}\);.*/\1/p" hdl/abi/src/lib.rs; }
bash $here/initramfs.sh build/guest-kernel "$work/initramfs.gz" "$(id PCI_VENDOR)" "$(id PCI_DEVICE)" "$command" "$guest_binary" ||
    finish FAIL "no initramfs"
directory=$(mktemp -d) # a socket path has at most 107 octets

for boot in 1 2; do
    nice "$binary" sim --socket "$directory/adapter$boot.sock" </dev/null >"$work/sim.log" 2>&1 &
    sim=$!
    for _ in $(seq 600); do
        [ ! -S "$directory/adapter$boot.sock" ] || break
        kill -0 $sim 2>/dev/null || break
        sleep 0.1
    done
    [ -S "$directory/adapter$boot.sock" ] || {
        tail -n 20 "$work/sim.log"
        finish FAIL "ironwarp sim made no socket"
    }
    timeout --kill-after=5 $boot_limit bash $here/boot.sh build/qemu/qemu build/guest-kernel/vmlinuz "$work/initramfs.gz" \
        "$directory/adapter$boot.sock" </dev/null >"$work/guest.log" 2>"$work/qemu.log" &
    vm=$!
    # Whichever ends first: a guest without its adapter would only fill the logs.
    wait -n "$vm" "$sim" || true
    adapter=alive
    kill -0 $sim 2>/dev/null || adapter=gone
    end "$vm"
    vm=''
    end "$sim"
    sim=''
    step "boot $boot"
    status=$(sed -n 's/^guest: exit status \([0-9]*\) .*/\1/p' "$work/guest.log" | head -1)
    [ -z "$status" ] && [ $adapter = alive ] && [ $boot = 1 ] || break
    echo "vfio-guest: the guest did not come to the end of the test; its last lines, then once more:"
    tail -n 5 "$work/guest.log" "$work/qemu.log" "$work/sim.log"
done

sed 's/\r$//; s/^/  | /' "$work/guest.log"
case $status in
0) finish PASS "Linux $kernel_release drove the adapter (boot $boot)" ;;
'') reason="the guest did not come to the end of the test" ;;
*) reason="the guest's test ended with status $status" ;;
esac
tail -n 20 "$work/qemu.log" "$work/sim.log"
finish FAIL "$reason (adapter $adapter)"
