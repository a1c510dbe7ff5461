"""Guests joined by cables, with a Soft-RoCE device on every NIC."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import tempfile
import time

import kernel as guest_kernel
import machine as guest

BUILD = pathlib.Path(os.environ.get("GDR_BUILD_DIR") or
                     pathlib.Path(__file__).resolve().parents[2] / "build")


@dataclasses.dataclass(frozen=True)
class Network:
    """mtu: of the NICs; 1500 makes the RDMA MTU 1024, 4200 makes it 4096."""
    nics: int = 1
    mtu: int = 1500
    ipv4: bool = True
    ipv6: bool = True


def address(machine, nic, family=4):
    """NIC i of every machine is in a subnet of its own."""
    return f"10.0.{nic}.{machine + 1}" if family == 4 else f"fd00:{nic + 1}::{machine + 1}"


def _cable(folder, machines, index, nic):
    if machines == 1:
        return f"hubport,hubid={nic}"
    path = folder / f"cable{nic}"
    side = "on" if index == 0 else "off"
    return f"stream,server={side},addr.type=unix,addr.path={path}"


def _set_up(index, network):
    lines = ["set -e", "sysctl -qw net.ipv6.conf.default.accept_dad=0"]
    for nic in range(network.nics):
        eth = f"eth{nic}"
        lines.append(f"sysctl -qw net.ipv6.conf.{eth}.accept_dad=0")
        if not network.ipv6:
            lines.append(f"sysctl -qw net.ipv6.conf.{eth}.addr_gen_mode=1")
        lines.append(f"ip link set {eth} mtu {network.mtu} up")
        if network.ipv4:
            lines.append(f"ip addr add {address(index, nic)}/24 dev {eth}")
        if network.ipv6:
            lines.append(f"ip addr add {address(index, nic, 6)}/64 dev {eth} nodad")
        lines.append(f"rdma link add rxe{nic} type rxe netdev {eth}")
    return "\n".join(lines)


def require():
    """The guests' kernel; raises Missing where guests cannot run."""
    guest.require_tools()
    return guest_kernel.find(os.environ.get("GDR_VM_KERNEL") or BUILD / "vm-kernel")


@contextlib.contextmanager
def cluster(machines=1, network=Network(), hardware=guest.Hardware()):
    """Yields the machines, up and with their devices; cleans up. When the body fails, the folder
    with the guests' consoles and outputs stays, and its name is printed."""
    kernel = require()
    # Unix socket names are short: the folder cannot lie deep.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gdr-vm-"))
    running = []
    try:
        guest.pack_initramfs(kernel, folder / "initramfs")
        for index in range(machines):
            nics = [_cable(folder, machines, index, nic) for nic in range(network.nics)]
            running.append(guest.Machine("ab"[index], folder, kernel, folder / "initramfs", nics,
                                         hardware))
        for index, one in enumerate(running):
            one.ready()
            one.run(_set_up(index, network))
        yield running
    except BaseException:
        print(f"the guests' consoles and outputs are kept in {folder}", flush=True)
        folder = None
        raise
    finally:
        for one in running:
            one.power_off()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def join(jobs, timeout):
    """Waits for all; the outcomes in their order."""
    deadline = time.monotonic() + timeout
    return [job.wait(max(deadline - time.monotonic(), 0.1)) for job in jobs]
