#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linux's TCP as the peer of the adapter's MPA start-up: plain sockets, frames written by hand from RFC 5044 and RFC 6581.

mpa.py client ADDRESS PORT [LIVES]    connects to the adapter, which accepts, or rejects private data that begins with "no"
mpa.py server ADDRESS PORT CASE       waits for one connection of the adapter and answers it as CASE says
mpa.py cases                          the cases of the server, each with the status that CONNECT_REPLY must have

One JSON object a case on standard output; the exit status is 0 if every case ended as it must. Every wait is bounded.
"""
import json
import socket
import struct
import sys
import time

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
BOUND = 30.0
TCP_REPAIR = 19  # of linux/tcp.h: close() of such a socket sends nothing
RECEIVE_BUFFER = "/proc/sys/net/ipv4/tcp_rmem"  # of this network namespace
LONG = 480  # octets of the adapter's private data: more than a narrow socket has a window for


def frame(key, flags=C, rev=1, data=b"", words=None, length=None):
    body = (struct.pack(">HH", *words) if words else b"") + data
    return key + struct.pack(">BBH", flags | (S if words else 0), rev, len(body) if length is None else length) + body


def receive(peer, count):
    """Up to `count` octets; fewer if the peer ends. A reset is None."""
    data = b""
    try:
        while len(data) < count:
            part = peer.recv(count - len(data))
            if not part:
                return data
            data += part
    except ConnectionResetError:
        return None
    return data


def receive_frame(peer, key):
    """(flags, rev, data) of a start-up frame, or what came instead: 'closed', 'reset', or the octets."""
    head = receive(peer, 20)
    if head is None:
        return "reset"
    if not head:
        return "closed"
    if len(head) < 20 or head[:16] != key:
        return head.hex()
    flags, rev, length = struct.unpack(">BBH", head[16:])
    data = receive(peer, length)
    return (flags, rev, data)


def ended(peer):
    """How the peer ends: 'closed', 'reset', or octets that should not have come."""
    data = receive(peer, 1)
    return "reset" if data is None else "closed" if not data else data.hex()


def send(peer, chunks, pause=0.002):
    try:
        for n, chunk in enumerate(chunks):
            if n:
                time.sleep(pause)
            peer.sendall(chunk)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the peer has judged before it had everything


def octets(data):
    return [data[i : i + 1] for i in range(len(data))]


# name, chunks, what must come: 'accept', 'reject', 'end' (closed or reset without a Reply)
def client_cases():
    plain = frame(REQUEST, data=b"hello")
    enhanced = frame(REQUEST, rev=2, words=(0x0004, 0x0004), data=b"hello")
    yield "rev 1", [plain], "accept"
    yield "rev 1 without private data", [frame(REQUEST)], "accept"
    yield "rev 1 with 512 octets", [frame(REQUEST, data=bytes(range(256)) * 2)], "accept"
    yield "rev 1 without CRC", [frame(REQUEST, flags=0, data=b"hello")], "accept"
    yield "rev 1 with every reserved bit", [frame(REQUEST, flags=C | 0x1F, data=b"hello")], "accept"
    yield "rev 1 with R", [frame(REQUEST, flags=C | R, data=b"hello")], "accept"
    yield "rev 2", [enhanced], "accept"
    yield "rev 2 without words", [frame(REQUEST, rev=2, data=b"hello")], "accept"
    yield "rev 2 with 508 octets", [frame(REQUEST, rev=2, words=(4, 4), data=bytes(508))], "accept"
    yield "rev 2, not negotiated", [frame(REQUEST, rev=2, words=(0x3FFF, 0x3FFF))], "accept"
    yield "rejected", [frame(REQUEST, data=b"no thanks")], "reject"
    yield "rejected, rev 2", [frame(REQUEST, rev=2, words=(4, 32), data=b"no thanks")], "reject"
    yield "octet by octet", octets(plain), "accept"
    yield "octet by octet, rev 2", octets(enhanced), "accept"
    for at in range(1, len(enhanced)):
        yield f"cut at {at}", [enhanced[:at], enhanced[at:]], "accept"
    yield "wrong key", [b"MPA ID Rex Frame" + plain[16:]], "end"
    yield "a Reply", [frame(REPLY, data=b"hello")], "end"
    yield "rubbish", [bytes(range(64))], "end"
    yield "rubbish octet by octet", octets(b"GET / HTTP/1.0\r\n\r\n"), "end"
    yield "513 octets announced", [frame(REQUEST, length=513) + bytes(513)], "end"
    yield "65535 octets announced", [frame(REQUEST, length=65535)], "end"
    for rev in (0, 3, 255):
        yield f"rev {rev}", [frame(REQUEST, rev=rev)], "end"
    for length in range(4):
        yield f"enhanced with {length} octets", [frame(REQUEST, flags=C | S, rev=2, data=bytes(length))], "end"
    yield "octets behind the Request", [plain + b"x"], "end"
    yield "an FPDU behind the Request", [plain + bytes.fromhex("000e4143000000010000000000000000") + bytes(4)], "end"


def narrow():
    """A socket with a receive buffer of 400 octets: its window is shut after some 150 that are not read."""
    with open(RECEIVE_BUFFER) as file:
        usual = file.read()
    try:
        with open(RECEIVE_BUFFER, "w") as file:
            file.write("1 400 400")
        return socket.socket()
    finally:
        with open(RECEIVE_BUFFER, "w") as file:
            file.write(usual)


def connect(address, port, make=socket.socket):
    peer = make()
    peer.settimeout(BOUND)
    peer.connect((address, port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def judge(came, expected):
    if expected == "end":
        return came in ("closed", "reset")
    if not isinstance(came, tuple):
        return False
    return bool(came[0] & R) == (expected == "reject")


def tell(name, good, **more):
    print(json.dumps({"case": name, "ok": good, **more}), flush=True)
    return good


def client(address, port, lives):
    good = True
    for name, chunks, expected in client_cases():
        start = time.monotonic()
        peer = connect(address, port)
        send(peer, chunks)
        came = receive_frame(peer, REPLY)
        right = judge(came, expected)
        end = None
        if expected == "accept" and right:
            whole = b"".join(chunks)
            right = came[1] == whole[17] and bool(came[0] & S) == bool(whole[17] == 2 and whole[16] & S)
            peer.shutdown(socket.SHUT_WR)  # a half-close: the adapter closes its side too
            end = ended(peer)
            right &= end == "closed"
        elif expected == "reject" and right:
            end = ended(peer)
            right &= end == "closed"
        peer.close()
        good &= tell(name, right, came=str(came), end=end, seconds=round(time.monotonic() - start, 3))
    # how the kernel can end it, at every moment
    plain = frame(REQUEST, data=b"hello")
    for sent in (0, 10, 20, len(plain)):
        for how in ("close", "reset"):
            peer = connect(address, port)
            send(peer, [plain[:sent]])
            if sent == len(plain):
                receive_frame(peer, REPLY)
            if how == "reset":
                reset(peer)
                end = "reset"
            else:
                peer.shutdown(socket.SHUT_WR)
                end = ended(peer)
                peer.close()
            good &= tell(f"{how} after {sent} octets", end in ("closed", "reset"), end=end)
    peer = connect(address, port)
    start = time.monotonic()
    end = ended(peer)
    good &= tell("silence", end in ("closed", "reset"), end=end, seconds=round(time.monotonic() - start, 3))
    peer.close()
    # the window shuts in the middle of the Reply: for some time, and for good
    for pause in (1.5, 4.0):
        peer = connect(address, port, narrow)
        send(peer, [plain])
        time.sleep(pause)
        came = receive_frame(peer, REPLY)
        peer.shutdown(socket.SHUT_WR)
        end = ended(peer)
        right = judge(came, "accept") and len(came[2]) == LONG and end == "closed"
        good &= tell(f"a window shut for {pause} s", right, came=str(came), end=end)
        peer.close()
    peer = connect(address, port, narrow)
    send(peer, [plain])
    time.sleep(3)
    peer.shutdown(socket.SHUT_WR)
    time.sleep(2)
    reset(peer)
    good &= tell("a window that stays shut", True)
    # a peer that goes without a word, as when its RST is lost: the connection lives until the driver ends it
    peer = connect(address, port)
    send(peer, [plain])
    came = receive_frame(peer, REPLY)
    peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    peer.close()
    good &= tell("gone without a word", judge(came, "accept"), came=str(came))
    # lives, one after the other
    failed, start = 0, time.monotonic()
    for n in range(lives):
        peer = connect(address, port)
        send(peer, [frame(REQUEST, data=b"life %d" % n)])
        came = receive_frame(peer, REPLY)
        if not judge(came, "accept"):
            failed += 1
            tell(f"life {n}", False, came=str(came))
        elif n % 3 == 2:
            reset(peer)
            continue
        else:
            peer.shutdown(socket.SHUT_WR)
            end = ended(peer)
            if end != "closed":
                failed += 1
                tell(f"life {n}", False, end=end)
        peer.close()
    if lives:
        good &= tell(f"{lives} lives", failed == 0, failed=failed, seconds=round(time.monotonic() - start, 3))
    return good


def answer(request, data=b"welcome", flags=0, **more):
    return frame(REPLY, flags=(request[0] & C) | flags, rev=more.pop("rev", request[1]), data=data, **more)


# name: (chunks for a Request, status of CONNECT_REPLY); chunks None = nothing is sent
SERVER_CASES = {
    "accept": (lambda r: [answer(r)], 0),
    "accept-512": (lambda r: [answer(r, bytes(512))], 0),
    "accept-octets": (lambda r: octets(answer(r)), 0),
    "accept-cut": (lambda r: [answer(r)[:19], answer(r)[19:22], answer(r)[22:]], 0),
    "reject": (lambda r: [answer(r, b"no", R)], -111),
    "wrong-key": (lambda r: [frame(REQUEST, data=b"hello")], -71),
    "rubbish": (lambda r: [b"HTTP/1.0 400 Bad Request\r\n\r\n"], -71),
    "wrong-revision": (lambda r: [answer(r, rev=3)], -71),
    "too-long": (lambda r: [frame(REPLY, length=513)], -71),
    "close": (lambda r: None, -104),
    "reset": (lambda r: None, -104),
    "half": (lambda r: [answer(r)[:10]], -104),
    "silence": (lambda r: None, -110),
    # the window is shut in the middle of the Request, for 2 s or until the adapter gives up
    "slow": (lambda r: [answer(r)], 0),
    "never": (lambda r: None, -110),
}


def server(address, port, case):
    chunks, status = SERVER_CASES[case]
    listener = narrow() if case in ("slow", "never") else socket.socket()
    listener.settimeout(2 * BOUND)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    peer, _ = listener.accept()
    peer.settimeout(2 * BOUND)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if case == "slow":
        time.sleep(2)
    elif case == "never":
        time.sleep(8)
        end = receive(peer, 20 + LONG)
        return tell(case, end is None or len(end) < 20 + LONG, came=str(end))
    request = receive_frame(peer, REQUEST)
    if not isinstance(request, tuple) or len(request[2]) != LONG:
        return tell(case, False, came=str(request))
    send(peer, chunks(request) or [])
    end = None
    if case == "reset":
        reset(peer)
    else:
        if case in ("close", "half"):
            peer.shutdown(socket.SHUT_WR)
        end = ended(peer)  # the adapter ends, in order or not
        peer.close()
    good = end in (None, "closed", "reset") and (status != 0 or end == "closed")
    return tell(case, good, request=[request[0], request[1], request[2].hex()], end=end)


def main():
    if sys.argv[1:2] == ["cases"]:
        for name, (_, status) in SERVER_CASES.items():
            print(name, status)
        return True
    mode, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if mode == "client":
        return client(address, port, int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    return server(address, port, sys.argv[4])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
