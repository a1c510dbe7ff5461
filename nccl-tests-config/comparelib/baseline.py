"""Keeps the results of a session in a file, and compares a later session with it: did an update slow us down?

A size is slower than the baseline where the median of its times is beyond the tolerance and even its fastest
round is slower than the baseline's median. Where a round reaches the baseline, the spread is too
large to decide: that is reported, and is no failure. Times are compared, since a bandwidth of a small
message is printed with too few digits; for large ones the ratio is the same.
"""

import dataclasses
import json
import os

from comparelib import comparison, report, rounds, session as sessions

FORMAT = 1
TOLERANCE = 0.05
SLOWER, UNDECIDED, FASTER, SAME = "slower", "undecided", "faster", "same"
# What a baseline has, and of which type.
_CONTENT = {"date": str, "machine": dict, "versions": dict, "place": str, "results": dict}
# What must be equal in both sessions, unless the user asks to compare all the same.
_MACHINE = {"types": "data types", "gpudirect": "--gpudirect", "preset": "--preset", "arguments": "arguments after --",
            "hosts": "hosts", "gpus": "GPUs", "ranks": "number of ranks", "one_host": "--one-host",
            "ranks_per_node": "--ranks-per-node", "mode": "--mode", "softhca": "use of the software HCA"}
_SAVE_LATER = "--read {folder} --save-baseline FILE writes it later"


class BaselineError(Exception):
    """The baseline cannot be used; the text says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Change:
    """One size of one side, now and in the baseline."""
    side: str
    program: str
    size: int
    before: rounds.Summary  # us
    now: rounds.Summary
    verdict: str

    @property
    def speed(self):
        """Above 1: faster than the baseline."""
        return self.before.median / self.now.median

    def __str__(self):
        return (
            f"{self.verdict}: {self.program} over {self.side} at {report.size_text(self.size)}: "
            f"{self.now.median:.2f} us ({self.now.low:.2f}-{self.now.high:.2f}), baseline {self.before.median:.2f} us "
            f"({self.before.low:.2f}-{self.before.high:.2f}), {100 * (self.speed - 1):+.1f} % in speed"
        )


def as_record(session):
    results = {}
    for program in session.programs:
        for point in comparison.points(session, program):
            for side, series in point.series.items():
                times = [value for value in series.time_us if value is not None]
                if side != session.control and times:
                    sizes = results.setdefault(side, {}).setdefault(program, {})
                    sizes[str(point.size)] = {"time_us": times, "busbw_gbs": [
                        value for value in series.busbw if value is not None]}
    return {"nccl_compare_baseline": FORMAT, "date": session.facts.get("date", sessions.now()),
            "machine": sessions.machine(session), "versions": dict(sessions.versions(session)),
            "place": sessions.place(session), "asked_sizes": session.facts.get("asked_sizes"),
            "results": results}


def save(session, path, folder, force=False):
    """Writes the file. `folder` has the session's outputs, from which it can be written another time."""
    later = _SAVE_LATER.format(folder=folder)
    record = as_record(session)
    if not record["results"]:
        raise BaselineError(f"no run counts, so {path} was not written")
    if (bad := session.failed()) and not force:
        raise BaselineError(
            f"{path} was not written, as {len(bad)} of {len(session.runs)} runs are not as requested; "
            f"{later}, with --force in spite of them")
    try:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BaselineError(f"cannot write {path}: {error.strerror}; {later}") from error


