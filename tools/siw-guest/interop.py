#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""interop.py IRONWARP: rdma-core's own programs on Linux siw, in a QEMU guest, against the `ironwarp` command outside, both roles, on two devices:

  soft   the host's own TCP, on a bridge in a network namespace that this makes and takes away (root)
  sim    the simulated adapter (`ironwarp sim`), its wire a TAP on that bridge; every case has a new one

Every wait is bounded; only processes started here are ended. Last line: `siw: PASS` or `siw: FAIL`.
"""
import argparse, base64, contextlib, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
HOST, GUEST, PROBE = "10.77.0.1", "10.77.0.2", "10.77.0.3"
# where the command listens, if its words do not say
PORTS = {"rping": 7174, "ucmatose": 7471, "cmtime": 7471, "perf": 18515}
BRIDGE = "siw"
ADAPTER_MAC = "02:1b:ad:00:00:01"  # the driver's default
EXPERT_ERROR = 0x800000  # tshark's severity "error"


class Guest:
    """A booted guest that runs scripts."""

    def __init__(self, qemu, directory, namespace, tap, siw, arguments=""):
        self.directory, self.sequence = tempfile.mkdtemp(prefix="siw."), 0
        agent = f"{self.directory}/agent"
        line = f"console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on no_timer_check ip={GUEST} siw={siw}"
        if arguments:
            line += f" siwargs={arguments}"
        command = ["ip", "netns", "exec", namespace, "nice", *qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "pc,usb=off", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "1", "-m", "256",
            "-kernel", f"{directory}/vmlinuz", "-initrd", f"{directory}/initrd.cpio", "-append", line,
            "-serial", f"file:{self.directory}/console", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,path={agent},server=on,wait=off", "-device", "virtserialport,chardev=agent,name=agent",
            "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no", "-device", "virtio-net-pci,netdev=net,mac=52:54:00:00:00:02,romfile="]
        self.log = open(f"{self.directory}/qemu", "w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.time() + 240
        while True:
            if self.process.poll() is not None or time.time() > end:
                raise RuntimeError("the guest does not start: " + open(f"{self.directory}/qemu").read())
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(agent)
                break
            except OSError:
                time.sleep(0.1)
        self.socket.settimeout(240)
        self.file = self.socket.makefile("rb")
        if self.file.readline().strip() != b"READY":
            raise RuntimeError("the guest's agent is not ready: " + "".join(open(f"{self.directory}/{name}", errors="replace").read()[-2000:] for name in ["qemu", "console"]))

    def run(self, script, timeout=120):
        """Status and output of a shell script."""
        self.sequence += 1
        self.socket.settimeout(timeout)
        self.socket.sendall(f"{self.sequence} {base64.b64encode(script.encode()).decode()}\n".encode())
        head = self.file.readline().split()
        if not head or int(head[0]) != self.sequence:
            raise RuntimeError(f"the guest's agent lost its place: {head}")
        return int(head[1]), self.file.read(int(head[2])).decode(errors="replace")

    def start(self, script):
        """In the background; `finish` waits for it."""
        # what the shell says of a program that dies does not belong to the status
        self.run(f"rm -f /tmp/status; ( ( {script} ) > /tmp/background 2>&1; echo $? > /tmp/status ) 2>/dev/null &\n")

    def serve(self, script, timeout=30):
        """As `start`, and waits until something listens. Nothing else listens in the guest."""
        self.start(script)
        end = time.time() + timeout
        while self.run("grep -q ' 0A ' /proc/net/tcp")[0] != 0 and time.time() < end:
            time.sleep(0.1)

    def finish(self, timeout=120):
        end = time.time() + timeout
        while time.time() < end:
            _, text = self.run("cat /tmp/status 2>/dev/null")
            if text.strip():
                return int(text), self.run("cat /tmp/background")[1]
            time.sleep(0.2)
        return None, self.run("cat /tmp/background")[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Soft:
    """The host's own TCP, with its address on the bridge."""

    name = "soft"

    def __init__(self, namespace, ironwarp):
        # siw loses a first message that comes before it has set its receive callback
        self.namespace, self.ironwarp, self.words = namespace, ironwarp, ["--device", "soft", "--first-fpdu-delay", "0.2"]

    def __enter__(self):
        subprocess.run(["ip", "-n", self.namespace, "addr", "replace", f"{HOST}/24", "dev", BRIDGE], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "-n", self.namespace, "addr", "flush", "dev", BRIDGE], check=True)

    def command(self, *words):
        return ["ip", "netns", "exec", self.namespace, self.ironwarp, *words, *self.words]

    def wait(self, process, _words):
        """Until it listens. Nothing else does in the namespace, once the process is in it."""
        end, space = time.time() + 30, os.readlink("/proc/self/ns/net")
        while process.poll() is None and time.time() < end:
            if os.readlink(f"/proc/{process.pid}/ns/net") != space and " 0A " in open(f"/proc/{process.pid}/net/tcp").read():
                return
            time.sleep(0.05)

    def verdict(self):
        """What is wrong with what the device did, but for what the programs say."""
        return ""


