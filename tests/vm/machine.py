"""One guest under QEMU: it boots the host's files with another kernel, and runs commands."""

import ctypes
import dataclasses
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import time

from hardware import Hardware
from kernel import Missing

_HERE = pathlib.Path(__file__).resolve().parent
_BOOT_S = 90
_PR_SET_PDEATHSIG = 1


class GuestError(Exception):
    """A guest died, or a command failed or took too long; the text contains its output."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    output: str


def require_tools():
    for tool, package in (("qemu-system-x86_64", "qemu-system-x86"), ("cpio", "cpio"),
                          ("busybox", "busybox-static"), ("rdma", "iproute2"),
                          ("ibv_devinfo", "ibverbs-utils"), ("setpci", "pciutils"),
                          ("lstopo-no-graphics", "hwloc-nox")):
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            raise Missing(f"{tool} is not installed; it is in the package {package}")


def pack_initramfs(kernel, target):
    """Writes the initial root file system of a guest: busybox, the modules and guest_init.sh."""
    root = target.with_suffix(".d")
    for folder in ("bin", "proc", "sys", "dev", "host", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    shutil.copy(_HERE / "guest_init.sh", root / "init")
    (root / "init").chmod(0o755)
    for name, content in kernel.modules:
        (root / "modules" / name).write_bytes(content)
    (root / "modules" / "order").write_text(
        "".join(f"{name}\n" for name, _ in kernel.modules))
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(target, "wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names.encode(),
                       stdout=out, check=True)
    shutil.rmtree(root)


def _die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Job:
    """A command that runs in a guest."""

    def __init__(self, machine, number, text):
        self.machine, self.number, self.text = machine, number, text
        self.status = None

    def output(self):
        path = self.machine.share / f"{self.number}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def running(self):
        self.machine.read_messages(0)
        return self.status is None

    def wait(self, timeout=60, check=True):
        """Returns the outcome; raises GuestError if the command fails (unless check is false) or takes too
        long."""
        deadline = time.monotonic() + timeout
        while self.status is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise GuestError(f"{self.machine.name}: not finished after {timeout} s: {self.text}\n"
                                 f"{self.output()}")
            self.machine.read_messages(left)
        if check and self.status != 0:
            raise GuestError(f"{self.machine.name}: exit status {self.status}: {self.text}\n"
                             f"{self.output()}")
        return Outcome(self.status, self.output())

    def wait_for(self, text, timeout=60):
        """Returns once the output contains the text."""
        deadline = time.monotonic() + timeout
        while text not in self.output():
            if not self.running() or time.monotonic() > deadline:
                raise GuestError(f"{self.machine.name}: '{text}' is not in the output of: {self.text}\n"
                                 f"{self.output()}")
            time.sleep(0.02)

    def kill(self):
        """Sends SIGKILL to all of its processes."""
        self.machine.run(f"bash -c 'kill -9 -- -$(cat /run/share/{self.number}.pid)'", check=False)


class Machine:
    """Boots when constructed; ready() waits until it is up. `nics` has values of QEMU's -netdev, in order."""

    def __init__(self, name, folder, kernel, initramfs, nics, hardware=Hardware()):
        self.name = name
        self.share = folder / f"{name}.share"
        self.share.mkdir(parents=True)
        self.console = folder / f"{name}.console"
        self._jobs = {}
        self._received = b""
        self._is_ready = False
        agent = folder / f"{name}.agent"
        words = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-nodefaults", "-display", "none",
            "-no-reboot", "-kernel", str(kernel.image), "-initrd", str(initramfs), "-append",
            # On a busy machine the emulated timer may seem not to work in the moment of its check.
            f"console=ttyS0 panic=-1 net.ifnames=0 quiet no_timer_check guest_name={name} "
            f"{hardware.kernel_words()}",
            "-serial", f"file:{self.console}",
            "-chardev", f"socket,id=agent,path={agent},server=on,wait=off",
            "-serial", "chardev:agent",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,"
                       "multidevs=remap",
            "-virtfs", f"local,path={self.share},mount_tag=share,security_model=none"]
        words += hardware.qemu_words(
            [(netdev, f"52:54:00:00:{index:02x}:{sum(name.encode()) % 256:02x}")
             for index, netdev in enumerate(nics)])
        with open(folder / f"{name}.qemu", "w", encoding="utf-8") as log:
            self._qemu = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          preexec_fn=_die_with_parent)
        self._log = folder / f"{name}.qemu"
        self._agent = self._connect(agent)

    def _connect(self, path):
        deadline = time.monotonic() + 10
        while True:
            try:
                agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                agent.connect(str(path))
                return agent
            except OSError:
                agent.close()
                if self._qemu.poll() is not None or time.monotonic() > deadline:
                    raise GuestError(f"{self.name}: QEMU did not start: "
                                     f"{self._log.read_text()}") from None
                time.sleep(0.02)

    def _dead(self):
        console = self.console.read_text(errors="replace")[-3000:]
        return GuestError(f"{self.name}: the guest died\n{self._log.read_text()}{console}")

    def ready(self):
        deadline = time.monotonic() + _BOOT_S
        while not self._is_ready:
            if time.monotonic() > deadline:
                raise GuestError(f"{self.name}: not up after {_BOOT_S} s\n"
                                 f"{self.console.read_text(errors='replace')[-3000:]}")
            self.read_messages(1)

    def read_messages(self, timeout):
        """Reads messages of the guest's agent; waits at most `timeout` seconds, and 0.5, for the first."""
        if not select.select([self._agent], [], [], min(timeout, 0.5))[0]:
            if self._qemu.poll() is not None:
                raise self._dead()
            return
        received = self._agent.recv(4096)
        if not received:
            raise self._dead()
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            if words == ["ready"]:
                self._is_ready = True
            elif len(words) == 2 and words[0] in self._jobs:
                self._jobs.pop(words[0]).status = int(words[1])

    def start(self, text):
        """Starts shell text in the guest and returns its Job."""
        number = str(len(list(self.share.glob("*.sh"))) + 1)
        (self.share / f"{number}.sh").write_text(f"echo $$ >/run/share/{number}.pid\n{text}\n")
        job = self._jobs[number] = Job(self, number, text)
        self._agent.sendall(f"{number}\n".encode())
        return job

    def run(self, text, timeout=60, check=True):
        return self.start(text).wait(timeout, check)

    def kill_jobs(self):
        """Sends SIGKILL to all commands that still run."""
        for job in list(self._jobs.values()):
            job.kill()

    def suspend(self):
        """Stops the whole machine until resume()."""
        self._qemu.send_signal(signal.SIGSTOP)

    def resume(self):
        self._qemu.send_signal(signal.SIGCONT)

    def power_off(self):
        """Ends the machine at once, like a power failure."""
        self._qemu.kill()
        self._qemu.wait()
        self._agent.close()
