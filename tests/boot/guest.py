"""A Debian machine that boots: systemd, udev and mdadm as Debian has them, in QEMU (plain emulation), on image files.

The root file system is made once by mmdebstrap, below $BOOT_GUEST_CACHE (~/.cache/boot-guest); a run works on a copy of it.  Commands
reach the machine by a serial line, and drives come and go by QMP.
"""
import base64
import ctypes
import inspect
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

loader = SourceFileLoader("oracle", str(Path(__file__).resolve().parent / "../oracle/md-oracle"))
oracle = module_from_spec(spec_from_loader("oracle", loader))
loader.exec_module(oracle)

CACHE = Path(os.environ.get("BOOT_GUEST_CACHE") or Path.home() / ".cache" / "boot-guest").absolute()
KERNEL = "linux-image-6.12-cloud-amd64"
PACKAGES = ["systemd-sysv", "udev", "kmod", "mdadm", "smartmontools", "e2fsprogs", "initramfs-tools", "zstd", "fio", "less", "procps", KERNEL]
ROOT_BYTES = 3 << 30
PARTITION_AT = 1 << 20
PATIENCE_S = 600

# Carries out what comes on the second serial line: a number and a script in base64 each; the answer adds the status.
AGENT = r"""#!/bin/bash
exec 3<>/dev/ttyS1 || exit 1
stty -F /dev/ttyS1 raw -echo
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
cd /root
echo "ready" >&3
while read -r number text <&3; do
    base64 -d <<<"$text" >/run/agent.script
    bash -eu /run/agent.script </dev/null >/run/agent.output 2>&1 3>&-
    status=$?
    echo "$number $status $(base64 -w0 /run/agent.output)" >&3
done
"""
AGENT_UNIT = """[Unit]
Description=Commands of the test
DefaultDependencies=no
After=systemd-remount-fs.service systemd-tmpfiles-setup-dev.service
Conflicts=shutdown.target
Before=shutdown.target
[Service]
ExecStart=/usr/local/sbin/agent
Restart=always
RestartSec=1
# What a command started in the background stays until it has ended or the machine stops.
KillMode=mixed
TimeoutStopSec=5
IgnoreSIGPIPE=no
[Install]
WantedBy=sysinit.target
"""
# In the new root: nothing that a test has no use for, and nothing that asks the network.
MAKE_READY = r"""set -eu
cd "$1"
rm -f etc/dpkg/dpkg.cfg.d/99mmdebstrap etc/apt/apt.conf.d/99mmdebstrap etc/machine-id
: > etc/machine-id
echo trial > etc/hostname
echo "127.0.0.1 localhost trial" > etc/hosts
echo "PARTUUID=53545249-01 / ext4 defaults 0 1" > etc/fstab
chroot . systemctl --quiet enable agent.service
chroot . systemctl --quiet mask getty@tty1.service serial-getty@ttyS0.service console-getty.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-timesyncd.service \
    mdcheck_start.timer mdcheck_continue.timer smartmontools.service systemd-pcrphase.service systemd-pcrphase-sysinit.service \
    systemd-pcrphase-initrd.service systemd-networkd.service motd-news.timer
sed -i 's/^#\?Storage=.*/Storage=volatile/; s/^#\?RateLimitBurst=.*/RateLimitBurst=0/' etc/systemd/journald.conf
sed -i 's/^#\?DefaultTimeoutStartSec=.*/DefaultTimeoutStartSec=600s/; s/^#\?DefaultDeviceTimeoutSec=.*/DefaultDeviceTimeoutSec=600s/' etc/systemd/system.conf
"""


def recipe():
    """What the cache is made from."""
    return "\n".join([*PACKAGES, AGENT, AGENT_UNIT, MAKE_READY, str(ROOT_BYTES), inspect.getsource(setup)])


