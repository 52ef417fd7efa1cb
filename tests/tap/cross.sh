#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# cross.sh: both connection models against each other. `ironwarp sim` with its wire on a TAP in a namespace of its own; a test drives the adapter through its
# socket on one side and the host's own TCP (ironwarp-soft) on the other: tests/tests/cm_cross.rs, both directions. tshark judges the capture.
#
# Needs: root, iproute2, tshark. Without the rights it says NOT RUN and ends with 2. CM_LIVES: random lives in each direction (40). OPS: operations of each run of random traffic (200).
# LIMIT: seconds of all tests (1200). CROSS_MTU: of the TAP (1500). CROSS_FAULTS: of the wire, as loss=0.01,reorder=0.01. ONLY: scenarios whose name has it. TAP_PROFILE: dev or release.
# Last line `cross: PASS`, FAIL or NOT RUN.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
. tests/tap/processes.sh
profile=${TAP_PROFILE:-release}
work=build/tap
namespace=iw-cross-$$
mkdir -p "$work"
finish() { # result reason
    if [ "$1" = FAIL ]; then tail -n 30 $work/cross.log $work/cross-sim.log 2>/dev/null || true; fi
    [ "$1" != 'NOT RUN' ] || { echo "cross: NOT RUN: $2"; exit 2; }
    echo "cross: $1: $2"
    [ "$1" = PASS ]
    exit
}
sim='' directory=''
cleanup() {
    end "$sim" || true
    ip netns del $namespace 2>/dev/null || true
    [ -z "$directory" ] || rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

ip netns add $namespace 2>$work/rights.log || finish 'NOT RUN' "no right to make namespaces: $(head -n 1 $work/rights.log | tr -d '"\\')"
cargo build --quiet --profile "$profile" -p ironwarp-cli || finish FAIL "the ironwarp command does not build"
cargo test --quiet -p ironwarp-tests --test cm_cross --no-run || finish FAIL "the test does not build"
binary=$(readlink -f "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/ironwarp")
directory=$(mktemp -d)
ip netns exec $namespace "$binary" sim --socket "$directory/adapter.sock" --tap iwcross --line gigabit ${CROSS_FAULTS:+--faults "$CROSS_FAULTS"} --pcap $work/cross.pcapng </dev/null >$work/cross-sim.log 2>&1 &
sim=$!
until_true 60 $sim test -S "$directory/adapter.sock" || finish FAIL "ironwarp sim made no socket"
ip -n $namespace link set lo up
ip -n $namespace address add 192.0.2.2/24 dev iwcross
ip -n $namespace link set iwcross mtu "${CROSS_MTU:-1500}" up
IRONWARP_CROSS="$directory/adapter.sock" timeout "${LIMIT:-1200}" ip netns exec $namespace cargo test --offline --quiet -p ironwarp-tests --test cm_cross -- --ignored --nocapture --test-threads 1 \
    </dev/null >$work/cross.log 2>&1 || finish FAIL "the suite"
end $sim || true
sim=''
# ports are used again within the run, and tshark takes the Request of such a connection for an FPDU of the one before: what it says of MPA does not count
frames=$(tshark -r $work/cross.pcapng -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y tcp -T fields -e frame.number 2>/dev/null | wc -l)
tshark -r $work/cross.pcapng -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y 'eth.src == 02:1b:ad:00:00:01 && (_ws.malformed && !iwarp_mpa || tcp.checksum.status == "Bad" || ip.checksum.status == "Bad")' \
    -V -x >$work/cross-bad.log 2>/dev/null
bad=$(grep -c '^Frame ' $work/cross-bad.log || true)
[ "$frames" -gt 100 ] && [ "$bad" = 0 ] || finish FAIL "tshark finds $bad bad ones in $frames frames: $work/cross-bad.log"
finish PASS "$(grep -c ': ' $work/cross.log) lines, $(sed -n 's/^.*: \([0-9]* lives, .*\)/\1/p' $work/cross.log | tr '\n' ';') $frames segments"
