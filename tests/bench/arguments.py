"""What the programs have in common: options, the plugins that these name, and the environment of what they run."""

import argparse
import dataclasses
import os
import pathlib

from figures import OWN

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOFTHCA = "softhca/libibverbs.so.1"  # of a build


def positive(text):
    """The type of an option of argparse: a whole number from 1 on, as of rounds."""
    return _above_zero(text, int, "a whole number from 1 on")


def positive_real(text):
    """The type of an option of argparse: a number above 0, as of seconds."""
    return _above_zero(text, float, "a number above 0")


def _above_zero(text, kind, wanted):
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return number


@dataclasses.dataclass(frozen=True)
class Plugin:
    """name, file, and the version of the table to use, or "newest"."""
    name: str
    file: pathlib.Path
    table: str = "newest"

    @classmethod
    def parse(cls, text):
        """The type of an option of argparse. Without a name, it has that of the file."""
        name, equals, rest = text.partition("=")
        if not equals:
            name, rest = "", text
        file, colon, table = rest.rpartition(":")
        if not colon or not (table.isdigit() or table == "newest"):
            file, table = rest, "newest"
        if not file:
            raise argparse.ArgumentTypeError(f"{text!r} names no file")
        path = pathlib.Path(file).resolve()
        return cls(name or path.name.split(".")[0], path, table)

    def __str__(self):
        """What parse() reads."""
        return f"{self.name}={self.file}:{self.table}"


def parse_one(text):
    """The Plugin of [NAME=]FILE[:TABLE], which has the name OWN where none is given."""
    return Plugin.parse(text if "=" in text else f"{OWN}={text}")


def parse_own(text):
    """The same with the name OWN in any case, as the side that targets are of."""
    return dataclasses.replace(Plugin.parse(text), name=OWN)


def parse_peer(text):
    """The Plugin of NAME=FILE[:TABLE]; the name is neither that of perftest nor of the own plugin."""
    name = text.partition("=")[0]
    if not name or name == text:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE or NAME=FILE:TABLE")
    if name in (OWN, "perftest"):
        raise argparse.ArgumentTypeError(f"the name {name!r} is taken")
    return Plugin.parse(text)


def make_parser(text, takes_plugin=True, takes_peers=False, has_targets=True):
    """A parser with the common options; `text` is the docstring of the program."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build", metavar="FOLDER")
    if takes_plugin:
        add("--plugin", type=parse_own if takes_peers else parse_one, metavar="[NAME=]FILE[:TABLE]",
            help="what is measured, and the version of its table (default: the build's own plugin, the newest)")
    if takes_peers:
        add("--peer", type=parse_peer, action="append", default=[], dest="peers", metavar="NAME=FILE[:TABLE]",
            help="another plugin to measure beside it, and the version of its table; several times for several")
    add("--json", type=pathlib.Path, metavar="FILE", help="also write the figures of every round to this file")
    if has_targets:
        add("--enforce", action="store_true", help="exit with 1 where a target is missed")
    parser.set_defaults(plugin=None, peers=[], enforce=False, list=False)
    return parser


def parse(parser, *needs, words=None):
    """The options, with `plugins`, the own one first. An error without a plugin or a file `needs` of the build, unless
    nothing is to be measured (--list)."""
    options = parser.parse_args(words)
    options.build = options.build.resolve()
    options.plugin = options.plugin or Plugin(OWN, options.build / "lib/libnccl-net-gdr.so")
    options.plugins = [options.plugin, *options.peers]
    if len({plugin.name for plugin in options.plugins}) < len(options.plugins):
        parser.error("two plugins have one name: give one of them another, by NAME=FILE")
    for file in [*(plugin.file for plugin in options.plugins), *(options.build / name for name in needs)]:
        if not file.is_file() and not options.list:
            hint = "; build it by ./run build --tests" if file.is_relative_to(options.build) else ""
            parser.error(f"there is no file {file}{hint}")
    return options


def environment(*folders, **variables):
    """That of this process without settings of NCCL, with `folders` in the library path, and in a fabric of its own, where
    no process of another build's HCA is."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "GDR_", "SOFTHCA_"))}
    inherited = env.get("LD_LIBRARY_PATH")
    env["LD_LIBRARY_PATH"] = ":".join([*map(str, folders), *filter(None, [inherited])])
    return {**env, "NCCL_SOCKET_IFNAME": "lo", "SOFTHCA_FABRIC": f"bench{os.getpid()}", **variables}
