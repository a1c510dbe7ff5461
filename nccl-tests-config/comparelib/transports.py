"""What a run can go over: the environment files, files of one's own, and plugins by their name."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import os
import pathlib
import re

from comparelib import launch

_EXPECTS = re.compile(r"^# expects (network|gpudirect) (\S.*?)\s*$", re.MULTILINE)
_GPUDIRECT = {"on": {"NCCL_NET_GDR_LEVEL": "SYS"}, "off": {"NCCL_NET_GDR_LEVEL": "LOC"}, "auto": {}}
GPUDIRECT = tuple(_GPUDIRECT)
BUILT_IN = ("IB", "Socket")  # the names of NCCL's own transports


@dataclasses.dataclass(frozen=True)
class Transport:
    name: str
    env_file: str | None  # a path
    network: str | None  # the network that NCCL must name; None: any but NCCL's own
    gpudirect: str | None = None  # "off" or "on" where the file decides it
    plugin: str | None = None  # NCCL_NET_PLUGIN

    def settings(self, gpudirect):
        """The variables to set after every file; `gpudirect` is the choice for the session."""
        plugin = {"NCCL_NET_PLUGIN": self.plugin} if self.plugin else {}
        return {**plugin, **_GPUDIRECT[self.wanted_gpudirect(gpudirect)]}

    def wanted_gpudirect(self, gpudirect):
        return self.gpudirect or gpudirect


def from_file(path):
    """The transport that an environment file describes in its lines "# expects"."""
    try:
        expects = dict(_EXPECTS.findall(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise launch.LaunchError(f"cannot read {path}: {error.strerror}") from error
    gpudirect = expects.get("gpudirect")
    if gpudirect not in (None, "on", "off"):
        raise launch.LaunchError(f"{path}: '# expects gpudirect' takes on or off, not {gpudirect}")
    return Transport(path.stem, str(path), expects.get("network"), gpudirect)


def known():
    """The transports of env/, by name. Files without '# expects network' are additions to one."""
    files = [path for path in sorted(launch.ENV_DIR.glob("*.env"))
             if "network" in dict(_EXPECTS.findall(path.read_text(encoding="utf-8")))]
    return {path.stem: from_file(path) for path in files}


def from_plugin(name):
    """The plugin that NCCL_NET_PLUGIN=name loads: a name such as aws-ofi, or the path of a library."""
    short = re.sub(r"^libnccl-net-?|\.so.*$", "", os.path.basename(name)) or os.path.basename(name)
    return Transport(short, None, None, None, name)


def _of_word(word, there):
    if word in there:
        return there[word]
    if "/" in word or word.endswith(".env"):
        return from_file(pathlib.Path(word).resolve())
    raise launch.LaunchError(f"no transport {word!r}; there are {', '.join(there)}; or name a file of your own with its "
                             "path (./NAME.env), or a plugin by --plugin")


def find(words, plugins=()):
    """The transports of a list of names and paths of files, and of a list of plugins. All names differ."""
    there, found = known(), {}
    for one in [*(_of_word(word, there) for word in words), *map(from_plugin, plugins)]:
        if one.name in found:
            raise launch.LaunchError(f"two transports have the name {one.name}")
        found[one.name] = one
    return found
