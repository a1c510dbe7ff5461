"""Compares plugins with perftest: bandwidth at 1 MiB, half round trip at 8 B.

The half round trip is measured twice: with receives posted ahead, as NCCL posts them, and with one
receive posted at a time, so that every message waits for its clear-to-send. Each repeat measures all
sides of each figure in turn; see nccl-tests-config/comparelib/rounds.py.
"""

import dataclasses
import json
import re

import arguments
from arguments import positive
import verdicts
from figures import Figure, rounds

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


def make_parser(text, repeat, bandwidth_iters, latency_iters):
    parser = arguments.make_parser(text, takes_peers=True)
    parser.add_argument("--repeat", type=positive, default=repeat)
    parser.add_argument("--bandwidth-iters", type=positive, default=bandwidth_iters)
    parser.add_argument("--latency-iters", type=positive, default=latency_iters)
    return parser


def parse(parser, *needs):
    options = arguments.parse(parser, "bin/nccl-gdr", *needs)
    options.tool = options.build / "bin/nccl-gdr"
    return options


def _row(text, size):
    """The numbers of the line for messages of `size` bytes, or None.

    Bandwidth: bytes, iterations, peak MiB/s, average MiB/s, Mpps (perftest writes MB for 2^20).
    Latency: bytes, iterations, min, max, typical, average, stdev, 99 %, 99.9 % (microseconds).
    """
    lines = [line.split() for line in text.splitlines() if re.fullmatch(r"[-+.e\d\s]+", line)]
    rows = [[float(word) for word in words] for words in lines if len(words) >= 5 and words[0] == str(size)]
    return rows[-1] if rows else None


def _measurements(options, run_perftest, run_plugin):
    """{figure: {(figure, side): a function that measures it once}}; perftest is the first side."""
    def perftest(program, size, iterations, column):
        output = run_perftest([program, "-F", "-s", str(size), "-n", str(iterations)])
        row = _row(output, size)
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
    found = {"bandwidth": {("bandwidth", "perftest"): lambda: perftest("ib_write_bw", *bandwidth, 3)},
             "latency": {("latency", "perftest"): lambda: perftest("ib_write_lat", *latency, 4)}}
    for plugin in options.plugins:
        found["bandwidth"]["bandwidth", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "bw", bandwidth, "average_mib_s"))
        found["latency"]["latency", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "lat", latency, "typical_us"))
        found["latency"]["one receive", plugin.name] = (
            lambda plugin=plugin: perf(plugin, "lat", latency, "typical_us", "--depth", "1"))
    return found


def _measure(repeats, measurements):
    """{(figure, side): its values, one a repeat}; prints a line for each repeat."""
    samples = {key: [] for sides in measurements.values() for key in sides}
    for repeat in range(repeats):
        for sides in measurements.values():
            for key in rounds.rotated(list(sides), repeat):
                samples[key].append(sides[key]())
        line = ", ".join(f"{figure} of {side} {values[-1]:.2f}"
                         for (figure, side), values in samples.items())
        print(f"  repeat {repeat + 1} of {repeats}: {line}", flush=True)
    return samples


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


def compare(where, options, targets, run_perftest, run_plugin):
    """Measures, prints the figures, writes --json, and returns the exit status.

    run_perftest(words) runs both ends of a perftest program and returns the client's output;
    run_plugin(words) runs nccl-gdr with these arguments and NO_WARNINGS, and returns its standard
    output.
    """
    print(f"Plugins and perftest on {where}, {options.repeat} alternating repeats", flush=True)
    samples = _measure(options.repeat, _measurements(options, run_perftest, run_plugin))
    return verdicts.finish(options, where, _figures(samples, options, targets))
