"""The emulated machine in which benchmarks measure over the kernel's Soft-RoCE.

tests/vm/README.md has what such a machine needs.
"""

import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vm"))
import cluster  # pylint: disable=import-error,wrong-import-position
from hardware import STEADY, Hardware  # pylint: disable=import-error,wrong-import-position
from kernel import Missing  # pylint: disable=import-error,wrong-import-position
from machine import GuestError  # pylint: disable=import-error,wrong-import-position

ERRORS = (GuestError, Missing)  # what a measurement in the machine ends with where it cannot go on


def use_kernel_of(build):
    """Takes the guests' kernel from a build folder, unless the user names another."""
    os.environ.setdefault("GDR_VM_KERNEL", str(build.resolve() / "vm-kernel"))


def what_is_missing(build):
    """A sentence, or None where this machine can run the emulated one."""
    use_kernel_of(build)
    try:
        cluster.require()
    except Missing as missing:
        return str(missing)
    return None


@contextlib.contextmanager
def measuring_guest(build, mtu=1500):
    """One machine with one NIC, whose processors are steady, so that times can be compared."""
    use_kernel_of(build)
    with cluster.Cluster(1, cluster.Network(mtu=mtu), Hardware(cpus_per_socket=2, cmdline=STEADY)) as (guest,):
        yield guest
