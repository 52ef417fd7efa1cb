#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh: real input. Linux's own stack is the peer of the Verilated adapter, another one the host behind it, each in a network namespace:
#
#   peer: ping, curl -- TAP iwpeer -- ironwarp sim (wire) = adapter = ironwarp l2 (driver) -- TAP iwhost -- HTTP server :host
#
# Checked: pings of 0, 1, 56 and 1472 octets and a long row of them without a loss, answered by the hardware (its counters say so, and
# the host's stack has seen none); the peer's ARP entry is the adapter's MAC; a file fetched with curl from the host's server is the
# one that was put there, while the adapter listens on two other ports, whose connections the host's stack never sees; the host's own ping goes
# out after the adapter has resolved its peer; tshark finds nothing malformed and no wrong checksum in what the wire carried.
#
# Needs: root (namespaces, TAPs), iproute2, iputils-ping, curl, tshark, python3. Where the rights are missing it says NOT RUN and ends with 2.
# Everything is bounded in time; only processes started here are ended; namespaces go in the end, and the TAPs with them.
# Covers: ICMP-1, ARP-3, ARP-6, PDB-4
# PINGS: length of the row (10000). TAP_PROFILE: dev or release. Figures: build/report/tap.json. Last line `tap: PASS`, FAIL or NOT RUN.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
. tests/tap/processes.sh
pings=${PINGS:-10000}
profile=${TAP_PROFILE:-release} # `make demo` has built it already
sizes=(0 1 56 1472)
each=5          # pings of each size
burst=32        # pings that are sent before the first is answered
octets=262144   # of the file
work=build/tap
report=build/report/tap.json
adapter=192.0.2.1 peer_address=192.0.2.2 second=192.0.2.3 mac=02:1b:ad:00:00:01 # documentation addresses; the MAC is the driver's default
http=8080 closed=8081 listen=4791 ping_wait=20
peer=iw-peer-$$ host=iw-host-$$
mkdir -p "$work" build/report

