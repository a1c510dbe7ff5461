"""Finds in NCCL's log which transport a run really used."""

import collections
import dataclasses
import re

_NETWORK = re.compile(r"NCCL INFO .*\bUsing network (\S+)")
_CHANNEL = re.compile(r"NCCL INFO .*\bChannel \d+/\d+ : .* \[(?:send|receive)\] via (NET/\S+)")
_DEVICE_OF_CHANNEL = re.compile(r"NET/([^/]+)/")
_VERSION = re.compile(r"\bNCCL version (\S+)")
_WARNING = re.compile(r"NCCL WARN (.*\S)")


@dataclasses.dataclass(frozen=True)
class NcclLog:
    version: str | None
    networks: frozenset[str]  # of all ranks; several: a mixture; none: not logged
    channels: collections.Counter  # "NET/GDR/0/GDRDMA" -> ends of channels that use it
    warnings: list[str]

    def channel_networks(self):
        return {_DEVICE_OF_CHANNEL.match(channel)[1] for channel in self.channels
                if _DEVICE_OF_CHANNEL.match(channel)}


def parse(text):
    version, networks, warnings = None, set(), []
    channels = collections.Counter()
    for line in text.splitlines():
        if match := _CHANNEL.search(line):
            channels[match[1]] += 1
        elif match := _NETWORK.search(line):
            networks.add(match[1])
        elif match := _WARNING.search(line):
            warnings.append(match[1])
        elif version is None and (match := _VERSION.search(line)):
            version = match[1]
    return NcclLog(version, frozenset(networks), channels, warnings)
