"""Makes a comparison of outputs of nccl-tests that exist already, as text or as JSON."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import glob
import pathlib
import re

from comparelib import (launch, nccl_log, perf_json, perf_table, session as sessions, transports,
                        verdict)

# Files of a comparison that was run: PROGRAM.SIDE.ROUND.out, and the log beside it.
_OWN_FILE = re.compile(r"(?P<program>\w+_perf)\.(?P<side>.+)\.(?P<round>[0-9]+)\.out")
_PROGRAMS = ("all_reduce", "all_gather", "alltoallv", "alltoall", "broadcast", "gather",
             "hypercube", "reduce_scatter", "reduce", "scatter", "sendrecv")


class ReadError(Exception):
    """A file cannot be used; the text names it and says what to do."""


@dataclasses.dataclass(frozen=True)
class Input:
    """A file to read. An earlier comparison has named its file after program and round (from 0)."""
    path: pathlib.Path
    program: str | None = None
    round: int | None = None


def inputs(words):
    """Side -> Inputs, in the order given, of the arguments of --read: NAME=FILE FILE..., or a folder."""
    found, side, rounds_before = {}, None, 0
    for word in words:
        name, equals, path = word.partition("=")
        if equals and re.fullmatch(r"[\w#.+-]+", name):
            side, word = name, path
            found.setdefault(side, [])
            if not path:
                continue
        elif pathlib.Path(word).is_dir():
            of_folder = _folder(pathlib.Path(word), rounds_before)
            for one, files in of_folder.items():
                found.setdefault(one, []).extend(files)
            rounds_before = 1 + max(one.round for files in of_folder.values() for one in files)
            side = None
            continue
        if side is None:
            raise ReadError(f"--read {word}: put the name of its transport before it, NAME={word}")
        found[side] += map(Input, _files(word))
    for side, files in found.items():
        if not files:
            raise ReadError(f"--read {side}=: no file follows")
    return found


def _files(word):
    """The file of that name, or those that a pattern matches: a shell does not expand NAME=*.out."""
    paths = [pathlib.Path(word)]
    if not paths[0].exists() and glob.has_magic(word):
        paths = [pathlib.Path(one) for one in sorted(glob.glob(word))]
    for path in paths:
        if not path.is_file():
            raise ReadError(f"there is no file {path}")
    if not paths:
        raise ReadError(f"no file matches {word}")
    return paths


def _folder(folder, rounds_before):
    """Side -> Inputs of the outputs that an earlier comparison has written. The sides' rounds belong together, so
    that each keeps its number where a file of another is missing."""
    found = {}
    for path in folder.iterdir():
        if match := _OWN_FILE.fullmatch(path.name):
            found.setdefault(match["side"], []).append(
                Input(path, match["program"], rounds_before + max(int(match["round"]) - 1, 0)))
    if not found:
        raise ReadError(
            f"{folder} has no output of an earlier comparison (PROGRAM.TRANSPORT.ROUND.out)")
    return {side: sorted(files, key=lambda one: (one.round, one.program))
            for side, files in sorted(found.items())}


def _read_text(path):
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror}") from error


def _program_of(table, path, fallback):
    if match := re.match(r"\w+?_perf(?![a-z])", table.program):
        return match[0]  # also of all_reduce_perf_mpi
    for name in _PROGRAMS:
        if re.search(rf"(?<![a-z]){name}(?![a-z])", path.name):
            return f"{name}_perf"
    if table.program:
        return table.program
    if fallback is None:
        raise ReadError(
            f"{path} does not name its collective, as before nccl-tests 2.17: put the name into that "
            "of the file (all_reduce.txt), or give --collectives with one name")
    return fallback


def _log_of(path, text):
    """NCCL's log in the output itself, or in the file that a comparison keeps beside it."""
    beside = path.with_suffix(".err")
    if path.suffix in (".out", ".json") and beside.is_file():
        text += "\n" + _read_text(beside)
    return nccl_log.parse(text)


def _tables(path, text):
    """(table, its text) of each run in a file."""
    if perf_json.looks_like_json(text):
        try:
            return [(perf_json.parse(text), "")]
        except perf_json.JsonError as error:
            raise ReadError(f"{path}: {error}") from error
    parts = [(perf_table.parse(part), part) for part in perf_table.sections(text)]
    found = [(table, part) for table, part in parts if table.rows] or parts[-1:]
    if not any(table.rows for table, _ in found) and not any(table.program for table, _ in found):
        raise ReadError(
            f"{path} has no result of nccl-tests: it needs the standard output of a program such as "
            "all_reduce_perf, or the file that its option -J wrote")
    return found