def is_built():
    return (CACHE / "recipe").exists() and (CACHE / "recipe").read_text() == recipe()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def setup(force=False):
    """Makes the root file system, unless it is there: as root, or else by user namespaces and fakeroot."""
    if is_built() and not force:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "recipe").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        scratch = Path(scratch)
        oracle.unpack(["mmdebstrap"], scratch / "archives", scratch / "tools")
        overlay = scratch / "overlay"
        for path, text, mode in (("usr/local/sbin/agent", AGENT, 0o755), ("etc/systemd/system/agent.service", AGENT_UNIT, 0o644)):
            (overlay / path).parent.mkdir(parents=True, exist_ok=True)
            (overlay / path).write_text(text)
            (overlay / path).chmod(mode)
        ready = scratch / "ready"
        ready.write_text(MAKE_READY)
        tar = scratch / "root.tar"
        # The hooks that mmdebstrap names by default are those of its package.
        run("perl", scratch / "tools/usr/bin/mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
            "--aptopt=APT::Sandbox::User \"root\"", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            f"--customize-hook=sync-in {overlay} /", f"--customize-hook=sh {ready} \"$1\"", "--skip=output/dev", "bookworm", tar,
            env={**os.environ, "PATH": f"{scratch}/tools/usr/bin:{os.environ['PATH']}:/usr/sbin:/sbin"})
        unpacked = scratch / "root"
        unpacked.mkdir()
        make = (f"tar --extract --file {tar} --directory {unpacked} && cp {unpacked}/boot/vmlinuz-* {scratch}/vmlinuz && "
                f"cp {unpacked}/boot/initrd.img-* {scratch}/initrd && chmod a+r {scratch}/vmlinuz {scratch}/initrd && "
                f"mke2fs -q -t ext4 -d {unpacked} -E offset={PARTITION_AT} {scratch}/image {(ROOT_BYTES - PARTITION_AT) >> 10}k")
        with open(scratch / "image", "wb") as image:
            image.truncate(ROOT_BYTES)
            # A partition table with a known signature, so that the kernel finds its root whatever the order of drives.
            image.write(b"\0" * 440 + struct.pack("<IH", 0x53545249, 0)
                        + struct.pack("<B3sB3sII", 0x80, b"\0" * 3, 0x83, b"\0" * 3, PARTITION_AT >> 9, (ROOT_BYTES - PARTITION_AT) >> 9)
                        + b"\0" * 48 + b"\x55\xaa")
        run(*([] if os.geteuid() == 0 else ["fakeroot"]), "sh", "-euc", make, env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        for name in ("image", "vmlinuz", "initrd"):
            os.replace(scratch / name, CACHE / name)
    (CACHE / "recipe").write_text(recipe())


class Failed(Exception):
    """What a test says when something is not as it must be."""


class Drive:
    """An image file as a drive: `kind` is nvme or sata."""

    def __init__(self, image, serial=None, kind="nvme"):
        self.image, self.kind = Path(image), kind
        self.serial = serial or self.image.name.upper()

    def options(self, number):
        node = f"file{number}"
        file = {"driver": "raw", "node-name": node, "discard": "unmap",
                "file": {"driver": "file", "filename": str(self.image), "locking": "off"}}
        return node, file


class Guest:
    """A machine with a root of its own. Power is switched on by `start`; `cut` and `off` end that, and it may be started again."""

    def __init__(self, folder, fresh=True):
        self.folder = Path(folder)
        self.root = self.folder / "root"
        if fresh:
            run("cp", "--sparse=always", CACHE / "image", self.root)
        self.qemu, self.boots, self.initrd = None, 0, None
        self.drives = {}

    def start(self, drives, memory="768M", kernel_options="", wait=True):
        """Switches power on with these drives in this order, and waits until commands are taken."""
        self.boots += 1
        self.console = self.folder / f"console{self.boots}"
        lines = {name: self.folder / name for name in ("agent", "qmp")}
        for path in lines.values():
            path.unlink(missing_ok=True)
        command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", memory, "-smp", "1,maxcpus=2", "-display", "none", "-no-reboot",
                   "-nodefaults", "-no-user-config", "-kernel", CACHE / "vmlinuz",
                   "-append", f"root=PARTUUID=53545249-01 rootwait rw console=ttyS0 panic=-1 no_timer_check quiet systemd.log_color=no "
                              f"nvme_core.io_timeout=200 nvme_core.admin_timeout=200 {kernel_options}",
                   "-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console",
                   "-chardev", f"socket,id=agent,path={lines['agent']},server=on,wait=off", "-serial", "chardev:agent",
                   "-qmp", f"unix:{lines['qmp']},server=on,wait=off", "-device", "ich9-ahci,id=sata"]
        if self.initrd:
            command += ["-initrd", self.initrd]
        self.drives, self.count, self.ports = {}, 0, 0
        for drive in [Drive(self.root, "ROOT"), *drives]:
            device = self.device(drive)
            node, file = drive.options(self.count)
            command += ["-blockdev", json.dumps(file), "-device", json.dumps(device)]
            self.count += 1
        # Ends with this process, however that ends.
        with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        self.qemu = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, preexec_fn=with_us)
        self.agent, self.qmp = (self.connect(path) for path in lines.values())
        self.heard = b""
        self.number = 0
        self.monitor = self.qmp.makefile("rb")
        json.loads(self.monitor.readline())
        self.command("qmp_capabilities")
        if wait:
            self.wait_for_agent()

    def device(self, drive):
        """How QEMU names the device of a drive, which is plugged in by it."""
        name = f"drive{self.count}"
        self.drives[drive.serial] = name
        device = {"id": name, "drive": f"file{self.count}", "serial": drive.serial}
        if drive.kind == "nvme":
            return {"driver": "nvme", **device}
        self.ports += 1
        return {"driver": "ide-hd", "bus": f"sata.{self.ports - 1}", **device}

    def connect(self, path):
        end = time.monotonic() + PATIENCE_S
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(path))
                return line
            except OSError:
                line.close()
                if self.qemu.poll() is not None or time.monotonic() > end:
                    raise Failed(f"QEMU does not start: {self.qemu.poll()}")
                time.sleep(0.05)

    def line(self, timeout):
        """The next line of the agent."""
        end = time.monotonic() + timeout
        while b"\n" not in self.heard:
            self.agent.settimeout(max(end - time.monotonic(), 0.01))
            try:
                more = self.agent.recv(1 << 16)
            except TimeoutError:
                raise Failed(f"the machine does not answer for {timeout:g} s; its console says:\n{self.said()}") from None
            if not more:
                raise Failed(f"the machine has gone; its console says:\n{self.said()}")
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        return line.decode(errors="replace").strip()

    def wait_for_agent(self, timeout=PATIENCE_S):
        while not self.line(timeout).endswith("ready"):
            pass

    def said(self):
        return self.console.read_text(errors="replace")[-6000:] if self.console.exists() else ""

    def run(self, script, timeout=PATIENCE_S):
        """Carries out a script by `bash -eu`: its status, and all it said."""
        self.number += 1
        text = base64.b64encode(script.encode())
        # What a serial line takes at once is little.
        if len(text) > 3000:
            half = len(script) // 2
            raise Failed(f"a script of {half * 2} characters is too long")
        with open(self.folder / "trace", "a") as trace:
            print(f"{time.monotonic():.1f} {script}", file=trace)
        self.agent.settimeout(30)
        self.agent.sendall(b"%d %s\n" % (self.number, text))
        while True:
            number, _, answer = self.line(timeout).partition(" ")
            if number == str(self.number):
                status, _, output = answer.partition(" ")
                return int(status), base64.b64decode(output).decode(errors="replace")

    def sh(self, script, timeout=PATIENCE_S):
        """The output of a script that must succeed."""
        status, output = self.run(script, timeout)
        if status != 0:
            raise Failed(f"status {status} of:\n{script}\n--- output\n{output}")
        return output

    def gone(self, *patterns):
        """Fails if there is a file of one of these names."""
        left = self.sh(f"shopt -s nullglob; for file in {' '.join(patterns)}; do if [ -e \"$file\" ] || [ -L \"$file\" ]; then echo \"$file\"; fi; done")
        if left.strip():
            raise Failed(f"still there:\n{left}")

    def until(self, what, script, timeout=PATIENCE_S):
        """Waits until a script succeeds. Returns its output."""
        end = time.monotonic() + timeout
        while True:
            status, output = self.run(script)
            if status == 0:
                return output
            if time.monotonic() > end:
                state = self.run("stria status -v 2>&1; systemctl list-jobs --no-pager; systemctl --failed --no-pager; journalctl -b -n 60 --no-pager -o cat")[1]
                raise Failed(f"waited in vain for {what}: {script}\n--- output\n{output}\n--- state\n{state}")
            time.sleep(0.3)

    def booted(self):
        """Waits until systemd has started all it has to, and udev has seen all drives. Returns systemd's state: running, or degraded."""
        return self.until("the end of the boot", "state=$(systemctl is-system-running || true); echo $state; "
                          "[ \"$state\" = running ] || [ \"$state\" = degraded ]; udevadm settle").strip()

    def command(self, name, **arguments):
        """A command of QMP."""
        self.qmp.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self.monitor.readline())
            if "error" in answer:
                raise Failed(f"QMP {name}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def plug(self, drive):
        """Plugs in a drive while the machine runs."""
        node, file = drive.options(self.count)
        self.command("blockdev-add", **file)
        self.command("device_add", **self.device(drive))
        self.count += 1

    def pull(self, serial):
        """Pulls a drive out, and waits until the machine let it go."""
        name = self.drives.pop(serial)
        self.command("device_del", id=name)
        self.qmp.settimeout(120)
        while True:
            event = json.loads(self.monitor.readline())
            if event.get("event") == "DEVICE_DELETED" and event["data"].get("device") == name:
                break
        self.command("blockdev-del", **{"node-name": f"file{name[5:]}"})

    def cut(self):
        """A power cut."""
        self.qemu.kill()
        self.ended()

    def off(self, timeout=PATIENCE_S):
        """Shuts the machine down as a person would. Returns the seconds that took."""
        begun = time.monotonic()
        try:
            self.run("systemctl --no-block poweroff", timeout=20)
        except Failed:
            pass  # It was faster than its answer.
        while self.qemu.poll() is None:
            try:
                self.qemu.wait(10)
            except subprocess.TimeoutExpired:
                if time.monotonic() > begun + timeout:
                    said = self.said()
                    self.cut()
                    raise Failed(f"the machine does not shut down; its console says:\n{said}") from None
                self.nudge()
        self.ended()
        return time.monotonic() - begun

    def nudge(self):
        """An interrupt from outside, by the power button. The emulated processor loses its timer at times: it halts with sleepers that are due and no
        timer in QEMU. As long as a test gives commands, their interrupts wake it; once it shuts down, nothing does."""
        try:
            self.command("system_powerdown")
        except (OSError, ValueError):
            pass  # It is off.

    def ended(self):
        self.qemu.wait()
        self.agent.close()
        self.monitor.close()
        self.qmp.close()
        self.qemu = None
