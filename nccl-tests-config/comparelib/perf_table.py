"""Parses the output of the programs of nccl-tests."""

import dataclasses
import re
import statistics

# size count type redop root, then {time algbw busbw #wrong} out of place and in place. The pattern
# matches inside a line, because mpirun may tag lines and other output may precede a row.
_NUMBER = r"[0-9.]+(?:e[+-]?[0-9]+)?"
_WRONG = r"N/A|[0-9.]+(?:e[+-]?[0-9]+)?"
_HALF = rf"\s+({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})\s+({_WRONG})"
_ROW = re.compile(r"(?:^|[\s>:])([0-9]+)\s+([0-9]+)\s+([a-z]\w*)\s+(\w+)\s+(-?[0-9]+)"
                  rf"{_HALF}(?:{_HALF})?(?=\s|$)")
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*([0-9]+)\s+(OK|FAILED)")
_AVERAGE = re.compile(rf"# Avg bus bandwidth\s*:\s*({_NUMBER})")
_DEVICE = re.compile(r"#\s+Rank\s+[0-9]+ .* device\s+[0-9]+ \[[^]]*\] (.*\S)")


@dataclasses.dataclass(frozen=True)
class Measure:
    """One half of a row. time_us in microseconds, bandwidths in 10^9 bytes/s."""
    time_us: float
    algbw: float
    busbw: float
    wrong: float | None  # None where the program does not check


@dataclasses.dataclass(frozen=True)
class Row:
    size: int  # bytes
    out_of_place: Measure
    in_place: Measure | None

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
    devices: list[str]


def _measure(fields):
    time_us, algbw, busbw, wrong = fields
    return Measure(float(time_us), float(algbw), float(busbw),
                   None if wrong == "N/A" else float(wrong))


def parse(text):
    """The table in `text`, the output of one run."""
    rows, out_of_bounds, average, devices = [], None, None, []
    for line in text.splitlines():
        if match := _ROW.search(line):
            groups = match.groups()
            in_place = _measure(groups[9:13]) if groups[9] is not None else None
            rows.append(Row(int(groups[0]), _measure(groups[5:9]), in_place))
        elif match := _OUT_OF_BOUNDS.search(line):
            out_of_bounds = int(match[1])
        elif match := _AVERAGE.search(line):
            average = float(match[1])
        elif match := _DEVICE.search(line):
            devices.append(match[1])
    return PerfTable(rows, out_of_bounds, average, devices)


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
        in_place = [row.in_place for row in rows if row.in_place is not None]
        merged.append(Row(size, _median_measure([row.out_of_place for row in rows]),
                          _median_measure(in_place) if in_place else None))
    return merged