def _defects(table):
    found = []
    if table.out_of_bounds is None:
        rest = f" ({table.notes[0]})" if table.notes else ""
        found.append(f"truncated, or the program was aborted: the closing lines are missing{rest}")
    return found + verdict.defects(table, launch.Outcome(0, "", "", 0.0))


def _left_out(table, log, transport):
    if log.empty:
        return verdict.unusable(table)
    if transport is not None:
        return verdict.reasons_to_leave_out(table, log, transport.network, transport.gpudirect or
                                            "auto")
    problems = verdict.unusable(table)
    if len(log.networks) > 1:
        problems.append(f"the ranks used several networks: {', '.join(sorted(log.networks))}")
    return problems


def _own_tables(one):
    """(table, its text) of a file that an earlier comparison has written: of a run without results, too."""
    better = one.path.with_suffix(".json")  # where the program wrote JSON, too
    for path in [better, one.path] if better.is_file() else [one.path]:
        text = _read_text(path)
        try:
            return path, _tables(path, text)
        except ReadError:
            pass
    return path, [(perf_table.parse(text), text)]


def _runs_of_file(one, side, fallback):
    if one.program:
        path, tables = _own_tables(one)
    else:
        path, tables = one.path, _tables(one.path, _read_text(one.path))
    known = transports.known().get(sessions.without_control(side))
    for table, part in tables:
        program = one.program or _program_of(table, path, fallback)
        log = _log_of(path, part)
        yield sessions.Run(program, side, 0, "", table, log, None,
                           _left_out(table, log, known), _defects(table), str(path))


def read_runs(found, fallback=None):
    """The runs of all files. Where the file's name has no round, the n-th run of a program and a side is its round n."""
    runs = []
    for side, files in found.items():
        rounds_of = {}
        for one in files:
            for run in _runs_of_file(one, side, fallback):
                index = max(rounds_of.get(run.program, 0), one.round or 0)
                rounds_of[run.program] = index + 1
                runs.append(dataclasses.replace(run, repeat=index))
    return runs


def notes(runs):
    """What a reader of the tables has to know about the files."""
    found = sessions.table_notes(runs)
    for side in dict.fromkeys(run.transport for run in runs):
        own = [run for run in runs if run.transport == side]
        if all(run.log.empty for run in own):
            found.append(
                f"{side}: the files have no log of NCCL (NCCL_DEBUG=INFO), so nothing shows which transport "
                "the runs used.")
        elif sessions.without_control(side) not in transports.known():
            used = sorted({network for run in own for network in run.log.networks})
            found.append(f"{side}: the log names the network {', '.join(used) or '(none)'}.")
    if any(run.table.deviations for run in runs):
        found.append(
            "Outputs of nccl-tests before 2.13 have no count of wrong values; their closing line was used."
        )
    return found


def differences(runs):
    """What makes runs of one program incomparable: texts, empty where nothing does."""
    found = []
    for name, take in (("ranks", lambda run: len(run.table.devices)),
                       ("GPUs", lambda run: ", ".join(sorted(set(run.table.devices)))),
                       ("clocks", lambda run: "the CPU's time (-C)"
                        if run.table.cpu_time else "time")):
        for program in dict.fromkeys(run.program for run in runs):
            values = {}
            for run in runs:
                if run.program == program and run.table.rows and take(run):
                    values.setdefault(take(run), run.source)
            if len(values) > 1:
                which = " and ".join(f"{value} in {source}" for value, source in values.items())
                found.append(f"{program}: the runs have different {name}: {which}")
    return found


def read_session(options):
    only = options.programs
    runs = sessions.separate_kinds(
        read_runs(options.read, only[0] if only and len(only) == 1 else None))
    if only:
        runs = [run for run in runs if sessions.base_program(run.program) in only]
        if not runs:
            raise ReadError(f"no file has a result of {', '.join(only)}")
    different = differences(runs)
    if different and not options.force:
        raise ReadError("; ".join(different) + ". --force compares them all the same")
    count = max(run.repeat for run in runs) + 1
    return sessions.Session(runs, options.sides, options.base, options.control,
                            options.place == "in", count, {
                                "date": sessions.now(),
                                "read": True
                            }, [*different, *notes(runs)])
