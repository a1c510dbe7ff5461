"""Compares plugins with perftest: bandwidth at 1 MiB, half round trip at 8 B.

The half round trip is measured twice: with receives posted ahead, as NCCL posts them, and with one
receive posted at a time, so that every message waits for its clear-to-send. Each repeat measures all
sides of each figure in turn; see nccl-tests-config/comparelib/rounds.py.
"""

import argparse
import dataclasses
import json
import pathlib

from arguments import Plugin, one_name, positive
import figures as results
import perftest_output
from figures import OWN, Figure, rounds

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# nccl-rdma-sharp-plugins passes a character for the "%s" of a warning.
NO_WARNINGS = {"NCCL_DEBUG": "VERSION"}
_BANDWIDTH_BYTES = 1 << 20
_LATENCY_BYTES = 8


class Failed(Exception):
    """A program failed; the text contains its command and output."""


@dataclasses.dataclass(frozen=True)
class Targets:
    """Bounds on plugin / perftest: of the average bandwidth, and of the typical latencies."""
    bandwidth: rounds.Target
    latency: rounds.Target
    one_receive: rounds.Target  # latency with one receive posted at a time


def parse_peer(text):
    """The Plugin of NAME=FILE[:TABLE]; the name is neither that of perftest nor of the own plugin."""
    name = text.partition("=")[0]
    if not name or name == text:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE or NAME=FILE:TABLE")
    if name in (OWN, "perftest"):
        raise argparse.ArgumentTypeError(f"the name {name!r} is taken")
    return Plugin.parse(text)


def parse(parser, repeat, bandwidth_iters, latency_iters):
    """The options, with absolute paths of existing files; `tool` is the build's nccl-gdr."""
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--plugin", type=Plugin.parse, metavar="FILE[:TABLE]",
                        help="default: the build's own")
    parser.add_argument("--peer", type=parse_peer, action="append", default=[], dest="peers",
                        metavar="NAME=FILE[:TABLE]",
                        help="another plugin to measure beside it, and the version of its table; several "
                             "times for several")
    parser.add_argument("--repeat", type=positive, default=repeat)
    parser.add_argument("--bandwidth-iters", type=positive, default=bandwidth_iters)
    parser.add_argument("--latency-iters", type=positive, default=latency_iters)
    results.add_option(parser)
    parser.add_argument("--enforce", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    options.build = options.build.resolve()
    own = options.plugin or Plugin(OWN, options.build / "lib" / "libnccl-net-gdr.so")
    options.tool = options.build / "bin" / "nccl-gdr"
    options.plugins = [dataclasses.replace(own, name=OWN), *options.peers]
    for needed in (own.file, options.tool):
        require(parser, needed)
    for peer in options.peers:
        if not peer.file.exists():
            parser.error(f"{peer.file} does not exist")
    if conflict := one_name("--peer", options.peers):
        parser.error(conflict)
    return options


def require(parser, path):
    if not path.exists():
        parser.error(f"{path} does not exist; build it by ./run build")


def _measurements(options, run_perftest, run_plugin):
    """{figure: {(figure, side): a function that measures it once}}; perftest is the first side."""
    def perftest(program, size, iterations, column):
        output = run_perftest([program, "-F", "-s", str(size), "-n", str(iterations)])
        row = perftest_output.row(output, size)
        if row is None:
            raise Failed(f"{program} printed no result for {size} bytes\n{output}")
        return row[column]

    def perf(plugin, test, shape, key, *more):
        size, iterations = shape
        rows = "bandwidth" if test == "bw" else "latency"
        words = ["perf", "sendrecv", "--test", test, "--begin", str(size), "--end", str(size),
                 "--iters", str(iterations), "--json", "-", "--plugin", str(plugin.file),
                 "--table", plugin.table, *more]
        output = run_plugin(words)
        try:
            return json.loads(output)[rows][0][key]
        except (ValueError, LookupError) as error:
            raise Failed(f"nccl-gdr {' '.join(words)} printed no result ({error})\n{output}") from error

    bandwidth = (_BANDWIDTH_BYTES, options.bandwidth_iters)
    latency = (_LATENCY_BYTES, options.latency_iters)
    figures = {"bandwidth": {("bandwidth", "perftest"): lambda: perftest("ib_write_bw", *bandwidth, 3)},
               "latency": {("latency", "perftest"): lambda: perftest("ib_write_lat", *latency, 4)}}
    for plugin in options.plugins:
        figures["bandwidth"]["bandwidth", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "bw", bandwidth, "average_mib_s"))
        figures["latency"]["latency", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "lat", latency, "typical_us"))
        figures["latency"]["one receive", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "lat", latency, "typical_us", "--depth", "1"))
    return figures


def _measure(repeats, figures):
    """{(figure, side): its values, one a repeat}; prints a line for each repeat."""
    samples = {key: [] for sides in figures.values() for key in sides}
    for repeat in range(repeats):
        for sides in figures.values():
            for key in rounds.rotated(list(sides), repeat):
                samples[key].append(sides[key]())
        line = ", ".join(f"{figure} of {side} {values[-1]:.2f}"
                         for (figure, side), values in samples.items())
        print(f"  repeat {repeat + 1} of {repeats}: {line}", flush=True)
    return samples


def _spread(found):
    return f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})"


def _figures(samples, options, targets):
    """The Figures of what _measure() returned; perftest's latency stands beside both of the plugins'."""
    found = []
    for figure, base, title, unit, more, target in (
            ("bandwidth", "bandwidth", "1 MiB bandwidth", "MiB/s", True, targets.bandwidth),
            ("latency", "latency", "8 B half round trip, receives posted ahead", "us", False, targets.latency),
            ("one receive", "latency", "8 B half round trip, one receive at a time", "us", False,
             targets.one_receive)):
        sides = {plugin.name: samples[figure, plugin.name] for plugin in options.plugins}
        found.append(Figure(title, unit, {"perftest": samples[base, "perftest"], **sides}, more,
                            target=target, target_of="perftest"))
    return found


def _print_figure(figure, options):
    perftest = figure.samples["perftest"]
    program = "ib_write_bw" if figure.more_is_better else "ib_write_lat"
    print(f"{figure.title}: {program} {rounds.summary(perftest).median:.2f} {figure.unit} (median)")
    for plugin in options.plugins:
        values = figure.samples[plugin.name]
        text = f" (target: {figure.target})" if plugin.name == OWN else ""
        print(f"  {plugin.name} {rounds.summary(values).median:.2f} {figure.unit}, "
              f"{_spread(rounds.ratio(values, perftest))} times {program}{text}")
    for peer in options.plugins[1:]:
        found = rounds.ratio(figure.samples[OWN], figure.samples[peer.name])
        print(f"  {OWN} / {peer.name}: {_spread(found)}")


def compare(where, options, targets, run_perftest, run_plugin):
    """Measures, prints the medians and ratios, writes --json, and returns the exit code.

    run_perftest(words) runs both ends of a perftest program and returns the client's output;
    run_plugin(words) runs nccl-gdr with these arguments and NO_WARNINGS, and returns its standard
    output.
    """
    print(f"Plugins and perftest on {where}, {options.repeat} alternating repeats", flush=True)
    samples = _measure(options.repeat, _measurements(options, run_perftest, run_plugin))
    found = _figures(samples, options, targets)
    for figure in found:
        _print_figure(figure, options)
    missed = [text for text in map(Figure.missed, found) if text]
    for text in missed:
        print(f"a target is MISSED: {text}")
    if not missed:
        print("all targets are met")
    if options.json:
        results.write(options.json, where, found)
    return 1 if options.enforce and missed else 0
