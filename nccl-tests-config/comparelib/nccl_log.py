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
# The first line that matches each is taken.
_VERSIONS = {
    "NCCL": re.compile(r"\bNCCL version (\S+)"),
    "plugin": re.compile(r"NCCL INFO .*Loaded net plugin (.+?) \((v[0-9]+)\)"),  # and its table
    "CUDA version of the driver": re.compile(r"NCCL INFO .*\bcudaDriverVersion ([0-9]+)"),
    "nccl-tests": re.compile(r"# nccl-tests version (\S+)"),
}
_WARNING = re.compile(r"NCCL WARN (.*\S)")
_SOFTHCA = re.compile(r"NCCL INFO .*\bsofthca\d")
_LINE = re.compile(r"\bNCCL (?:INFO|WARN)\b")


@dataclasses.dataclass(frozen=True)
class NcclLog:
    networks: frozenset[str]  # of all ranks; several: a mixture; none: not logged
    channels: collections.Counter  # "NET/GDR/0/GDRDMA" -> ends of channels that use it
    warnings: list[str]
    versions: dict[str, str]  # what -> version
    softhca: bool = False  # a device has a default name of the software HCA
    empty: bool = False  # there was no line of NCCL's log at all

    def channel_networks(self):
        return {_DEVICE_OF_CHANNEL.match(channel)[1] for channel in self.channels
                if _DEVICE_OF_CHANNEL.match(channel)}


def last_other_lines(text, count=5):
    """The last lines that are not of NCCL's log: what mpirun or the program reported."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _LINE.search(line)]
    return lines[-count:]


def _version(line):
    for what, pattern in _VERSIONS.items():
        if match := pattern.search(line):
            yield what, " ".join(match.groups())


def parse(text):
    networks, warnings, versions, empty = set(), [], {}, True
    channels = collections.Counter()
    for line in text.splitlines():
        empty = empty and not _LINE.search(line)
        if match := _CHANNEL.search(line):
            channels[match[1]] += 1
        elif match := _NETWORK.search(line):
            networks.add(match[1])
        elif match := _WARNING.search(line):
            warnings.append(match[1])
        else:
            versions = {**dict(_version(line)), **versions}
    return NcclLog(frozenset(networks), channels, warnings, versions, bool(_SOFTHCA.search(text)), empty)
