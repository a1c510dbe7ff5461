"""The runs of one comparison, whether they were run or read, and their record in results.json."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import collections
import dataclasses
import datetime
import json

from comparelib import nccl_log, perf_json


@dataclasses.dataclass(frozen=True)
class Run:
    """One program over one transport, once."""
    program: str  # "all_reduce_perf"; with the data type and operator where a session has several
    transport: str  # the name of the side
    repeat: int  # the round, from 0
    command: str  # empty where the run was read from a file
    table: perf_json.PerfTable
    log: nccl_log.NcclLog
    seconds: float | None
    left_out: list[str]  # why its numbers are not in the tables; empty where they are
    defects: list[str]  # why it does not count although its numbers are in the tables
    source: str = ""  # the file with its results
    stderr_end: tuple[str, ...] = ()  # where it failed: the last lines beside NCCL's log

    @property
    def problems(self):
        return [*self.defects, *self.left_out]

    def __str__(self):
        return f"{self.program} over {self.transport}, round {self.repeat + 1}"


def control_name(base):
    """The name of the side that is the base a second time."""
    return f"{base}#2"


def without_control(side):
    """The transport of a side: ib of "ib#2"."""
    return side.removesuffix("#2")


def collective_of(program):
    """all_reduce of all_reduce_perf; with the data type and operator where the program has them."""
    return program.replace("_perf", "", 1)


@dataclasses.dataclass
class Session:
    runs: list[Run]
    sides: list[str]
    base: str
    control: str | None = None  # the side that is the base a second time
    in_place: bool = False
    rounds: int = 1
    facts: dict = dataclasses.field(default_factory=dict)  # what is known beside the runs
    notes: list[str] = dataclasses.field(default_factory=list)  # of the whole session

    @property
    def programs(self):
        return list(dict.fromkeys(run.program for run in self.runs))

    @property
    def others(self):
        """The sides that are compared with the base; the control comes last."""
        return [side for side in self.sides if side not in (self.base, self.control)] + (
            [self.control] if self.control else [])

    def counted(self, program, side):
        return [run for run in self.runs
                if run.program == program and run.transport == side and not run.left_out]

    def first(self, take):
        """The first value that is not empty of take(run) over all runs, or None."""
        return next((value for value in map(take, self.runs) if value), None)

    def failed(self):
        return [run for run in self.runs if run.problems]


def causes(session):
    """(run, last lines of its standard error) of the runs that failed, each text once a side."""
    found = {}
    for run in session.failed():
        if run.stderr_end:
            found.setdefault((run.transport, run.stderr_end), run)
    return [(run, run.stderr_end) for run in found.values()]


def separate_kinds(runs):
    """Runs of one data type and operator each, where a program was run with several of them."""
    kinds = {}
    for run in runs:
        kinds.setdefault(run.program, {}).update((row.kind, None) for row in run.table.rows)
    separate = []
    for run in runs:
        own = {row.kind: None for row in run.table.rows}
        if len(kinds[run.program]) < 2 or not own:
            separate.append(run)
            continue
        for kind in own:
            rows = [row for row in run.table.rows if row.kind == kind]
            table = dataclasses.replace(run.table, rows=rows)
            separate.append(dataclasses.replace(run, program=f"{run.program} ({kind})",
                                                table=table))
    return separate


def table_notes(runs):
    """What the results that count report themselves."""
    return list(dict.fromkeys(f"{run.source}: {note}." for run in runs if run.table.rows
                              for note in run.table.notes))


def machine(session):
    """What identifies the machines and their part in the runs. One value a key, or None if unknown."""
    hosts = session.first(lambda run: sorted(set(run.table.hosts)))
    ranks = session.first(lambda run: run.table.ranks)
    gpus = session.first(lambda run: run.table.gpus)
    return {"hosts": hosts, "nodes": len(hosts) if hosts else None,
            "ranks": session.facts.get("ranks") or ranks,
            "gpus": dict(sorted(collections.Counter(gpus).items())) if gpus else None}


def versions(session):
    """What -> version, of everything whose version the logs show."""
    found = {}
    for run in session.runs:
        for what, version in run.log.versions.items():
            found.setdefault(what, {})[version] = None
    if library := session.first(lambda run: run.table.library):
        found.setdefault("NCCL", {library: None})
    return {what: ", ".join(each) for what, each in found.items()}


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _record_of_run(run):
    log = dataclasses.replace(run.log, networks=sorted(run.log.networks),
                              channels=dict(run.log.channels))
    return {**dataclasses.asdict(dataclasses.replace(run, log=log)), "problems": run.problems}


def save(session, path):
    """Writes the session as plain values."""
    record = {**session.facts, "base": session.base, "control": session.control,
              "sides": session.sides, "in_place": session.in_place, "rounds": session.rounds,
              "machine": machine(session), "versions": versions(session), "notes": session.notes,
              "runs": [_record_of_run(run) for run in session.runs]}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
