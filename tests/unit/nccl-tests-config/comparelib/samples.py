"""Sessions and outputs of nccl-tests for the tests of comparelib."""

import json

import paths  # noqa: F401  (sets the module path)
from comparelib import nccl_log, perf_table, session

# As nccl-tests 2.19.6 prints it, with the header of its -I 1 left out.
TEXT = """\
# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: {program}
# nThread 1 nGpus 2 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 \
graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid  41022 on      host1 device  0 [0000:06:00] NVIDIA H200
#  Rank  1 Group  0 Pid  41023 on      host2 device  0 [0000:06:00] NVIDIA H200
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
{rows}{end}"""
END = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.39361 
#
# Collective test concluded: all_reduce_perf
#
"""
LOG = """\
host1:41022:41030 [0] NCCL INFO Using network {network}
host1:41022:41040 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/{network}/0/GDRDMA
"""


def row(size, time_us, wrong=0, kind="float     sum"):
    bandwidth = size / time_us / 1e3
    half = f"  {time_us:7.2f}  {bandwidth:6.2f}  {bandwidth:6.2f}  {wrong:>6}"
    return f"{size:12d}  {size // 4:12d}     {kind}      -1{half}{half}\n"


def text(times, program="all_reduce_perf", end=END):
    """The output of one run with these times by size."""
    return TEXT.format(program=program,
                       rows="".join(row(size, time) for size, time in times.items()),
                       end=end)


def json_text(times, version=3, **changes):
    """What -J writes, with these times by size; None for a value is null."""
    half = lambda size, time: {
        "time": time,
        "alg_bw": size / time / 1e3,
        "bus_bw": size / time / 1e3,
        "nwrong": 0.0
    }
    document = {
        "version": version,
        "start_time": "2026-07-09 16:00:00",
        "args": ["./build/all_reduce_perf", "-b", "8"],
        "env": ["HOME=/root"],
        "nccl_version": 22803,
        "config": {
            "nthreads": 1,
            "ngpus": 2,
            "devices": [{
                "rank": 0,
                "hostname": "host1",
                "device_info": "NVIDIA H200"
            }]
        },
        "results": [{
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": half(size, time),
            "in_place": half(size, time),
            "actual_iterations": 20
        } for size, time in times.items()],
        "out_of_bounds": {
            "count": 0,
            "okay": "true"
        },
        "average_bus_bandwidth": {
            "bandwidth": 1.5,
            "okay": "unchecked"
        },
        "errors": [""],
        "end_time": "2026-07-09 16:00:09",
        **changes
    }
    return json.dumps(document, separators=(",", ":"))


def run(side, index, times, program="all_reduce_perf", **changes):
    table = perf_table.parse(text(times, program))
    log = nccl_log.parse(LOG.format(network=side.upper()))
    fields = {"command": f"NCCL_NET={side} {program}", "left_out": [], "defects": [], **changes}
    return session.Run(program, side, index, fields["command"], fields.get("table", table), log,
                       1.0, fields["left_out"], fields["defects"],
                       fields.get("source", f"{side}.{index}.out"))


def of_times(times, base="ib", control=None, **facts):
    """A session of one program. `times` maps a side to one dict of times by size for each round."""
    runs = [
        run(side, index, by_size)
        for side, found in times.items()
        for index, by_size in enumerate(found)
    ]
    count = max(len(found) for found in times.values())
    return session.Session(runs, list(times), base, control, False, count,
                           {"date": "2026-11-23T18:00:00+00:00", **facts})
