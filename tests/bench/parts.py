"""The parts of `all`: which program of this folder measures what, for which plugins."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import pathlib
import shutil
from collections.abc import Callable

from arguments import Plugin

_FOLDER = pathlib.Path(__file__).resolve().parent
RESIDENT_KIB = 199  # of a connection over one HCA, in a release build: CMakeLists.txt has the same
# Of the cases of wire_cost, those that differ in kind. GPU memory would be that of a fake driver.
_WIRE_CASES = ("8 B, one at a time", "8 B", "64 KiB", "1 MiB", "64 KiB, 8 grouped",
               "64 KiB, adaptive routing", "1 MiB, 4 QPs, split")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured: the own plugin, which has the name OWN, beside the peers."""
    build: pathlib.Path
    plugin: Plugin
    peers: list[Plugin] = dataclasses.field(default_factory=list)
    quick: bool = False

    @property
    def plugins(self):
        return [self.plugin, *self.peers]

    def words(self, program, *more, quick="", full=""):
        """A command line; `quick` or `full` is added, whichever the user wants."""
        return [str(_FOLDER / program), "--build", str(self.build), *more, *(quick if self.quick else full).split()]


@dataclasses.dataclass(frozen=True)
class Part:
    """`runs` are the command lines of a Setting, to which --json is added; their figures are merged.
    `files` of the build and `programs` of the machine are what it needs."""
    name: str
    text: str
    runs: Callable[[Setting], list[list[str]]]
    files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    machine: bool = False  # needs an emulated machine

    def missing(self, setting):
        """Why this machine cannot run the part: a sentence, or None."""
        for file in self.files:
            if not (setting.build / file).exists():
                return f"{setting.build / file} does not exist; build it by ./run build --tests"
        for program in self.programs:
            if shutil.which(program) is None:
                return f"{program} is not installed"
        if self.machine:
            from measuring_guest import what_is_missing  # pylint: disable=import-outside-toplevel
            return what_is_missing(setting.build)
        return None


def _each(option, plugins):
    return [word for plugin in plugins for word in (option, str(plugin))]


def _beside_perftest(program, quick):
    return lambda setting: [setting.words(program, "--plugin", str(setting.plugin),
                                          *_each("--peer", setting.peers), quick=quick)]


def _connections(*words, quick="", full=""):
    return lambda setting: [setting.words("connections", "--plugin", str(setting.plugin),
                                          *_each("--peer", setting.peers), *words, quick=quick, full=full)]


def _instructions(setting):
    runs = [("--plugin", str(plugin)) for plugin in setting.plugins]
    return [setting.words("instructions", *words, quick="--messages 200")
            for words in (*runs, ("--plugin", str(setting.plugin), "--standby"))]


def _requests(setting):
    """A run for each case, since a plugin may be unable to do one of them."""
    return [setting.words("wire_cost", "--plugin", str(plugin), "--case", case)
            for case in _WIRE_CASES[:2 if setting.quick else None] for plugin in setting.plugins]


_SOFTHCA = "softhca/libibverbs.so.1"
_CONNECTIONS = "bin/connections_driver"
_PERFTEST = ("ib_write_bw", "ib_write_lat")

PARTS = {part.name: part for part in (
    Part("softhca-speed", "bandwidth and latency beside perftest, over the software HCA",
         _beside_perftest("softhca_ratio", "--repeat 2 --bandwidth-iters 500 --latency-iters 2000"),
         (_SOFTHCA, "bin/nccl-gdr"), _PERFTEST),
    Part("soft-roce-speed", "the same over Soft-RoCE in an emulated machine",
         _beside_perftest("vm_ratio", "--repeat 2 --bandwidth-iters 50 --latency-iters 500"),
         ("bin/nccl-gdr",), _PERFTEST, machine=True),
    Part("softhca-connections", "memory, set-up, tear-down and polls of connections, over the software HCA",
         _connections("--at-most", str(RESIDENT_KIB),
                      quick="--connections 100 --rounds 1 --polls 2000", full="--connections 100 1000 --rounds 7"),
         (_SOFTHCA, _CONNECTIONS)),
    Part("soft-roce-connections", "the same over Soft-RoCE in an emulated machine",
         _connections("--soft-roce", quick="--connections 20 --rounds 1 --polls 2000", full="--rounds 7"),
         (_CONNECTIONS,), machine=True),
    Part("instructions", "instructions of a message inside the plugin, at each side", _instructions,
         (_SOFTHCA, "bin/messages_driver"), ("valgrind",)),
    Part("idle-poll", "instructions of a poll of an idle connection", _connections("--instructions-only"),
         (_SOFTHCA, _CONNECTIONS), ("valgrind",)),
    Part("requests", "requests, doorbells and completions of a message", _requests,
         (_SOFTHCA, "bin/messages_driver")),
    Part("softhca-rails", "two rails beside one, over the software HCA; the own plugin alone",
         lambda setting: [setting.words("rails_throughput", "--plugin", str(setting.plugin), full="--rounds 7",
                                        quick="--rounds 1 --sizes 524288 --messages 20")],
         (_SOFTHCA, "bin/nccl-gdr")),
    Part("soft-roce-lossy-rail", "two rails, of which one loses packets; the build's own plugin alone",
         lambda setting: [setting.words("vm_lossy_rail", full="--rounds 7",
                                        quick="--rounds 1 --size 2M --iterations 5")],
         ("bin/nccl-gdr",), machine=True),
)}
