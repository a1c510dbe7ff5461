"""Compares reports of `nccl-gdr perf --json` from two sides that differ in one environment variable."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import re

from comparelib import rounds

# The plugin's variable that selects the registration path for GPU memory.
GPU_MEMORY = "GDR_NCCL_GPU_MEMORY"
SIDES = ("first", "second")  # unchanged; with the setting

_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    value: str

    def __str__(self):
        return f"{self.name}={self.value}"


def parse(text):
    """NAME=VALUE, with a name that a shell accepts; or "staging". Raises ValueError."""
    if text == "staging":
        return Setting(GPU_MEMORY, "staging")
    if match := _SETTING.fullmatch(text):
        return Setting(*match.groups())
    raise ValueError(f'"{text}" is neither staging nor NAME=VALUE')


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that is compared: the value at `path` of each row of the report's array `rows`."""
    title: str  # with its unit
    key: str  # in the JSON, with its unit
    rows: str
    path: tuple[str, ...]

    def value(self, row):
        for name in self.path:
            row = row[name]
        return row


_FIGURES = {
    "sendrecv": (
        Figure("BW average[MiB/sec]", "average_mib_s", "bandwidth", ("average_mib_s",)),
        Figure("t_typical[usec]", "typical_us", "latency", ("typical_us",))),
    "all_reduce": (
        Figure("out-of-place busbw(GB/s)", "out_of_place_busbw_gb_s", "results",
               ("out_of_place", "busbw_gb_s")),
        Figure("in-place busbw(GB/s)", "in_place_busbw_gb_s", "results",
               ("in_place", "busbw_gb_s"))),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One figure of one message size: each side's Summary, and that of second / first or None."""
    first: rounds.Summary
    second: rounds.Summary
    ratio: rounds.Summary | None


def figures(report):
    """The figures that were measured: `perf sendrecv --test bw` has no latencies."""
    return [figure for figure in _FIGURES[report["tool"]] if report[figure.rows]]


def table(reports):
    """[(bytes, [Cell of each figure])]; `reports` maps each side to its reports, one a round."""
    shown = figures(reports["first"][0])
    sizes = [row["bytes"] for row in reports["first"][0][shown[0].rows]] if shown else []
    lines = []
    for index, size in enumerate(sizes):
        cells = []
        for figure in shown:
            first, second = ([figure.value(report[figure.rows][index]) for report in reports[side]]
                             for side in SIDES)
            cells.append(Cell(rounds.summary(first), rounds.summary(second),
                              rounds.ratio(second, first)))
        lines.append((size, cells))
    return lines


def header(shown):
    """The table's two heading lines."""
    titles = "#" + " " * 10 + "".join(f" {figure.title:>35}" for figure in shown)
    columns = f" {'#bytes':<10}" + f" {'first':>13} {'second':>12} {'ratio':>8}" * len(shown)
    return f"{titles}\n{columns}"


def row_text(size, cells):
    text = f" {size:<10}"
    for cell in cells:
        ratio = "-" if cell.ratio is None else f"{cell.ratio.median:.2f}"
        text += f" {cell.first.median:>13.2f} {cell.second.median:>12.2f} {ratio:>8}"
    return text


def as_json(reports):
    """[{"bytes": ..., <figure's key>: {"first": ..., "second": ..., "ratio": ..., ...}}]

    Values are medians; "spread" has each one's smallest and largest value of the rounds. The ratio is
    null where the first side is zero.
    """
    shown = figures(reports["first"][0])
    return [{"bytes": size, **{figure.key: _cell_json(cell) for figure, cell in zip(shown, cells)}}
            for size, cells in table(reports)]


def _cell_json(cell):
    parts = {name: getattr(cell, name) for name in (*SIDES, "ratio")}
    return {**{name: part and part.median for name, part in parts.items()},
            "spread": {name: part and [part.low, part.high] for name, part in parts.items()}}


def _all(reports):
    return [report for side in SIDES for report in reports[side]]


def wrong(reports):
    """Wrong messages or elements of all rounds and both sides."""
    return sum(report["wrong"] for report in _all(reports))


def verified(reports):
    """Verified messages of all rounds and both sides; None for all_reduce, which counts none."""
    counts = [report["verified"] for report in _all(reports) if "verified" in report]
    return sum(counts) if counts else None


def verified_line(reports):
    """The last line of the table."""
    model = reports["first"][0]
    if not model["checked"]:
        return "# nothing verified (--no-check)"
    if (messages := verified(reports)) is not None:
        return f"# {messages} messages verified: {wrong(reports)} wrong"
    return (f"# {len(model['ranks'])} ranks, {len(model['results'])} sizes, {len(reports['first'])} "
            f"rounds of each side: {wrong(reports)} wrong")
