"""Parses the text that the programs of nccl-tests print.

The columns before the times differ by release. Before 2.13 each program had its own (all_reduce: size
count type redop; all_gather: size count type; broadcast: size count type root), and the last column of
each half was "error", the largest deviation, in place of the number of wrong values. So a table is read
by its own header; a row without one has the columns of 2.13 to 2.19: size count type redop root.
A row is printed in three parts, before and after each measurement, so that log lines and mpirun's tags may stand
between them: its parts are put together over several lines.
Releases from 2.19.2 may add columns of single iterations (-I) to each half, and 2.17.3 a timestamp (-S).
Source: src/common.cu, src/util.cu and src/all_reduce.cu of https://github.com/NVIDIA/nccl-tests at the
tags v2.0.0 to v2.19.6.
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import math
import re
import statistics

_NUMBER = r"[0-9.]+(?:e[+-]?[0-9]+)?"
_VALUE = rf"{_NUMBER}|-?nan|-?inf"
_COLUMNS = {
    "size": "[0-9]+",
    "count": "[0-9]+",
    "type": r"[a-z]\w*",
    "redop": r"\w+",
    "root": "-?[0-9]+"
}
_TIMES = ("time", "cputime")
_HEADER = re.compile(r"#\s+(size\s+count\s+type\s.*)")
_START = re.compile(r"# (?:nccl-tests version|Collective test starting:|nThread) ?\S+")
_VERSION = re.compile(r"# nccl-tests version (\S+)(?:.* nccl-library=([0-9]+))?")
_PROGRAM = re.compile(r"# Collective test starting:\s*(\S+)")
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*([0-9]+)\s+(OK|FAILED)")
_FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure .*\S")
_AVERAGE = re.compile(rf"# Avg bus bandwidth\s*:\s*({_NUMBER})")
# What mpirun (Open MPI: [1,0]<stdout>:, Intel MPI: [0]) and srun (0:) put before each piece of output.
_TAG = re.compile(r"\[[0-9]+(?:,[0-9]+)?\](?:<std(?:out|err)>:?)?|<std(?:out|err)>:|^\s*[0-9]+:(?=\s)")
_DEVICE = re.compile(r"#\s+Rank\s+[0-9]+ .*\bon\s+(\S+) device\s+[0-9]+ \[[^]]*\] (.*\S)")


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
    rows: list[Row]
    out_of_bounds: int | None  # None when the program ended before its last lines
    average_busbw: float | None
    devices: list[str]  # the name of each rank's GPU
    hosts: list[str] = dataclasses.field(default_factory=list)  # the host of each rank
    program: str = ""  # "all_reduce_perf"; empty before nccl-tests 2.17
    version: str = ""  # of nccl-tests; empty before 2.17.4
    library: str = ""  # NCCL's version as a number, such as 22803
    cpu_time: bool = False  # -C: the CPU's time, which is not the time of the collective
    deviations: bool = False  # before 2.13: the last column is no count of wrong values
    notes: list[str] = dataclasses.field(default_factory=list)  # what is missing or cannot be used
    lost: list[str] = dataclasses.field(default_factory=list)  # rows of a complete run without their numbers


class _Layout:
    """The columns of one table: patterns for a whole row, its leading columns, and one half."""

    def __init__(self, names):
        first = next((index for index, name in enumerate(names) if name in _TIMES), len(names))
        self.lead = [name for name in names[:first] if name in _COLUMNS]
        half = [name for name in names[first:] if name != "timestamp"]
        again = next((index for index, name in enumerate(half) if index and name in _TIMES),
                     len(half))
        self.halves = 2 if again < len(half) else 1
        self.cpu_time = "cputime" in half
        self.deviations = "error" in half
        extra = max(again - 4, 0)
        lead = r"\s+".join(f"({_COLUMNS[name]})" for name in self.lead)
        numbers = (rf"\s+({_VALUE})" * 3 + rf"\s+(N/A|{_VALUE})" +
                   rf"(?:\s+(?:{_VALUE})){{{extra}}}")
        begin = r"(?:^|[\s>:])"
        # The pattern matches inside a line: mpirun may tag lines, and other output may precede a row.
        self.row = re.compile(f"{begin}{lead}{numbers}(?:{numbers})?(?=\\s|$)")
        self.begun = re.compile(f"{begin}{lead}")
        # A log line may follow without a space ("0host:1:2 [0] NCCL INFO"), its host may begin with a digit.
        self.half = re.compile(rf"\s*({_VALUE})" + rf"\s+({_VALUE})" * 2 +
                               rf"\s+(N/A|0(?=[0-9])|{_VALUE})(?:\s+(?:{_VALUE})){{{extra}}}")

    def fields(self, match):
        """The leading columns by name, and the values of the halves (None for an absent one)."""
        groups = match.groups()
        count = len(self.lead)
        halves = [groups[count:count + 4], groups[count + 4:count + 8]]
        return dict(zip(self.lead,
                        groups)), [half if half[0] is not None else None for half in halves]


_DEFAULT = _Layout(
    "size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split())


def measure(fields, deviations=False):
    """A Measure of the texts time, algbw, busbw and wrong; None where the time is no time."""
    time_us, algbw, busbw = (float(field) for field in fields[:3])
    if not math.isfinite(time_us) or time_us <= 0:
        return None
    wrong = None if fields[3] == "N/A" or deviations else float(fields[3])
    return Measure(time_us, algbw, busbw, wrong)


def _kind(lead):
    return " ".join(lead[name] for name in ("type", "redop") if lead.get(name, "none") != "none")


class _Parser:
    """Takes the lines of one run one by one."""

    def __init__(self):
        self.layout = _DEFAULT
        self.rows, self.devices, self.hosts, self.notes, self.lost = [], [], [], [], []
        self.found = {}
        self.pending = None  # (the leading columns, the halves so far) of a row that is not complete

    def row(self, lead, halves):
        size = int(lead["size"])
        measures = [half and measure(half, self.layout.deviations) for half in halves]
        for half, result in zip(halves, measures):
            if half and result is None:
                self.notes.append(f"at {size} B the time is {half[0]}")
        if any(measures):
            self.rows.append(Row(size, *measures, _kind(lead)))

    def begin(self, lead, halves, rest):
        """A new row, of which these halves were printed; `rest` is what follows in its line."""
        self.close()
        self.pending = (lead, halves)
        self.more(rest)

    def more(self, text):
        """Takes the halves of the pending row with which `text` begins; whether there are any."""
        if self.pending is None:
            return False
        halves, found = self.pending[1], False
        while len(halves) < self.layout.halves and (match := self.layout.half.match(text)):
            halves.append(match.groups())
            text, found = text[match.end():], True
        if len(halves) >= self.layout.halves:
            self.close()
        return found

    def close(self):
        """Ends the pending row, and records what it lacks."""
        if self.pending is None:
            return
        (lead, halves), self.pending = self.pending, None
        self.row(lead, [*halves, None, None][:2])
        if not halves:
            self.lost.append(f"the row of {lead['size']} B has no numbers")
        elif len(halves) < self.layout.halves and self.layout is not _DEFAULT:
            self.lost.append(f"the row of {lead['size']} B ends after its first half")

    def line(self, line):
        text = _TAG.sub(" ", line)
        if match := self.layout.row.search(text):
            lead, halves = self.layout.fields(match)
            self.begin(lead, [half for half in halves if half], text[match.end():])
        elif match := _HEADER.search(line):
            self.close()
            self.layout = _Layout(match[1].split())
        elif match := _DEVICE.search(line):
            self.hosts.append(match[1])
            self.devices.append(match[2])
        elif match := self.layout.begun.search(text):
            self.begin(dict(zip(self.layout.lead, match.groups())), [], text[match.end():])
        elif not self.more(text):
            self.closing(line)

    def closing(self, line):
        for name, pattern in (("program", _PROGRAM), ("version", _VERSION),
                              ("bounds", _OUT_OF_BOUNDS), ("average", _AVERAGE)):
            if match := pattern.search(line):
                self.found[name] = match
        if (match := _FAILURE.search(line)) and len(self.notes) < 20:
            self.notes.append(match[0])

    def end(self):
        """After the last line. Of a run that ended too early, the last row is expected to lack something."""
        if self.pending is None or "bounds" in self.found:
            self.close()
            return
        lead, halves = self.pending
        before = len(self.lost)
        self.close()
        del self.lost[before:]
        if not halves:
            self.notes.append(f"the program ended while it measured {lead['size']} B")
        elif self.layout is not _DEFAULT:
            self.notes.append(f"the row of {lead['size']} B ends after its first half")

    def table(self):
        self.end()

        def number(name, kind):
            return kind(self.found[name][1]) if name in self.found else None

        version = self.found.get("version")
        program = self.found.get("program")
        return PerfTable(self.rows, number("bounds", int), number("average", float), self.devices,
                         self.hosts, program[1].rsplit("/", 1)[-1] if program else "",
                         version[1] if version else "", version[2] or "" if version else "",
                         self.layout.cpu_time, self.layout.deviations, self.notes, self.lost)


def parse(text):
    """The table in `text`, the output of one run."""
    parser = _Parser()
    for line in text.splitlines():
        parser.line(line)
    return parser.table()


def sections(text):
    """The outputs of the single runs in `text`, a log of several runs one after the other."""
    parts, current, seen = [], [], set()
    for line in text.splitlines(keepends=True):
        if match := _START.search(line):
            marker = match[0].split()[1]
            # Each run prints each of these lines once, before its rows.
            if marker in seen or ("rows" in seen and marker != "nThread"):
                parts.append("".join(current))
                current, seen = [], set()
            seen.add(marker)
        elif seen and _HEADER.search(line):
            seen.add("rows")
        current.append(line)
    return [*parts, "".join(current)]


def _median_measure(measures):
    wrongs = [m.wrong for m in measures if m.wrong is not None]
    return Measure(statistics.median(m.time_us for m in measures),
                   statistics.median(m.algbw for m in measures),
                   statistics.median(m.busbw for m in measures), sum(wrongs) if wrongs else None)


def median_rows(tables):
    """One row a size: medians of the times and bandwidths over `tables`, sums of the wrong counts."""
    by_size = {}
    for table in tables:
        for row in table.rows:
            by_size.setdefault(row.size, []).append(row)
    merged = []
    for size, rows in sorted(by_size.items()):
        halves = [[half for half in found if half is not None] for found in (
            [row.out_of_place for row in rows], [row.in_place for row in rows])]
        merged.append(Row(size, *(_median_measure(half) if half else None for half in halves)))
    return merged
