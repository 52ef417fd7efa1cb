#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""segments.py FILE.pcap ADDRESS: how FPDUs lie in the TCP segments that ADDRESS sent, after its start-up frames (no markers).

Prints the number of segments, of those that begin with an FPDU, and of those that are exactly one; ends with 0 if all are. A segment
that is sent again counts once. FILE.pcap may be of `interop.py --pcap`.
"""
import socket, struct, sys

SYN = 2


def segments(path, address):
    """Connection, flags, sequence number and payload of each TCP segment from there."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"\xd4\xc3\xb2\xa1":
        sys.exit(f"{path}: not a little-endian pcap file")
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack("<I", data[at + 8 : at + 12])[0]
        frame = data[at + 16 : at + 16 + size]
        at += 16 + size
        if frame[12:14] != b"\x08\x00" or frame[23] != 6 or frame[26:30] != address:
            continue
        ip = frame[14 : 14 + struct.unpack(">H", frame[16:18])[0]]
        tcp = ip[(ip[0] & 15) * 4 :]
        source, destination, seq = struct.unpack(">HHI", tcp[:8])
        yield (source, ip[16:20], destination), tcp[13], seq, tcp[(tcp[12] >> 4) * 4 :]


def main():
    expected, missing = {}, {}  # sequence number; octets of the open FPDU that have not come, None before the start-up frame
    count = begin = one = 0
    for connection, flags, seq, payload in segments(sys.argv[1], socket.inet_aton(sys.argv[2])):
        if flags & SYN:
            expected[connection], missing[connection] = seq + 1 & 0xFFFFFFFF, None
        if not payload or seq != expected.get(connection):
            continue
        expected[connection] = seq + len(payload) & 0xFFFFFFFF
        left = missing[connection]
        if left is None:
            if payload.startswith(b"MPA ID"):
                missing[connection] = 0
            continue
        count += 1
        begin += left == 0
        starts, at = [], left
        while at < len(payload):
            starts.append(at)
            ulpdu = struct.unpack(">H", payload[at : at + 2].ljust(2, b"\0"))[0]
            at += (2 + ulpdu + 3) // 4 * 4 + 4
        missing[connection] = at - len(payload)
        one += starts == [0] and at == len(payload)
    print(f"{count} segments, {begin} begin with an FPDU, {one} are exactly one")
    return 0 if count and one == count else 1


if __name__ == "__main__":
    sys.exit(main())
