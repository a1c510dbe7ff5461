"""Sessions and results of nccl-tests for the tests of comparelib."""

import json

import paths  # noqa: F401  (sets the module path)
from comparelib import nccl_log, perf_json, session

LOG = """\
host1:41022:41030 [0] NCCL INFO Using network {network}
host1:41022:41040 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/{network}/0/GDRDMA
"""


def half(size, time_us, wrong=0.0):
    bandwidth = size / time_us / 1e3
    return {"time": time_us, "alg_bw": bandwidth, "bus_bw": bandwidth, "nwrong": wrong}


def result(size, time_us, wrong=0.0, kind="float"):
    """One row, in the order of nccl-tests 2.19.6."""
    return {"size": size, "count": size // 4, "type": kind, "redop": "sum", "root": "    -1",
            "out_of_place": half(size, time_us, wrong), "in_place": half(size, time_us, wrong),
            "actual_iterations": 20}


def json_text(times, **changes):
    """What -J writes, with these times by size; each of two processes has a GPU on a host of its own."""
    document = {
        "version": 3, "start_time": "2026-07-09 16:00:00", "args": ["./build/all_reduce_perf", "-b", "8"],
        "env": ["HOME=/root"], "nccl_version": 22803,
        "config": {"nthreads": 1, "ngpus": 1, "devices": [
            {"rank": rank, "hostname": f"host{rank + 1}", "device_info": "NVIDIA H200"} for rank in (0, 1)]},
        "results": [result(size, time) for size, time in times.items()],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.5, "okay": "unchecked"},
        "errors": [""], "end_time": "2026-07-09 16:00:09", **changes}
    return json.dumps(document, separators=(",", ":"))


def table(times, **changes):
    return perf_json.parse(json_text(times, **changes))


def run(side, index, times, found=None, left_out=(), defects=()):
    """`found` is a table in place of that of the times."""
    log = nccl_log.parse(LOG.format(network=side.upper()))
    return session.Run("all_reduce_perf", side, index,
                       f"NCCL_NET={side} all_reduce_perf", found or table(times), log, 1.0,
                       list(left_out), list(defects), f"{side}.{index}.json")


def of_times(times, base="ib", control=None, **facts):
    """A session of one program. `times` maps a side to one dict of times by size for each round."""
    runs = [run(side, index, by_size) for side, found in times.items() for index, by_size in enumerate(found)]
    count = max(len(found) for found in times.values())
    return session.Session(runs, list(times), base, control, False, count, facts)
