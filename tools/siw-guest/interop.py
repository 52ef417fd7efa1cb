#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""interop.py IRONWARP: rdma-core's own programs on Linux siw, in a QEMU guest, against `ironwarp --device soft` outside, both roles.

The guest and the command meet on a TAP in a network namespace that this makes and takes away (root). Every wait is bounded; only
processes started here are ended. Last line: `siw: PASS` or `siw: FAIL`.
"""
import argparse, base64, json, os, shutil, socket, subprocess, sys, tempfile, time

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
            raise RuntimeError("the guest's agent is not ready")

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

    def finish(self, timeout=60):
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
    arguments = parser.parse_args()
    name = f"siw{os.getpid() % 10000}"
    tap = f"t{name}"
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    results, guest = [], None
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "tuntap", "add", "dev", tap, "mode", "tap")
        ip("-n", name, "addr", "add", f"{HOST}/24", "dev", tap)
        ip("-n", name, "link", "set", tap, "up")

        def command(*words):
            return ["ip", "netns", "exec", name, arguments.ironwarp, *words]

        def client(*words, timeout=60):
            done = subprocess.run(command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            return done.returncode, done.stdout + done.stderr

        def ours_to_guest(server, *words):
            """The guest serves, we are the client."""
            guest.start(server)
            time.sleep(1.0)
            status, text = client(*words)
            served, output = guest.finish()
            return status == 0 and served == 0, f"client {status}: {text}\nguest {served}: {output}"

        def guest_to_ours(server, script):
            """We serve, the guest is the client."""
            process = subprocess.Popen(command(*server), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                time.sleep(1.0)
                status, text = guest.run(script)
                output = process.communicate(timeout=30)[0]
                return status == 0 and process.returncode == 0, f"guest {status}: {text}\nserver {process.returncode}: {output}"
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

        # siw loses a first message that comes before it has set its receive callback
        soft = ["--device", "soft", "--first-fpdu-delay", "0.2"]
        count = ["-C", "10", "-V", "-v"]
        cases = []
        for kind, settings in [("stock", ""), ("tun", "mpa_version=1"), ("tun", "mpa_crc_required=1"), ("tun", "peer_to_peer=1,mpa_crc_required=1")]:
            ours = ["--mpa1"] if "mpa_version=1" in settings else ["--p2p"] if "peer_to_peer" in settings else []
            if not settings:
                ours = ["--no-crc"]
            label = f"{kind} {settings}".strip()
            # in revision 1 a siw responder has no ORD, and its own post_send refuses the Read that rping's server does
            reads = "mpa_version=1" not in settings
            cases += [case for case in [
                (label, kind, settings, "rping, the guest serves", lambda ours=ours: ours_to_guest(f"rping -s -a {GUEST} -C 10 -V", "rping", *soft, *ours, "-c", "-a", GUEST, *count)),
                (label, kind, settings, "rping, we serve", lambda ours=ours: guest_to_ours(["rping", *soft, *ours, "-s", "-a", HOST], f"rping -c -a {HOST} -C 10 -V -v")),
                (label, kind, settings, "rping of 64 KiB, the guest serves", lambda ours=ours: ours_to_guest(f"rping -s -a {GUEST} -C 5 -V -S 65000", "rping", *soft, *ours, "-c", "-a", GUEST, "-C", "5", "-V", "-S", "65000")),
                (label, kind, settings, "ucmatose of 20 connections, the guest serves", lambda ours=ours: ours_to_guest(f"ucmatose -c 20 -C 4", "ucmatose", *soft, *ours, "-s", GUEST, "-c", "20", "-C", "4")),
                (label, kind, settings, "cmtime, we serve", lambda ours=ours: guest_to_ours(["cmtime", *soft, *ours, "-c", "20"], f"cmtime -s {HOST} -c 20")),
                (label, kind, settings, "rping of 64 KiB, we serve", lambda ours=ours: guest_to_ours(["rping", *soft, *ours, "-s", "-a", HOST, "-S", "65000"], f"rping -c -a {HOST} -C 5 -V -S 65000")),
            ] if reads or not case[3].startswith("rping") or "we serve" in case[3]]
        booted = None
        for label, kind, settings, case, run in cases:
            if arguments.only not in f"{label}: {case}":
                continue
            if booted != (kind, settings):
                if guest:
                    guest.close()
                guest = Guest([arguments.qemu], arguments.guest, name, tap, kind, settings)
                booted = (kind, settings)
            start = time.time()
            try:
                good, text = run()
            except Exception as error:  # a bound that passed is a failure of the case, not of the run
                good, text = False, repr(error)
            results.append({"guest": label, "case": case, "pass": good, "seconds": round(time.time() - start, 1)})
            print(f"siw: {'ok  ' if good else 'FAIL'} {label}: {case} ({results[-1]['seconds']} s)", flush=True)
            if not good:
                print("\n".join("  | " + line for line in text.splitlines()[-30:]), flush=True)
                # what hangs must not disturb the next case
                guest.run("killall -9 rping ib_write_bw ib_read_bw ib_send_bw 2>/dev/null; true")
    finally:
        if guest:
            guest.close()
        subprocess.run(["ip", "netns", "delete", name], check=False)
    os.makedirs("build/report", exist_ok=True)
    with open("build/report/siw.json", "w") as report:
        json.dump(results, report, indent=1)
    good = bool(results) and all(result["pass"] for result in results)
    print(f"siw: {sum(r['pass'] for r in results)} of {len(results)} cases")
    print("siw: PASS" if good else "siw: FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