class Sim:
    """A simulated adapter of its own for a case. What it sends must be right in the eyes of tshark."""

    name, tap = "sim", "siwadapter"

    def __init__(self, namespace, ironwarp):
        self.namespace, self.ironwarp = namespace, ironwarp

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="siw.")
        adapter, self.pcap = f"{self.directory}/adapter", f"{self.directory}/wire.pcapng"
        self.words = ["--device", f"sim:{adapter}", "--timeout", "60", "--address", f"{HOST}/24", "--first-fpdu-delay", "0.2"]
        words = ["ip", "netns", "exec", self.namespace, self.ironwarp, "sim", "--socket", adapter, "--tap", self.tap, "--pcap", self.pcap]
        self.log = open(f"{self.directory}/sim", "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.time() + 60
        while not os.path.exists(adapter):
            if self.process.poll() is not None or time.time() > end:
                self.__exit__()
                raise RuntimeError("ironwarp sim does not serve an adapter")
            time.sleep(0.05)
        subprocess.run(["ip", "-n", self.namespace, "link", "set", self.tap, "master", BRIDGE, "up"], check=True)
        subprocess.run(["ip", "-n", self.namespace, "addr", "replace", f"{PROBE}/24", "dev", BRIDGE], check=True)
        return self

    def __exit__(self, *_):
        self.stop()
        subprocess.run(["ip", "-n", self.namespace, "addr", "flush", "dev", BRIDGE], check=True)
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def command(self, *words):
        return [self.ironwarp, *words, *self.words]

    def wait(self, process, words):
        """Until the adapter answers a SYN. What asks closes again and has said nothing."""
        port = words[words.index("-p") + 1] if "-p" in words else PORTS[words[0]]
        probe = f"import socket; socket.create_connection(('{HOST}', {port}), 20).close()"
        end = time.time() + 120
        while process.poll() is None and time.time() < end:
            words = ["ip", "netns", "exec", self.namespace, "python3", "-c", probe]
            if subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.2)

    def verdict(self):
        code = self.stop()
        self.log.seek(0)
        wrong = [] if code == 0 else [f"ironwarp sim ended with {code}: {self.log.read()}"]
        fields = ["frame.number", "_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "_ws.expert.severity", "tcp.stream", "tcp.seq", "tcp.len",
            "frame.protocols", "_ws.expert.message", "_ws.col.Info"]
        # a Send is not taken for RPC over RDMA, which it is not
        words = ["tshark", "-n", "-r", self.pcap, "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "--disable-heuristic", "rpcrdma_iwarp",
            "-Y", f"eth.src == {ADAPTER_MAC}", "-T", "fields"]
        done = subprocess.run([*words, *(word for field in fields for word in ["-e", field])], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append("tshark: " + done.stderr)
        rows = [row.split("\t") for row in done.stdout.splitlines()]
        sent = {}
        for number, malformed, ip_sum, tcp_sum, severity, stream, seq, octets, protocols, expert, info in rows:
            # what tshark takes for out of order may be a retransmission of ours: no adapter leaves a hole
            alien = False
            if octets not in ("", "0"):
                begin, end = int(seq), int(seq) + int(octets)
                before = sent.get(stream, begin)
                sent[stream] = max(before, end)
                alien = begin > before or end > before and "iwarp" not in protocols
            error = any(int(s) >= EXPERT_ERROR for s in severity.split(",") if s)
            if malformed or "0" in (ip_sum, tcp_sum) or alien or error:
                wrong.append(f"tshark, frame {number}: {info}: {expert}")
        if not rows:
            wrong.append("tshark: nothing from the adapter")
        return "\n".join(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironwarp")
    parser.add_argument("--guest", default="build/siw-guest", help="directory made by build.sh")
    parser.add_argument("--qemu", default="build/qemu/qemu", help="made by tools/vfio-guest/qemu.sh")
    parser.add_argument("--device", choices=["soft", "sim"], help="one of the two alone")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--pcap", help="file for what is on the wire (tcpdump)")
    parser.add_argument("--verbose", action="store_true", help="what both ends print, of all cases")
    parser.add_argument("--short", action="store_true", help="a few cases")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is taken away
    namespace = f"siw{os.getpid() % 10000}"
    tap = f"t{namespace}"
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    results, guest, capture = [], None, None
    ip("netns", "add", namespace)
    try:
        ip("netns", "exec", namespace, "sh", "-c", "for each in all default; do echo 1 > /proc/sys/net/ipv6/conf/$each/disable_ipv6 || true; done")
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", namespace, "link", "add", BRIDGE, "address", "52:54:00:00:00:01", "up", "type", "bridge")
        ip("-n", namespace, "tuntap", "add", "dev", tap, "mode", "tap")
        ip("-n", namespace, "link", "set", tap, "master", BRIDGE, "up")
        if arguments.pcap:
            words = ["ip", "netns", "exec", namespace, "tcpdump", "-q", "-U", "-s", "0", "-i", tap, "-w", arguments.pcap, "tcp"]
            capture = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1.0)

        def client(device, *words, timeout=120):
            done = subprocess.run(device.command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            return done.returncode, done.stdout + done.stderr

        @contextlib.contextmanager
        def serving(device, words):
            """The command as a server, once it listens."""
            process = subprocess.Popen(device.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                device.wait(process, words)
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

        def output(process):
            """All that a process prints until its end."""
            try:
                return process.communicate(timeout=60)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                return process.communicate()[0] + "\n(did not end)"

        def ours_to_guest(device, server, *words):
            """The guest serves, we are the client."""
            guest.serve(server)
            status, text = client(device, *words)
            served, heard = guest.finish()
            return status == 0 and served == 0, f"client {status}: {text}\nguest {served}: {heard}"

        def guest_to_ours(device, server, script):
            """We serve, the guest is the client."""
            with serving(device, server) as process:
                guest.start(script)
                status, text = guest.finish()
                if status is None:
                    process.terminate()
                heard = output(process)
                return status == 0 and process.returncode == 0, f"guest {status}: {text}\nserver {process.returncode}: {heard}"

        def refused_by_guest(device, *flags):
            """Both ends see the other's words; our client fails."""
            guest.serve(f"refuse -s {GUEST} 7471 'not you'")
            status, text = client(device, "rping", *flags, "-c", "-a", GUEST, "-p", "7471", "-C", "1", "--private-data", "it is me")
            served, heard = guest.finish()
            good = status == 1 and served == 0 and "REJECTED" in text and "it says: not you" in text and "8 octets: it is me" in heard
            return good, f"client {status}: {text}\nguest {served}: {heard}"

        def refused_by_us(device, *flags):
            with serving(device, ["rping", *flags, "-s", "-a", HOST, "-p", "7471", "--reject", "not you"]) as process:
                guest.start(f"refuse -c {HOST} 7471 'it is me'")
                status, text = guest.finish()
                process.terminate()
                heard = output(process)
                good = status == 0 and "rejected, status -104, 7 octets: not you" in text and "which says: it is me" in heard
                return good, f"guest {status}: {text}\nserver: {heard}"

        cases = []

        # the table: every case below is one of each device, with numbers that its speed allows
        for kind, settings in [("stock", ""), ("tun", "mpa_version=1"), ("tun", "mpa_crc_required=1"), ("tun", "peer_to_peer=1,mpa_crc_required=1")]:
            stock, rev1, p2p = kind == "stock", "mpa_version=1" in settings, "peer_to_peer" in settings
            ours = ["--mpa1"] if rev1 else ["--p2p"] if p2p else ["--no-crc"] if stock else []
            for device in [Soft, Sim]:
                sim = device is Sim

                def case(name, run, *words, short=False):
                    cases.append((kind, settings, device, name, run, words, short))

                def rping(name, size, count, short=False):
                    mine, theirs = ["rping", *ours, *size.split()], f"-C {count} -V {size}"
                    # in revision 1 a siw responder has no ORD, and its own post_send refuses the Read that rping's server does
                    if not rev1:
                        case(f"{name}, the guest serves", ours_to_guest, f"rping -s -a {GUEST} {theirs}", *mine, "-c", "-a", GUEST, "-C", str(count), "-V", short=short)
                    case(f"{name}, we serve", guest_to_ours, [*mine, "-s", "-a", HOST], f"rping -c -a {HOST} {theirs}", short=short)

                def perftest(verb, measure, flags, short=False):
                    # a Request that asks an adapter for more Reads than it can hold is refused
                    flags += " -o 8" if sim and verb == "read" else ""
                    theirs, mine = f"ib_{verb}_{measure} -R -d siw0 {flags}", ["perf", verb, measure, "-e", *ours, *flags.split()]
                    name = f"ib_{verb}_{measure} {flags}"
                    case(f"{name}, the guest serves", ours_to_guest, theirs, *mine, GUEST, short=short)
                    if f"{verb}_{measure}" == "write_lat":
                        # its server speaks first, which an adapter does not let a responder do
                        if sim and not p2p:
                            return
                        mine += [] if sim else ["--eager-responder"]
                    case(f"{name}, we serve", guest_to_ours, mine, f"{theirs} {HOST}", short=short)

                rping("rping", "", 3 if sim else 10, stock or sim and p2p)
                case("reject with private data, the guest rejects", refused_by_guest, *ours, short=stock)
                case("reject with private data, we reject", refused_by_us, *ours, short=stock)
                rping("rping of 64 KiB", "-S 65000", 1 if sim else 5)
                case("ucmatose of 20 connections, the guest serves", ours_to_guest, "ucmatose -c 20 -C 4", "ucmatose", *ours, "-s", GUEST, "-c", "20", "-C", "4")
                case("ucmatose of 20 connections without messages, we serve", guest_to_ours, ["ucmatose", *ours, "-c", "20", "-C", "0"], f"ucmatose -s {HOST} -c 20 -C 0")
                case("cmtime, we serve", guest_to_ours, ["cmtime", *ours, "-c", "20"], f"cmtime -s {HOST} -c 20")
                for verb in ["send", "write", "read"]:
                    perftest(verb, "bw", "-s 8192 -n 10" if sim else "-s 65536 -n 100", stock and (verb == "send" or not sim))
                    perftest(verb, "lat", "-s 64 -n 10" if sim else "-s 64 -n 200", stock and not sim)
                    if stock and not sim:
                        perftest(verb, "bw", "-s 1 -n 300")
                        perftest(verb, "bw", "-s 1000000 -n 10")
                        perftest(verb, "lat", "-s 1 -n 300")
                        perftest(verb, "lat", "-s 10000 -n 50")
                if stock:
                    # more messages than a receiver has room for: it must tell the sender when it has taken some
                    if not sim:
                        perftest("send", "bw", "-s 1000 -n 2000")
                    perftest("send", "bw", f"-s 100 -n {30 if sim else 200} -r 7")
        booted = None
        for kind, settings, device, name, run, words, short in cases:
            label = f"{device.name}, {kind} {settings}".strip()
            if arguments.only not in f"{label}: {name}" or arguments.short and not short or arguments.device not in (None, device.name):
                continue
            if booted != (kind, settings):
                if guest:
                    guest.close()
                guest = Guest([arguments.qemu], arguments.guest, namespace, tap, kind, settings)
                booted = (kind, settings)
            start = time.time()
            try:
                # the same address may be another device's by now
                guest.run("ip neigh flush dev eth0")
                with device(namespace, arguments.ironwarp) as running:
                    good, text = run(running, *words)
                    for _ in range(3):
                        # perftest could not measure the clock of a guest on a busy machine
                        if good or "Correlation coefficient" not in text:
                            break
                        good, text = run(running, *words)
                    wrong = running.verdict()
                    if wrong:
                        good, text = False, f"{text}\n{wrong}"
            except Exception as error:  # a bound that passed is a failure of the case, not of the run
                good, text = False, repr(error)
            results.append({"device": device.name, "guest": f"{kind} {settings}".strip(), "case": name, "pass": good, "seconds": round(time.time() - start, 1)})
            print(f"siw: {'ok  ' if good else 'FAIL'} {label}: {name} ({results[-1]['seconds']} s)", flush=True)
            if arguments.verbose or not good:
                print("\n".join("  | " + line for line in text.splitlines()[-40:]), flush=True)
            if not good:
                # what hangs must not disturb the next case
                guest.run("killall -9 rping ucmatose cmtime refuse ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat 2>/dev/null; true")
    finally:
        if guest:
            guest.close()
        if capture:
            capture.terminate()
            capture.wait()
        subprocess.run(["ip", "netns", "delete", namespace], check=False)
    os.makedirs("build/report", exist_ok=True)
    with open("build/report/siw.json", "w") as report:
        json.dump(results, report, indent=1)
    good = bool(results) and all(result["pass"] for result in results)
    print(f"siw: {sum(r['pass'] for r in results)} of {len(results)} cases")
    print("siw: PASS" if good else "siw: FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
