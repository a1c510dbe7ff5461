"""Guests connected by cables, with a Soft-RoCE device on every NIC."""

import dataclasses
import os
import pathlib
import shutil
import tempfile
import time

import kernel as guest_kernel
import machine as guest
from hardware import Hardware

BUILD = pathlib.Path(os.environ.get("GDR_BUILD_DIR") or
                     pathlib.Path(__file__).resolve().parents[2] / "build").resolve()


@dataclasses.dataclass(frozen=True)
class Network:
    """mtu is that of the NICs: with 1500 the RDMA MTU is 1024, with 4200 it is 4096."""
    nics: int = 1
    mtu: int = 1500


def address(machine, nic, family=4):
    """The IP address of a NIC. NIC i of every machine is in subnet i."""
    return f"10.0.{nic}.{machine + 1}" if family == 4 else f"fd00:{nic + 1}::{machine + 1}"


def addressing(machine, nic):
    """Shell text that sets the addresses of an interface, also after they were removed."""
    eth = f"eth{nic}"
    return (f"ip addr replace {address(machine, nic)}/24 dev {eth}\n"
            f"ip addr replace {address(machine, nic, 6)}/64 dev {eth} nodad\n")


def _cable(folder, machines, index, nic):
    if machines == 1:
        return f"hubport,hubid={nic}"
    path = folder / f"cable{nic}"
    side = "on" if index == 0 else "off"
    return f"stream,server={side},addr.type=unix,addr.path={path}"


def _set_up(index, network):
    lines = ["set -e", "sysctl -qw net.ipv6.conf.default.accept_dad=0"]
    for nic in range(network.nics):
        lines.append(f"sysctl -qw net.ipv6.conf.eth{nic}.accept_dad=0")
        lines.append(f"ip link set eth{nic} mtu {network.mtu} up")
        lines.append(addressing(index, nic))
        lines.append(f"rdma link add rxe{nic} type rxe netdev eth{nic}")
    return "\n".join(lines)


def require():
    """The guests' kernel; raises Missing if this machine cannot run guests."""
    guest.require_tools()
    return guest_kernel.find(os.environ.get("GDR_VM_KERNEL") or BUILD / "vm-kernel")


class Cluster:
    """A context in which the machines are up and have their devices. At its end everything is removed,
    unless `failed` is set or the context ends by an exception: then the folder with the guests' consoles
    and the output of every command is not deleted, and its name is printed."""

    def __init__(self, machines=1, network=Network(), hardware=Hardware()):
        self.failed = False
        self._count, self._network, self._hardware = machines, network, hardware
        self.machines = []

    def __enter__(self):
        kernel = require()
        # The names of Unix sockets are limited to 108 bytes, so the folder must have a short path.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="gdr-vm-"))
        try:
            self._boot(kernel)
        except BaseException:
            self.failed = True
            self._clean_up()
            raise
        return self.machines

    def _boot(self, kernel):
        initramfs = self._folder / "initramfs"
        guest.pack_initramfs(kernel, initramfs)
        for index in range(self._count):
            cables = [_cable(self._folder, self._count, index, nic)
                      for nic in range(self._network.nics)]
            self.machines.append(guest.Machine("ab"[index], self._folder, kernel, initramfs, cables,
                                               self._hardware))
        for index, one in enumerate(self.machines):
            one.ready()
            one.run(_set_up(index, self._network))

    def __exit__(self, kind, error, trace):
        self.failed = self.failed or kind is not None
        self._clean_up()

    def _clean_up(self):
        for one in self.machines:
            one.power_off()
        if self.failed:
            print(f"the guests' consoles and outputs are in {self._folder}", flush=True)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)


def join(jobs, timeout):
    """Waits for all jobs; returns their outcomes in order."""
    deadline = time.monotonic() + timeout
    return [job.wait(max(deadline - time.monotonic(), 0.1)) for job in jobs]
