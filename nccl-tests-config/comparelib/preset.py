"""Judges bus bandwidths against what a preset's machine should reach.

presets/NAME.env has the settings for a kind of machine, and presets/expected.json the figures:

    {"NAME": {"machine": "one line", "results": [{"collective": "all_reduce", "nodes": 2,
     "gpus_per_node": 8, "bytes": 8589934592, "busbw_gbs": 480.0, "kind": "published" or "derived",
     "source": "where the figure is from"}]}}
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import json
import pathlib

from comparelib import comparison, launch, report, rounds, session as sessions

PRESET_DIR = launch.CONFIG_DIR / "presets"
TOLERANCE = 0.10
PASS, FAIL, NOT_JUDGED = "pass", "FAIL", "not judged"


@dataclasses.dataclass(frozen=True)
class Expected:
    collective: str
    nodes: int
    gpus_per_node: int
    bytes: int
    busbw_gbs: float
    kind: str
    source: str

    def __str__(self):
        return (
            f"{self.collective} of {report.size_text(self.bytes)} on {self.nodes} x {self.gpus_per_node} "
            "GPUs")


@dataclasses.dataclass(frozen=True)
class Preset:
    name: str
    env_file: pathlib.Path
    results: list[Expected]


@dataclasses.dataclass(frozen=True)
class Check:
    """One side against one figure."""
    side: str
    expected: Expected
    found: rounds.Summary | None  # bus bandwidth, GB/s
    status: str
    reason: str

    def __str__(self):
        measured = "" if self.found is None else (
            f"{self.found.median:.2f} GB/s ({self.found.low:.2f}-{self.found.high:.2f}), ")
        return f"{self.status}: {self.side}, {self.expected}: {measured}{self.reason}"


def names(folder=PRESET_DIR):
    return sorted(path.stem for path in folder.glob("*.env"))


def load(word):
    """The preset of that name in presets/, or of a file NAME.env beside an expected.json."""
    path = pathlib.Path(
        word) if "/" in word or word.endswith(".env") else PRESET_DIR / f"{word}.env"
    if not path.is_file():
        known = ", ".join(names()) or "none"
        raise launch.LaunchError(f"no preset {word}; there are: {known}")
    figures = path.parent / "expected.json"
    try:
        entries = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
        own = entries.get(path.stem, {})
        results = [Expected(**entry) for entry in own.get("results", [])]
    except (OSError, ValueError, TypeError) as error:
        raise launch.LaunchError(f"cannot read {figures}: {error}") from error
    return Preset(path.stem, path.resolve(), results)


def applies(expected, machine, one_host):
    """Whether a figure is for this number of nodes and ranks. On one host whose ranks use the network, each
    rank is like a node."""
    ranks, nodes = machine["ranks"], machine["nodes"]
    if expected.nodes * expected.gpus_per_node != ranks:
        return False
    if one_host:
        return expected.nodes == 1 or expected.gpus_per_node == 1
    return nodes is None or expected.nodes == nodes


def _check(session, expected, side):
    least = expected.busbw_gbs * (1 - TOLERANCE)
    for program in session.programs:
        if sessions.collective_of(program) != expected.collective:
            continue
        point = next((one for one in comparison.points(session, program) if one.size == expected.bytes), None)
        found = point and point.series[side].bandwidths()
        if found is None:
            continue
        passed = found.median >= least
        reason = (
            f"expected {expected.busbw_gbs:g} GB/s ({expected.kind}), at least {least:.2f} within "
            f"{100 * TOLERANCE:g} %")
        if not passed and found.high >= least:
            reason += "; the best round reaches it, so measure more rounds"
        return Check(side, expected, found, PASS if passed else FAIL, reason)
    return Check(side, expected, None, NOT_JUDGED, f"{expected.collective} was not measured at "
                 f"{report.size_text(expected.bytes)}")


def judge(session, preset):
    """(Checks of every side but the control against every figure that applies, notes)."""
    if not preset.results:
        return [], [f"Preset {preset.name} has no expected figure, so nothing was judged."]
    machine = sessions.machine(session)
    fitting = [
        one for one in preset.results if applies(one, machine, session.facts.get("one_host"))]
    sides = [side for side in session.sides if side != session.control]
    checks = [_check(session, one, side) for one in fitting for side in sides]
    if fitting:
        return checks, []
    known = sorted({f"{one.nodes} x {one.gpus_per_node}" for one in preset.results})
    return checks, [f"Preset {preset.name} has figures for {', '.join(known)} GPUs only (nodes x GPUs of each), not "
                    f"for {machine['ranks']} ranks on {machine['nodes'] or 'unknown'} hosts."]


def failed(checks, preset, judged_side):
    """Whether the side misses a figure. A preset with figures of which none could be judged fails, too."""
    own = {check.status for check in checks if check.side == judged_side}
    return bool(preset.results) and (FAIL in own or PASS not in own)
