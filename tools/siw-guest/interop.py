#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""interop.py IRONWARP: rdma-core's own programs on Linux siw, in a QEMU guest, against `ironwarp --device soft` outside, both roles.

The guest and the command meet on a TAP in a network namespace that this makes and takes away (root). Every wait is bounded; only
processes started here are ended. Last line: `siw: PASS` or `siw: FAIL`.
"""
import argparse, base64, contextlib, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
HOST, GUEST = "10.77.0.1", "10.77.0.2"


class Guest:
    """A booted guest that runs scripts."""

    def __init__(self, qemu, directory, namespace, tap, siw, arguments=""):
        self.directory, self.sequence = tempfile.mkdtemp(prefix="siw."), 0
        agent = f"{self.directory}/agent"
        line = f"console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on ip={GUEST} siw={siw}"
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
        self.run(f"rm -f /tmp/status; ( {script} ) > /tmp/background 2>&1 && echo 0 > /tmp/status || echo $? > /tmp/status &\n")

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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ironwarp")
    parser.add_argument("--guest", default="build/siw-guest", help="directory made by build.sh")
    parser.add_argument("--qemu", default="build/qemu/qemu", help="made by tools/vfio-guest/qemu.sh")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--pcap", help="file for what is on the wire (tcpdump)")
    parser.add_argument("--verbose", action="store_true", help="what both ends print, of all cases")
    parser.add_argument("--short", action="store_true", help="a few cases on siw as it is")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is taken away
    namespace = f"siw{os.getpid() % 10000}"
    tap = f"t{namespace}"
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    results, guest, capture = [], None, None
    ip("netns", "add", namespace)
    try:
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", namespace, "tuntap", "add", "dev", tap, "mode", "tap")
        ip("-n", namespace, "addr", "add", f"{HOST}/24", "dev", tap)
        ip("-n", namespace, "link", "set", tap, "up")
        if arguments.pcap:
            words = ["ip", "netns", "exec", namespace, "tcpdump", "-q", "-U", "-s", "0", "-i", tap, "-w", arguments.pcap, "tcp"]
            capture = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1.0)

        def command(*words):
            return ["ip", "netns", "exec", namespace, arguments.ironwarp, *words]

        def client(*words, timeout=120):
            done = subprocess.run(command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            return done.returncode, done.stdout + done.stderr

        @contextlib.contextmanager
        def serving(words):
            """The command as a server, once it listens."""
            process = subprocess.Popen(command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                end, space, table = time.time() + 30, os.readlink("/proc/self/ns/net"), f"/proc/{process.pid}/net/tcp"
                # nothing else listens in the namespace, once it is in it
                while process.poll() is None and time.time() < end and (os.readlink(f"/proc/{process.pid}/ns/net") == space or " 0A " not in open(table).read()):
                    time.sleep(0.05)
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

        def ours_to_guest(server, *words):
            """The guest serves, we are the client."""
            guest.serve(server)
            status, text = client(*words)
            served, output = guest.finish()
            return status == 0 and served == 0, f"client {status}: {text}\nguest {served}: {output}"

        def guest_to_ours(server, script):
            """We serve, the guest is the client."""
            with serving(server) as process:
                guest.start(script)
                status, text = guest.finish()
                if status is None:
                    process.terminate()
                output = process.communicate(timeout=30)[0]
                return status == 0 and process.returncode == 0, f"guest {status}: {text}\nserver {process.returncode}: {output}"

        def refused_by_guest(*flags):
            """Both ends see the other's words; our client fails."""
            guest.serve(f"refuse -s {GUEST} 7471 'not you'")
            status, text = client("rping", *flags, "-c", "-a", GUEST, "-p", "7471", "-C", "1", "--private-data", "it is me")
            served, output = guest.finish()
            good = status == 1 and served == 0 and "REJECTED" in text and "it says: not you" in text and "8 octets: it is me" in output
            return good, f"client {status}: {text}\nguest {served}: {output}"

        def refused_by_us(*flags):
            with serving(["rping", *flags, "-s", "-a", HOST, "-p", "7471", "--reject", "not you"]) as process:
                guest.start(f"refuse -c {HOST} 7471 'it is me'")
                status, text = guest.finish()
                process.terminate()
                output = process.communicate(timeout=30)[0]
                good = status == 0 and "rejected, status -104, 7 octets: not you" in text and "which says: it is me" in output
                return good, f"guest {status}: {text}\nserver: {output}"

        # siw loses a first message that comes before it has set its receive callback
        soft = ["--device", "soft", "--first-fpdu-delay", "0.2"]
        cases = []

        def case(name, run, *words, short=False):
            cases.append((label, kind, settings, name, lambda: run(*words), short))

        def rping(name, size, count, short=False):
            mine, theirs = ["rping", *soft, *ours, *size.split()], f"-C {count} -V {size}"
            # in revision 1 a siw responder has no ORD, and its own post_send refuses the Read that rping's server does
            if "mpa_version=1" not in settings:
                case(f"{name}, the guest serves", ours_to_guest, f"rping -s -a {GUEST} {theirs}", *mine, "-c", "-a", GUEST, "-C", str(count), "-V", short=short)
            case(f"{name}, we serve", guest_to_ours, [*mine, "-s", "-a", HOST], f"rping -c -a {HOST} {theirs}", short=short)

        def perftest(verb, measure, flags, short=False):
            theirs, mine = f"ib_{verb}_{measure} -R -d siw0 {flags}", ["perf", verb, measure, "-e", *soft, *ours, *flags.split()]
            if f"{verb}_{measure}" == "write_lat":
                mine.append("--eager-responder")
            case(f"ib_{verb}_{measure} {flags}, the guest serves", ours_to_guest, theirs, *mine, GUEST, short=short)
            case(f"ib_{verb}_{measure} {flags}, we serve", guest_to_ours, mine, f"{theirs} {HOST}", short=short)

        for kind, settings in [("stock", ""), ("tun", "mpa_version=1"), ("tun", "mpa_crc_required=1"), ("tun", "peer_to_peer=1,mpa_crc_required=1")]:
            stock = kind == "stock"
            ours = ["--mpa1"] if "mpa_version=1" in settings else ["--p2p"] if "peer_to_peer" in settings else ["--no-crc"] if stock else []
            label = f"{kind} {settings}".strip()
            rping("rping", "", 10, stock)
            case("reject with private data, the guest rejects", refused_by_guest, *soft, *ours, short=stock)
            case("reject with private data, we reject", refused_by_us, *soft, *ours, short=stock)
            rping("rping of 64 KiB", "-S 65000", 5)
            case("ucmatose of 20 connections, the guest serves", ours_to_guest, "ucmatose -c 20 -C 4", "ucmatose", *soft, *ours, "-s", GUEST, "-c", "20", "-C", "4")
            case("cmtime, we serve", guest_to_ours, ["cmtime", *soft, *ours, "-c", "20"], f"cmtime -s {HOST} -c 20")
            for verb in ["send", "write", "read"]:
                perftest(verb, "bw", "-s 65536 -n 100", stock)
                perftest(verb, "lat", "-s 64 -n 200", stock)
                if stock:
                    perftest(verb, "bw", "-s 1 -n 300")
                    perftest(verb, "bw", "-s 1000000 -n 10")
                    perftest(verb, "lat", "-s 1 -n 300")
                    perftest(verb, "lat", "-s 10000 -n 50")
            if stock:
                # more messages than a receiver has room for: it must tell the sender when it has taken some
                perftest("send", "bw", "-s 1000 -n 2000")
                perftest("send", "bw", "-s 100 -n 200 -r 7")
        booted = None
        for label, kind, settings, name, run, short in cases:
            if arguments.only not in f"{label}: {name}" or arguments.short and not short:
                continue
            if booted != (kind, settings):
                if guest:
                    guest.close()
                guest = Guest([arguments.qemu], arguments.guest, namespace, tap, kind, settings)
                booted = (kind, settings)
            start = time.time()
            try:
                good, text = run()
            except Exception as error:  # a bound that passed is a failure of the case, not of the run
                good, text = False, repr(error)
            results.append({"guest": label, "case": name, "pass": good, "seconds": round(time.time() - start, 1)})
            print(f"siw: {'ok  ' if good else 'FAIL'} {label}: {name} ({results[-1]['seconds']} s)", flush=True)
            if arguments.verbose or not good:
                print("\n".join("  | " + line for line in text.splitlines()[-40:]), flush=True)
            if not good:
                # what hangs must not disturb the next case
                guest.run("killall -9 rping ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat 2>/dev/null; true")
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
