"""Compares a plugin with perftest: bandwidth at 1 MiB, half round trip at 8 B.

Each repeat measures both sides of both figures; see nccl-tests-config/comparelib/rounds.py.
"""

import dataclasses
import json
import pathlib
import sys

import perftest_output

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "nccl-tests-config"))
from comparelib import rounds  # pylint: disable=wrong-import-position

_BANDWIDTH_BYTES = 1 << 20
_LATENCY_BYTES = 8


class Failed(Exception):
    """A program failed; the text contains its command and output."""


@dataclasses.dataclass(frozen=True)
class Targets:
    """Bounds on plugin / perftest: of the average bandwidth, and of the typical latency."""
    bandwidth: rounds.Target
    latency: rounds.Target


def parse(parser, repeat, bandwidth_iters, latency_iters):
    """The options, with absolute paths of existing files; `tool` is the build's nccl-gdr."""
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--plugin", type=pathlib.Path, help="default: the build's own")
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--bandwidth-iters", type=int, default=bandwidth_iters)
    parser.add_argument("--latency-iters", type=int, default=latency_iters)
    parser.add_argument("--enforce", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.plugin = (options.plugin or options.build / "lib" / "libnccl-net-gdr.so").resolve()
    options.tool = options.build / "bin" / "nccl-gdr"
    for needed in (options.plugin, options.tool):
        require(parser, needed)
    return options


def require(parser, path):
    if not path.exists():
        parser.error(f"{path} does not exist; build it by ./run build")


def _measurements(options, run_perftest, run_plugin):
    """{figure: {side: a function that measures it once}}"""
    def perftest(program, size, iterations, column):
        output = run_perftest([program, "-F", "-s", str(size), "-n", str(iterations)])
        row = perftest_output.row(output, size)
        if row is None:
            raise Failed(f"{program} printed no result for {size} bytes\n{output}")
        return row[column]

    def plugin(test, size, iterations, rows, key):
        report = json.loads(run_plugin(
            ["perf", "sendrecv", "--test", test, "--begin", str(size), "--end", str(size),
             "--iters", str(iterations), "--json", "-"]))
        return report[rows][0][key]

    bandwidth = (_BANDWIDTH_BYTES, options.bandwidth_iters)
    latency = (_LATENCY_BYTES, options.latency_iters)
    return {"bw": {"ib_write_bw": lambda: perftest("ib_write_bw", *bandwidth, 3),
                   "plugin_bw": lambda: plugin("bw", *bandwidth, "bandwidth", "average_mib_s")},
            "lat": {"ib_write_lat": lambda: perftest("ib_write_lat", *latency, 4),
                    "plugin_lat": lambda: plugin("lat", *latency, "latency", "typical_us")}}


def _measure(repeats, measurements):
    """{side's name: its values, one a repeat}; prints a line for each repeat."""
    samples = {name: [] for sides in measurements.values() for name in sides}
    for repeat, figure, side in rounds.schedule([0, 1], repeats, measurements):
        name, measure = list(measurements[figure].items())[side]
        samples[name].append(measure())
        if all(len(values) == repeat + 1 for values in samples.values()):
            line = ", ".join(f"{one} {values[-1]:.2f}" for one, values in samples.items())
            print(f"  repeat {repeat + 1} of {repeats}: {line}", flush=True)
    return samples


def _spread(found):
    return f"ratio {found.median:.3f} ({found.low:.3f} to {found.high:.3f})"


def compare(where, options, targets, run_perftest, run_plugin):
    """Measures, prints the medians and ratios, and returns the exit code.

    run_perftest(words) runs both ends of a perftest program and returns the client's output;
    run_plugin(words) runs nccl-gdr with these arguments and returns its standard output.
    """
    print(f"The plugin and perftest on {where}, {options.repeat} alternating repeats (MiB/s; half "
          "round trip, typical, in us)", flush=True)
    samples = _measure(options.repeat, _measurements(options, run_perftest, run_plugin))
    median = {name: rounds.summary(values).median for name, values in samples.items()}
    bandwidth = rounds.ratio(samples["plugin_bw"], samples["ib_write_bw"])
    latency = rounds.ratio(samples["plugin_lat"], samples["ib_write_lat"])
    print(f"1 MiB bandwidth: ib_write_bw {median['ib_write_bw']:.0f} MiB/s, plugin "
          f"{median['plugin_bw']:.0f} MiB/s, {_spread(bandwidth)} (target: {targets.bandwidth})")
    print(f"8 B half round trip: ib_write_lat {median['ib_write_lat']:.2f} us, plugin "
          f"{median['plugin_lat']:.2f} us, {_spread(latency)} (target: {targets.latency})")
    met = targets.bandwidth.met(bandwidth) and targets.latency.met(latency)
    print("both targets are met" if met else "a target is MISSED")
    return 1 if options.enforce and not met else 0
