#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Start-up octets of captured iWARP connections, as they were cut into segments.

usage: extract.py FILE.pcap... >tests/golden/siw.tsv
       extract.py --streams FILE.pcap... >tests/golden/siw-streams.tsv

A row a TCP conversation: name of the capture (#n from the second conversation on), what the side that sent the SYN sent, and what the other
side sent. Each is a list of segments with "+" between them, in hex but for a key at the front of a segment, which is "req:" or "rep:". "fin" or
"rst" comes last if the conversation ended from this side before both frames were there, "refused" if the SYN was answered by RST; "-" is
nothing at all. A direction ends with the segment that completes its start-up frame, with whatever else that segment holds; if none does,
everything stands there.

With --streams a row is a conversation that goes on behind both start-up frames, with all segments; of those that are alike the first. In hex
"(00,07*64)" are 64 octets, of which the first is 00 and each other by 07 more than the one before, modulo 256.
"""
import os
import struct
import sys

FIN, SYN, RST = 1, 2, 4
KEYS = {b"MPA ID Req Frame": "req:", b"MPA ID Rep Frame": "rep:"}


def segments(path):
    """Source, destination, flags, sequence number and payload of each TCP segment."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"\xd4\xc3\xb2\xa1":
        sys.exit(f"{path}: not a little-endian pcap file")
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack("<I", data[at + 8 : at + 12])[0]
        frame = data[at + 16 : at + 16 + size]
        at += 16 + size
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip = frame[14 : 14 + struct.unpack(">H", frame[16:18])[0]]
        tcp = ip[(ip[0] & 15) * 4 :]
        source, destination, seq = struct.unpack(">HHI", tcp[:8])
        yield (ip[12:16], source), (ip[16:20], destination), tcp[13], seq, tcp[(tcp[12] >> 4) * 4 :]


def runs(octets):
    """Hex, where 8 octets or more that grow evenly are a run."""
    out, at = [], 0
    while at < len(octets):
        step = (octets[at + 1] - octets[at]) & 255 if at + 1 < len(octets) else 0
        end = at + 1
        while end < len(octets) and (octets[end - 1] + step) & 255 == octets[end]:
            end += 1
        if end - at >= 8:
            out.append(f"({octets[at]:02x},{step:02x}*{end - at})")
            at = end
        else:
            out.append(f"{octets[at]:02x}")
            at += 1
    return "".join(out)


class Direction:
    whole = False

    def __init__(self):
        self.next = 0
        self.cut = []
        self.end = ""

    def complete(self):
        octets = b"".join(self.cut)
        return len(octets) >= 20 and octets[:16] in KEYS and len(octets) >= 20 + struct.unpack(">H", octets[18:20])[0]

    def take(self, flags, seq, payload):
        if flags & SYN:
            self.next = (seq + 1) & 0xFFFFFFFF
        elif payload and seq == self.next and (self.whole or not self.complete()):
            self.cut.append(payload)
            self.next = (seq + len(payload)) & 0xFFFFFFFF

    def goes_on(self):
        return self.complete() and len(b"".join(self.cut)) > 20 + struct.unpack(">H", b"".join(self.cut)[18:20])[0]

    def text(self):
        form = runs if self.whole else bytes.hex
        cut = [KEYS[c[:16]] + form(c[16:]) if c[:16] in KEYS else form(c) for c in self.cut]
        return "+".join(cut + [self.end] * bool(self.end)) or "-"


def conversations(path):
    """Both directions of each, the one with the SYN first."""
    found = {}
    for source, destination, flags, seq, payload in segments(path):
        key = frozenset((source, destination))
        if key not in found and flags & SYN:
            found[key] = {source: Direction(), destination: Direction()}
        if key not in found:
            continue
        own, other = found[key][source], found[key][destination]
        own.take(flags, seq, payload)
        if flags & (FIN | RST) and not (own.end or other.end) and not (own.complete() and other.complete()):
            refused = flags & RST and not own.next
            own.end = "refused" if refused else "rst" if flags & RST else "fin"
    return [list(talk.values()) for talk in found.values()]


def main():
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# capture\topener\tother")
    Direction.whole = sys.argv[1] == "--streams"
    seen = set()
    for path in sys.argv[1 + Direction.whole :]:
        name = os.path.splitext(os.path.basename(path))[0]
        for n, ends in enumerate(conversations(path), 1):
            row = "\t".join(end.text() for end in ends)
            if Direction.whole:
                if not all(end.complete() for end in ends) or not any(end.goes_on() for end in ends) or (name, row) in seen:
                    continue
                seen.add((name, row))
            print(name if n == 1 else f"{name}#{n}", row, sep="\t")


if __name__ == "__main__":
    main()
