"""Compares a plugin with perftest: bandwidth at 1 MiB, half round trip at 8 B.

Each repeat runs all four measurements, one after the other, so that a machine that slows down or
speeds up does so for both sides. A ratio is the median of the repeats' own ratios.
"""

import dataclasses
import json
import pathlib
import statistics

import perftest_output

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BANDWIDTH_BYTES = 1 << 20
_LATENCY_BYTES = 8


class Failed(Exception):
    """A program failed; the text has its command and output."""


@dataclasses.dataclass(frozen=True)
class Targets:
    bandwidth: float  # of ib_write_bw's average, at least
    latency: float  # times ib_write_lat's typical, at most


def parse(parser, repeat, bandwidth_iters, latency_iters):
    """The options; `tool` is the build's nccl-gdr. Paths are absolute and exist."""
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


def _median_ratio(above, below):
    return statistics.median(a / b for a, b in zip(above, below))


def _measure(options, run_perftest, run_plugin):
    def perftest(program, size, iterations, column):
        output = run_perftest([program, "-F", "-s", str(size), "-n", str(iterations)])
        row = perftest_output.row(output, size)
        if row is None:
            raise Failed(f"{program} printed no result for {size} bytes\n{output}")
        return row[column]

    def plugin(test, size, iterations):
        report = json.loads(run_plugin(
            ["perf", "sendrecv", "--test", test, "--begin", str(size), "--end", str(size),
             "--iters", str(iterations), "--json", "-"]))
        return report["bandwidth" if test == "bw" else "latency"][0]

    samples = {"ib_write_bw": [], "plugin_bw": [], "ib_write_lat": [], "plugin_lat": []}
    for repeat in range(options.repeat):
        samples["ib_write_bw"].append(
            perftest("ib_write_bw", _BANDWIDTH_BYTES, options.bandwidth_iters, 3))
        samples["plugin_bw"].append(
            plugin("bw", _BANDWIDTH_BYTES, options.bandwidth_iters)["average_mib_s"])
        samples["ib_write_lat"].append(
            perftest("ib_write_lat", _LATENCY_BYTES, options.latency_iters, 4))
        samples["plugin_lat"].append(
            plugin("lat", _LATENCY_BYTES, options.latency_iters)["typical_us"])
        line = ", ".join(f"{name} {values[-1]:.2f}" for name, values in samples.items())
        print(f"  repeat {repeat + 1} of {options.repeat}: {line}", flush=True)
    return samples


def compare(where, options, targets, run_perftest, run_plugin):
    """run_perftest(words) runs both ends of a perftest program and returns the client's output;
    run_plugin(words) runs nccl-gdr and returns its stdout. Returns the exit code."""
    print(f"The plugin and perftest on {where}, {options.repeat} interleaved repeats (MiB/s; half "
          "round trip, typical, in us)", flush=True)
    samples = _measure(options, run_perftest, run_plugin)
    median = {name: statistics.median(values) for name, values in samples.items()}
    bandwidth = _median_ratio(samples["plugin_bw"], samples["ib_write_bw"])
    latency = _median_ratio(samples["plugin_lat"], samples["ib_write_lat"])
    print(f"1 MiB bandwidth: ib_write_bw {median['ib_write_bw']:.0f} MiB/s, plugin "
          f"{median['plugin_bw']:.0f} MiB/s, ratio {bandwidth:.3f} (target: at least "
          f"{targets.bandwidth})")
    print(f"8 B half round trip: ib_write_lat {median['ib_write_lat']:.2f} us, plugin "
          f"{median['plugin_lat']:.2f} us, ratio {latency:.2f} (target: at most {targets.latency})")
    met = bandwidth >= targets.bandwidth and latency <= targets.latency
    print("both targets are met" if met else "a target is MISSED")
    return 1 if options.enforce and not met else 0