start=$(date +%s)
finish() { # result reason [figures, as JSON members]
    printf '{"result":"%s","reason":"%s","seconds":%d%s}\n' "$1" "$2" $(($(date +%s) - start)) "${3:-}" >$report
    if [ "$1" = FAIL ]; then tail -n 15 $work/{sim,l2,http}.log 2>/dev/null || true; fi
    [ "$1" != 'NOT RUN' ] || { echo "tap: NOT RUN: $2"; exit 2; }
    echo "tap: $1: $2"
    [ "$1" = PASS ]
    exit
}
sim='' l2='' server='' directory=''
cleanup() {
    end "$server" || true
    end "$l2" || true
    end "$sim" || true
    ip netns del $host 2>/dev/null || true
    ip netns del $peer 2>/dev/null || true
    [ -z "$directory" ] || rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

for tool in ip ping curl tshark python3; do
    command -v $tool >/dev/null || finish 'NOT RUN' "$tool is missing (make setup)"
done
[ -c /dev/net/tun ] || finish 'NOT RUN' "there is no /dev/net/tun"
{ ip netns add $peer && ip netns add $host && ip netns exec $peer ip tuntap add dev iwprobe mode tap; } 2>$work/rights.log ||
    finish 'NOT RUN' "no right to make namespaces and TAPs: $(head -n 1 $work/rights.log | tr -d '"\\')"
ip -n $peer link del iwprobe

cargo build --quiet --profile "$profile" -p ironwarp-cli || finish FAIL "the ironwarp command does not build"
binary=$(readlink -f "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/ironwarp")
directory=$(mktemp -d) # a socket path has at most 107 octets
ip -n $host link set lo up

# the adapter and its wire
ip netns exec $peer "$binary" --json sim --socket "$directory/adapter.sock" --tap iwpeer --line gigabit --pcap $work/peer.pcapng </dev/null >$work/sim.json 2>$work/sim.log &
sim=$!
until_true 60 $sim test -S "$directory/adapter.sock" || finish FAIL "ironwarp sim made no socket"
ip -n $peer address add $peer_address/24 dev iwpeer
ip -n $peer address add $second/24 dev iwpeer
ip -n $peer link set iwpeer up

# the host behind it
ip netns exec $host "$binary" --json l2 --device "sim:$directory/adapter.sock" --timeout 60 --address $adapter/24 --interface iwhost \
    --listen $listen,0 --reserve $http </dev/null >$work/l2.json 2>$work/l2.log &
l2=$!
until_true 120 $l2 grep -q '"event":"up"' $work/l2.json || finish FAIL "ironwarp l2 did not come up"
# the kernel may take a moment to make the address one of its own
local_address() { ip -n $host route show table local | grep -q "local $adapter "; }
until_true 10 $l2 local_address || finish FAIL "the interface has no address: $(ip -n $host -brief address | tr '\n' ';')"
mkdir "$directory/files"
head -c $octets /dev/urandom >"$directory/files/file"
ip netns exec $host python3 -m http.server --bind $adapter --directory "$directory/files" $http </dev/null >$work/http.log 2>&1 &
server=$!
until_true 20 $server ip netns exec $host curl --silent --max-time 2 --output /dev/null http://$adapter:$http/ || finish FAIL "no HTTP server"

# ping and ARP
neighbour() { ip -n $peer neigh show $adapter dev iwpeer | sed -n 's/.*lladdr \([0-9a-f:]*\).*/\1/p'; }
[ -z "$(neighbour)" ] || finish FAIL "the peer knew the adapter before it asked"
pinged=0 rtt=''
row() { # from to count size [options]: about one after the other; when the machine stalls, ping sends the next before the answer.
    # With -w, ping goes on until it has `count` answers; without, it takes an answer that needs more than twice the usual time for a lost one.
    # So what was sent may be a little more than `count`; that every request has its answer is seen in the capture, in the end.
    local from=$1 to=$2 out sent='' received=''
    shift 2
    out=$(timeout --signal=INT $((60 + $1)) ip netns exec "$from" ping -n -q -A -W $ping_wait -w $((30 + $1)) -c "$1" -s "$2" "${@:3}" "$to") || true
    read -r sent received < <(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 \2/p' <<<"$out") || true
    rtt=$(sed -n 's/^rtt min\/avg\/max\/mdev = \([^ ]*\) ms.*/\1/p' <<<"$out")
    [ "$from" = "$host" ] || pinged=$((pinged + ${sent:-0}))
    echo "tap: $1 pings of $2 octets to $to${3:+ (${*:3})}: ${sent:-0} sent, ${received:-0} answered${rtt:+, rtt min/avg/max/mdev $rtt ms}"
    [ "${received:-0}" = "$1" ] || finish FAIL "ping of $2 octets: ${received:-0} of $1 answered"
    ! grep -q 'errors\|wrong data\|duplicates\|corrupted' <<<"$out" || finish FAIL "ping of $2 octets: $(sed -n 2,4p <<<"$out" | tr '\n' ' ')"
}
for size in "${sizes[@]}"; do row $peer $adapter $each "$size"; done
rtt_1472=$rtt
lladdr=$(neighbour)
[ "$lladdr" = $mac ] || finish FAIL "the peer's ARP entry is '$lladdr', the adapter's MAC $mac"
echo "tap: ARP entry of the peer: $adapter is at $lladdr"
row $peer $adapter "$pings" 56
rtt_row=$rtt
# A burst, back to back on a line of 1 Gbit/s. Much longer ones, or a line without that limit, find the hardware's two slots for
# requests used now and then: such a request is dropped and counted (ICMP-12).
row $peer $adapter $burst 56 -l $burst
in_host() { ip netns exec $host awk -v p="$1:" -v f="$2" '$1 == p && !n { n = split($0, name); next } $1 == p { for (i in name) if (name[i] == f) print $i }' /proc/net/snmp; }
echoes=$(in_host Icmp InEchos)
[ "$echoes" = 0 ] || finish FAIL "$echoes pings reached the host's stack"

# the other way: an address that the adapter has never heard of, so it asks the peer for it
row $host $second $each 56
rtt_host=$rtt

# a TCP service of the host through the adapter
fetched=$(ip netns exec $peer curl --silent --show-error --fail --max-time 300 --output "$work/fetched" --write-out '%{time_total}' \
    http://$adapter:$http/file) || finish FAIL "curl from the peer"
cmp -s "$work/fetched" "$directory/files/file" || finish FAIL "the file that curl got is another"
echo "tap: HTTP: $octets octets in $fetched s, equal to the server's"
# a port that nobody has is the host's to refuse; one that the adapter listens on is not
connect() { ip netns exec $peer curl --silent --output /dev/null --connect-timeout 3 --max-time 5 "http://$adapter:$1/"; }
code=0
connect $closed || code=$?
[ $code = 7 ] || finish FAIL "the host's stack did not refuse port $closed (curl: $code)"
resets=$(in_host Tcp OutRsts)
code=0
connect $listen || code=$?
# the adapter takes the connection and resets it, as HTTP is no MPA Request (curl 56; the host's stack has sent no RST)
[ "$code" = 56 ] && [ "$(in_host Tcp OutRsts)" = "$resets" ] || finish FAIL "the adapter did not take and reset a connection to port $listen (curl: $code)"

# the end: the driver frees its listeners, and the counters tell who did what
end $server || true
server=''
code=0
end $l2 || code=$?
l2=''
[ $code = 0 ] || finish FAIL "ironwarp l2 ended with $code (are the listeners gone?)"
code=0
end $sim || code=$?
sim=''
[ $code = 0 ] || finish FAIL "ironwarp sim ended with $code (rules of the ports broken?)"
counter() { python3 -c 'import json, sys
for text in open(sys.argv[1]):
    event = json.loads(text)
    event.update(event.get("counters", {}))
    if sys.argv[2] in event: print(json.dumps(event[sys.argv[2]]))' "$1" "$2" | tail -n 1; }
replies=$(counter $work/l2.json icmpOutEchoReps)
arp=$(counter $work/l2.json arpOutReplies)
asked=$(counter $work/l2.json arpOutRequests)
[ "$replies" = $pinged ] || finish FAIL "the peer had $pinged answers, the hardware counts ${replies:-none}"
[ "${arp:-0}" -ge 1 ] || finish FAIL "the hardware counts no ARP reply"
[ "${asked:-0}" -ge 1 ] || finish FAIL "the hardware counts no ARP request"
to_host_lost=$(counter $work/l2.json framesToHostLost)
[ "$to_host_lost" = 0 ] || finish FAIL "the host's interface did not take $to_host_lost frames"
bad=$(tshark -n -r $work/peer.pcapng -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -Y '_ws.malformed or ip.checksum.status == 0 or
    icmp.checksum.status == 0 or tcp.checksum.status == 0' 2>$work/tshark.log | wc -l) || finish FAIL "tshark does not read the capture"
[ "$bad" = 0 ] || finish FAIL "tshark finds $bad bad frames in $work/peer.pcapng"
lost=$(tshark -2 -n -r $work/peer.pcapng -Y "icmp.type == 8 and ip.dst == $adapter and not icmp.resp_in" 2>$work/tshark.log | wc -l) || finish FAIL "tshark does not read the capture"
[ "$lost" = 0 ] || finish FAIL "$lost echo requests have no answer in $work/peer.pcapng"
listening=$(counter $work/l2.json listening)
to_host=$(counter $work/l2.json framesToHost)
to_wire=$(counter $work/l2.json framesToWire)
cycles=$(counter $work/sim.json cycles)
speed=$(counter $work/sim.json cycles_per_second)
finish PASS "$pinged pings of the kernel answered by the hardware, $lost lost, rtt min/avg/max/mdev $rtt_row ms; ARP $lladdr; HTTP $octets octets in $fetched s with listeners on $listening; $cycles cycles at $speed/s" \
    ",\"pings\":$pinged,\"lost\":$lost,\"rtt_ms\":{\"56\":\"$rtt_row\",\"1472\":\"$rtt_1472\",\"host\":\"$rtt_host\"},\"arp\":\"$lladdr\",\"http\":{\"octets\":$octets,\"seconds\":$fetched},\"listening\":$listening,\"echo_replies_hardware\":$replies,\"echo_requests_host\":$echoes,\"arp_replies\":$arp,\"arp_requests\":$asked,\"frames_to_host\":$to_host,\"frames_to_wire\":$to_wire,\"cycles\":$cycles,\"cycles_per_second\":$speed"
