"""Compares plugins with perftest: bandwidth at 1 MiB, half round trip at 8 B.

The half round trip is measured twice: with receives posted ahead, as NCCL posts them, and with one
receive posted at a time, so that every message waits for its clear-to-send. Each repeat measures all
sides of each figure in turn; see nccl-tests-config/comparelib/rounds.py.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

import perftest_output
from number_argument import positive
from plugin_argument import Plugin

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "nccl-tests-config"))
from comparelib import rounds  # pylint: disable=wrong-import-position

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
    if name in ("plugin", "perftest"):
        raise argparse.ArgumentTypeError(f"the name {name!r} is taken")
    return Plugin.parse(text)


def parse(parser, repeat, bandwidth_iters, latency_iters):
    """The options, with absolute paths of existing files; `tool` is the build's nccl-gdr."""
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--plugin", type=pathlib.Path, help="default: the build's own")
    parser.add_argument("--peer", type=parse_peer, metavar="NAME=FILE[:TABLE]",
                        help="another plugin to measure beside it, and the version of its table")
    parser.add_argument("--repeat", type=positive, default=repeat)
    parser.add_argument("--bandwidth-iters", type=positive, default=bandwidth_iters)
    parser.add_argument("--latency-iters", type=positive, default=latency_iters)
    parser.add_argument("--enforce", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.plugin = (options.plugin or options.build / "lib" / "libnccl-net-gdr.so").resolve()
    options.tool = options.build / "bin" / "nccl-gdr"
    options.plugins = [Plugin("plugin", options.plugin)] + ([options.peer] if options.peer else [])
    for needed in (options.plugin, options.tool):
        require(parser, needed)
    if options.peer and not options.peer.file.exists():
        parser.error(f"{options.peer.file} does not exist")
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


def compare(where, options, targets, run_perftest, run_plugin):
    """Measures, prints the medians and ratios, and returns the exit code.

    run_perftest(words) runs both ends of a perftest program and returns the client's output;
    run_plugin(words) runs nccl-gdr with these arguments and NO_WARNINGS, and returns its standard
    output.
    """
    print(f"Plugins and perftest on {where}, {options.repeat} alternating repeats", flush=True)
    samples = _measure(options.repeat, _measurements(options, run_perftest, run_plugin))
    met = True
    for figure, base, title, unit, target in (
            ("bandwidth", "bandwidth", "1 MiB bandwidth", "MiB/s", targets.bandwidth),
            ("latency", "latency", "8 B half round trip, receives posted ahead", "us", targets.latency),
            ("one receive", "latency", "8 B half round trip, one receive at a time", "us",
             targets.one_receive)):
        perftest = samples[base, "perftest"]
        program = "ib_write_bw" if base == "bandwidth" else "ib_write_lat"
        print(f"{title}: {program} {rounds.summary(perftest).median:.2f} {unit} (median)")
        for plugin in options.plugins:
            values = samples[figure, plugin.name]
            found = rounds.ratio(values, perftest)
            own = plugin == options.plugins[0]
            met = met and (not own or target.met(found))
            text = f" (target: {target})" if own else ""
            print(f"  {plugin.name} {rounds.summary(values).median:.2f} {unit}, {_spread(found)} times "
                  f"{program}{text}")
        for peer in options.plugins[1:]:
            found = rounds.ratio(samples[figure, "plugin"], samples[figure, peer.name])
            print(f"  plugin / {peer.name}: {_spread(found)}")
    print("all targets are met" if met else "a target is MISSED")
    return 1 if options.enforce and not met else 0
