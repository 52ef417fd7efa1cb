#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# boot.sh QEMU VMLINUZ INITRAMFS SOCKET [QEMU ARGUMENT..]: the guest, with the adapter behind the vfio-user SOCKET. Serial console on stdout.
#
# No KVM is needed. What looks like taste is not:
# * intel-iommu comes before the adapter, with caching-mode: else QEMU aborts when the guest turns its IOMMU on.
# * Memory is a shared memfd: else the adapter gets no descriptor to do DMA with.
# * x-msg-timeout, x-no-posted-writes: a Verilated adapter is slow. Posted writes would queue up, the read behind them would pay for all,
#   and QEMU gives a session up for good after one late answer.
# GUEST_ACCEL, GUEST_APPEND: another accelerator; more for the kernel's command line.
set -euo pipefail
qemu=${1:?} kernel=${2:?} initramfs=${3:?} socket=${4:?}
shift 4
# A QEMU whose adapter is gone writes two lines for each access, gigabytes in minutes. (Not ulimit -f: it would hit the memfd.)
exec 2> >(head -c 1000000 >&2)
exec nice "$qemu" -nodefaults -no-user-config -display none -no-reboot -accel "${GUEST_ACCEL:-tcg,thread=multi}" -smp 1 -cpu max -m 512M \
    -machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on \
    -device intel-iommu,caching-mode=on,intremap=on \
    -device '{"driver":"vfio-user-pci","id":"adapter","x-msg-timeout":60000,"x-no-posted-writes":true,"socket":{"type":"unix","path":"'"$socket"'"}}' \
    -kernel "$kernel" -initrd "$initramfs" -append "console=ttyS0 quiet intel_iommu=on panic=-1 ${GUEST_APPEND:-}" -serial stdio "$@"
