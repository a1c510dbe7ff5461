"""Makes a comparison of results of nccl-tests that exist already: the JSON files of its option -J."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import glob
import pathlib
import re

from comparelib import launch, nccl_log, perf_json, session as sessions, transports, verdict

# Files of a comparison that was run: PROGRAM.SIDE.ROUND.json, and the log beside it.
_OWN_FILE = re.compile(r"(?P<program>\w+_perf)\..+\.(?P<round>[0-9]+)\.json")


class ReadError(Exception):
    """A file cannot be used; the text names it and says what to do."""


def inputs(words):
    """Side -> paths, in the order given, of the arguments of --read: NAME=FILE FILE..."""
    found, side = {}, None
    for word in words:
        name, equals, path = word.partition("=")
        if equals and re.fullmatch(r"[\w#.+-]+", name):
            side, word = name, path
        if side is None:
            raise ReadError(f"--read {word}: put the name of its side before it, NAME={word}")
        found.setdefault(side, []).extend(_files(word))
    return found


def _files(word):
    """The file of that name, or those that a pattern matches: a shell does not expand NAME=*.json."""
    paths = [pathlib.Path(word)]
    if not paths[0].exists() and glob.has_magic(word):
        paths = sorted(map(pathlib.Path, glob.glob(word)), key=lambda path:
                       (_named(path, "", 0)[1], path))
    if not paths or not all(path.is_file() for path in paths):
        raise ReadError(f"there is no file {word}")
    return paths


def _named(path, program, index):
    """The program and the round, from 0, of a file that compare has named; else those given."""
    match = _OWN_FILE.fullmatch(path.name)
    return (match["program"], int(match["round"]) - 1) if match else (program, index)


def _run(path, side, rounds_of):
    try:
        table = perf_json.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, perf_json.JsonError) as error:
        raise ReadError(f"{path}: {error}") from error
    beside = path.with_suffix(".err")
    log = nccl_log.parse(beside.read_text(errors="replace") if beside.is_file() else "")
    transport = transports.known().get(sessions.without_control(side))
    left_out = verdict.unusable(table)
    if transport is not None and not log.empty:
        left_out = verdict.reasons_to_leave_out(table, log, transport.network,
                                                transport.gpudirect or "auto")
    program, index = _named(path, table.program, rounds_of.get(table.program, 0))
    rounds_of[program] = index + 1
    return sessions.Run(program, side, index, "", table, log, None, left_out,
                        verdict.defects(table, launch.Outcome(0, "", "", 0.0)), str(path))


def notes(runs):
    """What a reader of the tables has to know about the files."""
    found = sessions.table_notes(runs)
    for side in dict.fromkeys(run.transport for run in runs):
        logs = [run.log for run in runs if run.transport == side]
        used = ", ".join(sorted({network for log in logs for network in log.networks}))
        found.append(f"{side}: no log of NCCL is beside the files, so nothing shows which transport was used."
                     if all(log.empty for log in logs) else f"{side}: the log names the network {used or '(none)'}.")
    for name, take in (("ranks", lambda run: run.table.ranks),
                       ("GPUs", lambda run: ", ".join(sorted(set(run.table.gpus)))),
                       ("clocks", lambda run: "the CPU's time (-C)"
                        if run.table.cpu_time else "time")):
        values = {take(run): run.source for run in reversed(runs) if run.table.rows}
        if len(values) > 1:
            which = " and ".join(f"{value} in {source}" for value, source in values.items())
            found.append(f"NOT COMPARABLE, the runs have different {name}: {which}.")
    return found


def read_session(options):
    runs = []
    for side, paths in options.read.items():
        rounds_of = {}
        runs += [_run(path, side, rounds_of) for path in paths]
    if options.programs:
        runs = [run for run in runs if run.program in options.programs]
        if not runs:
            raise ReadError(f"no file has a result of {', '.join(options.programs)}")
    runs = sessions.separate_kinds(runs)
    return sessions.Session(runs, options.sides, options.base, options.control,
                            options.place == "in",
                            max(run.repeat for run in runs) + 1,
                            {"date": sessions.now(), "read": True, "softhca": any(run.log.softhca for run in runs)},
                            notes(runs))
