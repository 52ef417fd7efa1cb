#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# mpa.sh: the start-up of MPA against Linux's own TCP. The peer is a plain socket in a network namespace, the adapter the Verilated one:
#
#   peer: mpa.py -- TAP iwpeer -- ironwarp sim (wire) = adapter = ironwarp listen, connect (driver)
#
# First the peer connects: Requests of every form, whole, octet by octet, cut at every octet, with rubbish, too long, of wrong revision;
# FIN, RST and silence in every state, and windows that shut in the middle of a frame; then LIVES connections one after the other. Then the
# adapter connects to the peer, which answers as mpa.py's cases say. FAULTS are put on the wire for the lives. In the end the driver has
# nothing left, and tshark finds no wrong checksum in what the clean wire carried.
#
# Needs: root (namespaces, TAPs), iproute2, tshark, python3. Where the rights are missing it says NOT RUN and ends with 2. Everything is
# bounded in time; only processes started here are ended.
# Covers: MPA-3, MPA-8, MPA-10, MPA-17, MPA-18, TCP-21
# LIVES: connections under faults (100). FAULTS: of the wire then (loss=0.02,reorder=0.02). TAP_PROFILE: dev or release.
# Figures: build/report/mpa.json. Last line `mpa: PASS`, FAIL or NOT RUN.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
. tests/tap/processes.sh
lives=${LIVES:-100}
faults=${FAULTS:-loss=0.02,reorder=0.02}
profile=${TAP_PROFILE:-release}
work=build/tap
report=build/report/mpa.json
adapter=192.0.2.1 peer_address=192.0.2.2 port=4791
data=$(printf 'ironwarp%.0s' {1..60})
tcp=two_msl_us=500000,mpa_timeout_us=3000000,connect_timeout_us=8000000,spare_slots=0
peer=iw-mpa-$$
mkdir -p "$work" build/report

