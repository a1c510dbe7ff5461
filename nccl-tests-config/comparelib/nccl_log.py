"""Finds in NCCL's log which transport a run really used."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import collections
import dataclasses
import re

# A name may have a space, as "AWS Libfabric" has; where lines of two processes are mixed, the prefix of
# the next one (host:pid:tid [device]) ends it.
_NETWORK = re.compile(r"NCCL INFO .*\bUsing network (.*?\S)(?=\s+\S+:\d+:\d+ \[|\s*$)")
_CHANNEL = re.compile(
    r"NCCL INFO .*\b(?:Channel|Ring) \d+(?:/\d+)? : .* \[(?:send|receive)\] via (NET/.+?/\d+[^\s]*)")
_DEVICE_OF_CHANNEL = re.compile(r"NET/(.+?)/\d")
_VERSION = re.compile(r"\bNCCL version (\S+)")
_PLUGIN = re.compile(r"NCCL INFO .*Loaded net plugin (.+?) \((v[0-9]+)\)")
_DRIVER = re.compile(r"NCCL INFO .*\bcudaDriverVersion ([0-9]+)")
_WARNING = re.compile(r"NCCL WARN (.*\S)")
_LINE = re.compile(r"\bNCCL (?:INFO|WARN)\b")


@dataclasses.dataclass(frozen=True)
class NcclLog:
    version: str | None
    networks: frozenset[str]  # of all ranks; several: a mixture; none: not logged
    channels: collections.Counter  # "NET/GDR/0/GDRDMA" -> ends of channels that use it
    warnings: list[str]
    plugin: str | None = None  # "GDR v11": the loaded plugin's name and the version of its table
    cuda: str | None = None  # the newest CUDA version that the driver supports, such as 13000
    empty: bool = False  # there was no line of NCCL's log at all

    def channel_networks(self):
        return {_DEVICE_OF_CHANNEL.match(channel)[1] for channel in self.channels
                if _DEVICE_OF_CHANNEL.match(channel)}


def last_other_lines(text, count=5):
    """The last lines that are not of NCCL's log: what mpirun or the program reported."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _LINE.search(line)]
    return lines[-count:]


def parse(text):
    version, plugin, cuda, networks, warnings, empty = None, None, None, set(), [], True
    channels = collections.Counter()
    for line in text.splitlines():
        empty = empty and not _LINE.search(line)
        if match := _CHANNEL.search(line):
            channels[match[1]] += 1
        elif match := _NETWORK.search(line):
            networks.add(match[1])
        elif match := _WARNING.search(line):
            warnings.append(match[1])
        elif plugin is None and (match := _PLUGIN.search(line)):
            plugin = f"{match[1]} {match[2]}"
        elif cuda is None and (match := _DRIVER.search(line)):
            cuda = match[1]
        elif version is None and (match := _VERSION.search(line)):
            version = match[1]
    return NcclLog(version, frozenset(networks), channels, warnings, plugin, cuda, empty)
