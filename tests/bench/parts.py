"""The parts of `all`: which program of this folder measures what, for which plugins."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import pathlib
import shutil
from collections.abc import Callable

from plugin_argument import Plugin

_FOLDER = pathlib.Path(__file__).resolve().parent
RESIDENT_KIB = 188  # of a connection over one HCA, in a release build: CMakeLists.txt has the same
# Of the cases of wire_cost, those that differ in kind. GPU memory would be that of a fake driver.
_WIRE_CASES = ("8 B, one at a time", "8 B", "64 KiB", "1 MiB", "64 KiB, 8 grouped", "64 KiB, adaptive routing",
               "1 MiB, 4 QPs, split")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured: the own plugin, which has the name OWN, beside the peers."""
    build: pathlib.Path
    plugin: Plugin
    peers: list[Plugin] = dataclasses.field(default_factory=list)
    quick: bool = False

    @property
    def plugins(self):
        return [*self.peers, self.plugin]

    def either(self, quick, full):
        return (quick if self.quick else full).split()


@dataclasses.dataclass(frozen=True)
class Part:
    """`runs` are the command lines of a Setting, to which --json is added; their figures are merged.
    `missing` says why this machine cannot run the part, or None."""
    name: str
    text: str
    runs: Callable[[Setting], list[list[str]]]
    missing: Callable[[Setting], str | None]


def _program(name, setting, *words):
    return [str(_FOLDER / name), "--build", str(setting.build), *words]


def _beside_perftest(name, setting, words):
    peers = [word for peer in setting.peers for word in ("--peer", str(peer))]
    return [_program(name, setting, "--plugin", str(setting.plugin), *peers, *words)]


def _softhca_speed(setting):
    return _beside_perftest("softhca_ratio", setting, setting.either(
        "--repeat 2 --bandwidth-iters 500 --latency-iters 2000", ""))


def _soft_roce_speed(setting):
    return _beside_perftest("vm_ratio", setting, setting.either(
        "--repeat 2 --bandwidth-iters 50 --latency-iters 500", ""))


def _connections(setting, words):
    plugins = [word for plugin in setting.plugins for word in ("--plugin", str(plugin))]
    return [_program("connections", setting, *plugins, *words)]


def _softhca_connections(setting):
    return _connections(setting, ["--no-instructions", "--at-most", str(RESIDENT_KIB), *setting.either(
        "--connections 100 --rounds 1 --polls 2000", "--connections 100 1000 --rounds 7")])


def _soft_roce_connections(setting):
    return _connections(setting, ["--soft-roce", *setting.either("--connections 20 --rounds 1 --polls 2000",
                                                                 "--rounds 7")])


def _idle_poll(setting):
    return _connections(setting, ["--instructions-only"])


def _instructions(setting):
    words = setting.either("--messages 200", "")
    runs = [_program("instructions", setting, "--plugin", str(plugin), *words)
            for plugin in reversed(setting.plugins)]
    return [*runs, _program("instructions", setting, "--plugin", str(setting.plugin), "--standby", *words)]


def _requests(setting):
    """A run for each case, since a plugin may be unable to do one of them."""
    return [_program("wire_cost", setting, "--plugin", str(plugin), "--case", case)
            for case in _WIRE_CASES[:2 if setting.quick else None] for plugin in reversed(setting.plugins)]


def _rails(setting):
    return [_program("rails_throughput", setting, *setting.either(
        "--rounds 1 --sizes 524288 --seconds 0.5 --messages 20", "--rounds 7"))]


def _lossy_rail(setting):
    return [_program("vm_lossy_rail", setting, *setting.either("--rounds 1 --size 2M --iterations 5",
                                                               "--rounds 7"))]


def _built(*files):
    def missing(setting):
        absent = [file for file in files if not (setting.build / file).exists()]
        return f"{setting.build / absent[0]} does not exist; build it by ./run build" if absent else None
    return missing


def _installed(program, package):
    return lambda setting: None if shutil.which(program) else f"{program} is not installed; it is in {package}"


def _machine(setting):
    from measuring_guest import what_is_missing  # pylint: disable=import-outside-toplevel
    return what_is_missing(setting.build)


def _of_the_build(setting):
    """rails_throughput measures the build's transport without its plugin."""
    own = setting.build / "lib" / "libnccl-net-gdr.so"
    return None if setting.plugin.file == own else f"it measures the code of the build, not {setting.plugin.file}"


def _first(*checks):
    return lambda setting: next((text for text in (check(setting) for check in checks) if text), None)


_SOFTHCA = _built("softhca/libibverbs.so.1")
_PERFTEST = (_built("bin/nccl-gdr"), _installed("ib_write_bw", "perftest"), _installed("ib_write_lat", "perftest"))
_VALGRIND = _installed("valgrind", "valgrind")

PARTS = {part.name: part for part in (
    Part("softhca-speed", "bandwidth and latency beside perftest, over the software HCA", _softhca_speed,
         _first(_SOFTHCA, *_PERFTEST)),
    Part("soft-roce-speed", "the same over Soft-RoCE in an emulated machine", _soft_roce_speed,
         _first(*_PERFTEST, _machine)),
    Part("softhca-connections", "memory, set-up, tear-down and polls of connections, over the software HCA",
         _softhca_connections, _first(_SOFTHCA, _built("bin/connections_driver"))),
    Part("soft-roce-connections", "the same over Soft-RoCE in an emulated machine", _soft_roce_connections,
         _first(_built("bin/connections_driver"), _machine)),
    Part("instructions", "instructions of a message inside the plugin, at each side", _instructions,
         _first(_SOFTHCA, _built("bin/instructions_driver"), _VALGRIND)),
    Part("idle-poll", "instructions of a poll of an idle connection", _idle_poll,
         _first(_SOFTHCA, _built("bin/connections_driver"), _VALGRIND)),
    Part("requests", "requests, doorbells and completions of a message", _requests,
         _first(_SOFTHCA, _built("bin/wire_cost_driver"))),
    Part("softhca-rails", "two rails beside one, over the software HCA; own plugin alone", _rails,
         _first(_of_the_build, _SOFTHCA, _built("tests/spread_bench"))),
    Part("soft-roce-lossy-rail", "two rails, of which one loses packets; own plugin alone", _lossy_rail,
         _first(_of_the_build, _built("bin/nccl-gdr"), _machine)),
)}