start=$(date +%s)
finish() { # result reason
    printf '{"result":"%s","reason":"%s","seconds":%d}\n' "$1" "$2" $(($(date +%s) - start)) >$report
    if [ "$1" = FAIL ]; then tail -n 15 $work/mpa-*.{log,json} 2>/dev/null || true; fi
    [ "$1" != 'NOT RUN' ] || { echo "mpa: NOT RUN: $2"; exit 2; }
    echo "mpa: $1: $2"
    [ "$1" = PASS ]
    exit
}
sim='' driver='' server='' directory=''
cleanup() {
    end "$server" || true
    end "$driver" || true
    end "$sim" || true
    ip netns del $peer 2>/dev/null || true
    [ -z "$directory" ] || rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

for tool in ip tshark python3; do
    command -v $tool >/dev/null || finish 'NOT RUN' "$tool is missing (make setup)"
done
[ -c /dev/net/tun ] || finish 'NOT RUN' "there is no /dev/net/tun"
{ ip netns add $peer && ip netns exec $peer ip tuntap add dev iwprobe mode tap; } 2>$work/rights.log ||
    finish 'NOT RUN' "no right to make namespaces and TAPs: $(head -n 1 $work/rights.log | tr -d '"\\')"
ip -n $peer link del iwprobe
cargo build --quiet --profile "$profile" -p ironwarp-cli || finish FAIL "the ironwarp command does not build"
binary=$(readlink -f "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/ironwarp")
directory=$(mktemp -d) # a socket path has at most 107 octets
socket=$directory/adapter.sock

serve() { # capture [options]: an adapter on the peer's wire
    local capture=$1
    shift
    ip netns exec $peer "$binary" --json sim --socket "$socket" --tap iwpeer --line gigabit --pcap "$capture" "$@" </dev/null \
        >$work/mpa-sim.json 2>$work/mpa-sim.log &
    sim=$!
    until_true 60 $sim test -S "$socket" || finish FAIL "ironwarp sim made no socket"
    ip -n $peer address replace $peer_address/24 dev iwpeer
    ip -n $peer link set iwpeer up
}
unserve() {
    local code=0
    end $sim || code=$?
    sim=''
    rm -f "$socket"
    [ $code = 0 ] || finish FAIL "ironwarp sim ended with $code (rules of the ports broken?)"
}
listen() { # the driver, which accepts, or rejects what begins with "no"
    "$binary" --json listen $port --device "sim:$socket" --timeout 60 --address $adapter/24 --tcp $tcp --accept --reject-prefix no \
        --private-data "$data" --ird 4 --ord 4 </dev/null >$work/mpa-listen.json 2>$work/mpa-listen.log &
    driver=$!
    until_true 60 $driver grep -q '"event":"listening"' $work/mpa-listen.json || finish FAIL "ironwarp listen did not come up"
}
unlisten() {
    local code=0
    end $driver || code=$?
    driver=''
    [ $code = 0 ] || finish FAIL "ironwarp listen ended with $code"
    python3 - $work/mpa-listen.json <<'PY' || finish FAIL "connections made and freed by the driver do not agree"
import json, sys
events = [json.loads(text) for text in open(sys.argv[1])]
count = lambda name: sum(e["event"] == name for e in events)
counters = events[-1]["counters"]
made, freed = counters.get("connCreated", 0), counters.get("connFreed", 0)
odd = {k: v for k, v in counters.items() if k.startswith("drv")}
print(f"mpa: {count('connect_request')} requests, {count('established')} established, {count('close')} closed; {made} made, {freed} freed")
sys.exit(not (made == freed > 0 and count("established") == count("close") and not odd))
PY
}

# 1: the peer connects
serve $work/mpa-peer.pcapng
listen
timeout 900 ip netns exec $peer python3 tests/tap/mpa.py client $adapter $port 0 >$work/mpa-client.json ||
    finish FAIL "a case of the client: $(grep -m 1 '"ok": false' $work/mpa-client.json | tr -d '"\\')"
cases=$(wc -l <$work/mpa-client.json)
sleep 1 # the last TIME-WAIT
unlisten
# 2: the adapter connects
connects=0
while read -r case status; do
    ip netns exec $peer timeout 120 python3 tests/tap/mpa.py server $peer_address $port "$case" >$work/mpa-server.json 2>$work/mpa-server.log &
    server=$!
    until_true 20 $server ip netns exec $peer sh -c "ss -Hltn 'sport = $port' | grep -q ." || finish FAIL "no server for $case"
    "$binary" --json connect --device "sim:$socket" --timeout 60 --address $adapter/24 --tcp $tcp --private-data "$data" --connect-timeout 5 \
        $peer_address:$port </dev/null >$work/mpa-connect.json 2>$work/mpa-connect.log || true
    came=$(python3 -c 'import json, sys
print([e["status"] for e in map(json.loads, open(sys.argv[1])) if e.get("event") == "connect_reply"])' $work/mpa-connect.json)
    [ "$came" = "[$status]" ] || finish FAIL "the adapter connects, $case: CONNECT_REPLY $came, not $status"
    code=0
    wait $server || code=$?
    server=''
    [ $code = 0 ] || finish FAIL "the adapter connects, $case: $(cat $work/mpa-server.json | tr -d '"\\')"
    connects=$((connects + 1))
done < <(python3 tests/tap/mpa.py cases)
unserve
bad=$(tshark -n -r $work/mpa-peer.pcapng -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -Y 'ip.checksum.status == 0 or tcp.checksum.status == 0' \
    2>$work/tshark.log | wc -l) || finish FAIL "tshark does not read the capture"
[ "$bad" = 0 ] || finish FAIL "tshark finds $bad bad frames in $work/mpa-peer.pcapng"
# both as initiator and as responder the kernel has shut its window, and the adapter has looked whether it opens
for direction in dst src; do
    shut=$(tshark -n -r $work/mpa-peer.pcapng -Y "ip.src == $peer_address and tcp.${direction}port == $port and tcp.window_size == 0 and tcp.flags.reset == 0" | wc -l)
    [ "$shut" -ge 4 ] || finish FAIL "the window was shut in $shut segments only ($direction)"
done 2>$work/tshark.log
# 3: lives over a bad wire
serve $work/mpa-faults.pcapng --faults "$faults"
listen
timeout $((120 + 5 * lives)) ip netns exec $peer python3 - "$adapter" $port "$lives" >$work/mpa-lives.json <<'PY' || finish FAIL "lives: $(tail -n 1 $work/mpa-lives.json | tr -d '"\\')"
import sys
sys.path.insert(0, "tests/tap")
import mpa
mpa.client_cases = lambda: iter(())
sys.exit(0 if mpa.client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])) else 1)
PY
sleep 2
unlisten
unserve
finish PASS "$cases cases of Linux's TCP as initiator, $connects as responder, $lives lives with $faults; nothing left over"