def check_target(path):
    """Raises BaselineError where save() could not write the file: to be known before the runs."""
    if not path.parent.is_dir():
        raise BaselineError(f"--save-baseline {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise BaselineError(f"--save-baseline {path}: this is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BaselineError(f"--save-baseline {path}: it cannot be written; name another file")


def _usable(programs):
    """Whether the results of one side are {program: {size: {"time_us": times}}}."""
    try:
        return all(size.isdigit() and found["time_us"] and min(found["time_us"]) > 0
                   for sizes in programs.values() for size, found in sizes.items())
    except (AttributeError, KeyError, TypeError):
        return False


def load(path):
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BaselineError(f"{path} is no JSON: {error}") from error
    if not isinstance(record, dict) or record.get("nccl_compare_baseline") != FORMAT:
        raise BaselineError(f"{path} is no baseline of this version; write one by --save-baseline")
    for name, kind in _CONTENT.items():
        if not isinstance(record.get(name), kind):
            raise BaselineError(f"{path} is damaged: it has no usable '{name}'; write it again by --save-baseline")
    if not record["results"] or not all(map(_usable, record["results"].values())):
        raise BaselineError(f"{path} is damaged: it has no usable times; write it again by --save-baseline")
    return record


def _of_machine(machine, place, record):
    found = []
    for key, name in _MACHINE.items():
        before, now = record["machine"].get(key), machine.get(key)
        if before is not None and now is not None and before != now:
            found.append(f"other {name}: {_shown(now)}, in the baseline {_shown(before)}")
    if record["place"] != place:
        found.append(f"other half: {place}, in the baseline {record['place']}")
    return found


def _sizes_text(sizes):
    shown = ", ".join(report.size_text(int(size)) for size in sizes[:5])
    return shown + (f" and {len(sizes) - 5} more" if len(sizes) > 5 else "")


def planned_obstacles(machine, place, plan, asked, record):
    """What of obstacles() is known before the first run. `plan` has the pairs of side and program, `asked` the
    sizes that the options ask for, or None where these do not show them."""
    found = _of_machine(machine, place, record)
    for side, programs in record["results"].items():
        found += [f"{program} over {side} is in the baseline, and not among these runs"
                  for program in programs if (side, sessions.base_program(program)) not in plan]
    before = record.get("asked_sizes")
    if asked is not None and before is not None:
        if missing := [size for size in before if size not in asked]:
            found.append(f"these runs do not measure {_sizes_text(missing)}")
    return found


def _unmeasured(session, record):
    """(text, whether a run of it failed) of what the baseline has and the session has not."""
    current = as_record(session)["results"]
    failed = {(run.transport, sessions.base_program(run.program)) for run in session.failed()}
    for side, programs in record["results"].items():
        for program, sizes in programs.items():
            measured = current.get(side, {}).get(program, {})
            if missing := [size for size in sizes if size not in measured]:
                text = f"{program} over {side} was not measured"
                yield (text + (f" at {_sizes_text(missing)}" if measured else ""),
                       (side, sessions.base_program(program)) in failed)


def obstacles(session, record):
    """Why the two sessions are not comparable; empty where they are."""
    return _of_machine(sessions.machine(session), sessions.place(session), record) + [
        text for text, failed in _unmeasured(session, record) if not failed]


def losses(session, record):
    """What the baseline has, and this session has not because its runs failed."""
    return [f"{text}, as its runs failed" for text, failed in _unmeasured(session, record) if failed]


def not_comparable(path, found):
    return f"{path} is not comparable: {'; '.join(found)}. --force compares what both have"


def _shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{count} x {name}" for name, count in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def judged(before, now, tolerance):
    """The verdict on two Summaries of times."""
    speed = before.median / now.median
    if speed < 1 - tolerance:
        return SLOWER if now.low > before.median else UNDECIDED
    return FASTER if speed > 1 + tolerance and now.high < before.median else SAME


def changes(session, record, tolerance=TOLERANCE):
    """A Change for every size that both sessions have."""
    found = []
    current = as_record(session)["results"]
    for side, programs in record["results"].items():
        for program, sizes in programs.items():
            for size, before in sorted(sizes.items(), key=lambda item: int(item[0])):
                now = current.get(side, {}).get(program, {}).get(size)
                if now:
                    pair = rounds.summary(before["time_us"]), rounds.summary(now["time_us"])
                    found.append(Change(side, program, int(size), *pair, judged(*pair, tolerance)))
    return found


def additions(session, record):
    """What this session has and the baseline has not, as texts."""
    found = []
    for side, programs in as_record(session)["results"].items():
        for program, sizes in programs.items():
            before = record["results"].get(side, {}).get(program, {})
            if extra := [size for size in sizes if size not in before]:
                found.append(f"{program} over {side}: {len(extra)} sizes are not in the baseline.")
    return found


def updates(session, record):
    """Versions that differ from those of the baseline: what was updated in between."""
    now = dict(sessions.versions(session))
    return [
        f"{name}: {record['versions'].get(name, 'unknown')} before, {now.get(name, 'unknown')} now"
        for name in sorted({*now, *record["versions"]})
        if now.get(name) != record["versions"].get(name)
    ]


def sentences(found):
    """The outcome in words, the lines that are slower first."""
    counts = {verdict: sum(change.verdict == verdict for change in found)
              for verdict in (SLOWER, UNDECIDED, FASTER, SAME)}
    lines = [
        str(change)
        for verdict in (SLOWER, UNDECIDED)
        for change in found
        if change.verdict == verdict
    ]
    return [
        *lines,
        f"{len(found)} sizes: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    ]
