"""Reads the JSON that the programs of nccl-tests write with -J FILE, from 2.17.3 on.

Releases 2.17.3 to 2.19.1 write version 1 of the format, 2.19.2 to 2.19.5 version 2, and 2.19.6 version 3.
They differ in what is not used here. Source: src/util.cu of https://github.com/NVIDIA/nccl-tests at these tags.

    {"version": 3, "args": ["all_reduce_perf", ...], "env": [...], "nccl_version": 22803,
     "config": {"nthreads": 1, "ngpus": 2, ..., "devices": [{"hostname": ..., "device_hex": "0000:18:00",
                                                       "device_info": ...}]},
     "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1",
                  "out_of_place": {"time": 22.1, "alg_bw": 0.0, "bus_bw": 0.0, "nwrong": 0.0},
                  "in_place": {...}, ...}],
     "out_of_bounds": {"count": 0, "okay": "true"}, ..., "end_time": "2026-07-09 16:00:00"}

The list of devices has one entry a process, for the first GPU of that process.
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import json
import math
import re

# The writer prints an infinite number as printf does, which is no JSON.
_INFINITE = re.compile(r"(?<=[:\[,])(-?)inf(?=\s*[,}\]])")


class JsonError(Exception):
    """The text is not what nccl-tests writes; the message says what is wrong."""


@dataclasses.dataclass(frozen=True)
class Measure:
    """One half of a row. time_us in microseconds, bandwidths in 10^9 bytes/s."""
    time_us: float
    algbw: float
    busbw: float
    wrong: float | None  # None where the program does not check, or does not count


@dataclasses.dataclass(frozen=True)
class Row:
    size: int  # bytes
    out_of_place: Measure | None
    in_place: Measure | None
    kind: str = ""  # data type and operator, such as "float sum"

    def wrong(self):
        """Wrong elements of both halves; None when neither was checked."""
        counts = [half.wrong for half in (self.out_of_place, self.in_place)
                  if half is not None and half.wrong is not None]
        return sum(counts) if counts else None


@dataclasses.dataclass(frozen=True)
class PerfTable:
    rows: list[Row] = dataclasses.field(default_factory=list)
    out_of_bounds: int | None = None
    ranks: int = 0
    gpus: list[str] = dataclasses.field(default_factory=list)  # the name of each GPU, which may have several ranks
    hosts: list[str] = dataclasses.field(default_factory=list)  # the host of each rank
    program: str = ""  # "all_reduce_perf"
    library: str = ""  # NCCL's version as a number, such as 22803
    cpu_time: bool = False  # -C: the CPU's time, which is not the time of the collective
    notes: list[str] = dataclasses.field(default_factory=list)  # what cannot be used


def _measure(half):
    """A Measure; None for an absent half, and where the time is no time."""
    if half is None:
        return None
    time_us = float(half["cpu_time"] if "cpu_time" in half else half["time"])
    if not math.isfinite(time_us) or time_us <= 0:
        return None
    wrong = half.get("nwrong")
    return Measure(time_us, float(half["alg_bw"]), float(half["bus_bw"]),
                   None if wrong is None else float(wrong))


def _row(entry, notes):
    halves = [entry.get("out_of_place"), entry.get("in_place")]
    measures = [_measure(half) for half in halves]
    size = int(entry["size"])
    for half, result in zip(halves, measures):
        if half is not None and result is None:
            notes.append(f"at {size} B the time is {half.get('time', half.get('cpu_time'))}")
    kind = " ".join(entry[name] for name in ("type", "redop") if entry.get(name, "none") != "none")
    return Row(size, *measures, kind) if any(measures) else None


def _ranks(config):
    """One entry a rank: (host, what distinguishes its GPU there, the GPU's name)."""
    each = int(config.get("nthreads", 1)) * int(config.get("ngpus", 1))
    return [(device.get("hostname", ""), (device.get("device_hex", process), index), device.get("device_info", ""))
            for process, device in enumerate(config.get("devices", [])) for index in range(each)]


def parse(text):
    """The PerfTable in `text`. Raises JsonError."""
    try:
        document = json.loads(_INFINITE.sub(r"\1Infinity", text))
        results, notes = document["results"], []
        rows = [_row(entry, notes) for entry in results]
        ranks = _ranks(document.get("config", {}))
        cpu_time = any("cpu_time" in half for entry in results
                       for half in (entry.get("out_of_place"), entry.get("in_place")) if half)
        program = str((document.get("args") or [""])[0]).rsplit("/", 1)[-1]
        out_of_bounds = (document.get("out_of_bounds") or {}).get("count")
    except json.JSONDecodeError as error:
        raise JsonError(f"no complete JSON: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise JsonError(f"not written by nccl-tests -J: it lacks or misstates {error}") from error
    return PerfTable([row for row in rows if row], out_of_bounds, len(ranks),
                     [gpu for *_, gpu in dict.fromkeys(ranks)], [host for host, *_ in ranks], re.sub(r"_perf\w*$", "_perf", program),
                     str(document.get("nccl_version", "")), cpu_time, notes)


def load(path):
    """The PerfTable of a file; without rows, and with a note, where a run has not written all of it."""
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return PerfTable(notes=[
            "no JSON was written (nccl-tests 2.17.3 or later is needed, and several "
            "hosts need the output folder on a shared file system)"])
    except JsonError as error:
        return PerfTable(notes=[str(error)])
