"""Whether a session passes: its runs, a preset's figures, and a baseline."""

import dataclasses

from comparelib import baseline, preset

_PRESET_WORDS = {
    preset.PASS: "reaches the figures of",
    preset.FAIL: "does not reach the figures of",
    preset.NOT_JUDGED: "could not be judged by"
}


@dataclasses.dataclass
class Outcome:
    headline: str = ""
    lines: list[str] = dataclasses.field(default_factory=list)
    failed: bool = False
    refused: bool = False  # the baseline is of something else

    @property
    def status(self):
        return 1 if self.failed else 2 if self.refused else 0

    def add(self, failed, lines):
        self.failed = self.failed or failed
        self.lines += lines


def _runs(session):
    bad = session.failed()
    text = f"{len(session.runs)} runs, {len(bad)} not as requested"
    if session.facts.get("read"):
        return text.replace("not as requested", "with a defect")
    return text + ("" if bad else "; 0 wrong, every transport as requested")


def of(session, options):
    """The Outcome of a session, by its runs and what the options ask for."""
    found = Outcome(_runs(session), failed=bool(session.failed()))
    for run in session.failed():
        found.add(True, [
            f"{run.program} over {run.transport}, round {run.repeat + 1}: {'; '.join(run.problems)}"
            + (" (left out of the tables)" if run.left_out else "")
        ])
    if options.preset:
        checks, notes = preset.judge(session, options.preset, options.preset_tolerance)
        found.add(preset.failed(checks, options.preset, options.judge), [*map(str, checks), *notes])
        if options.preset.results:
            words = _PRESET_WORDS[preset.status(checks, options.judge)]
            found.headline += f"; {options.judge} {words} preset {options.preset.name}"
    if options.baseline:
        _against_baseline(session, options, found)
    return found


def _against_baseline(session, options, found):
    record = options.baseline_record
    losses = baseline.losses(session, record)
    found.add(bool(losses), [f"Not compared with the baseline: {text}." for text in losses])
    if obstacles := baseline.obstacles(session, record):
        if not options.force:
            found.refused = True
            found.add(False, [baseline.not_comparable(options.baseline, obstacles)])
            found.headline += "; not comparable with the baseline"
            return
        found.add(False, [
            f"Not comparable with the baseline, compared by --force: {text}." for text in obstacles
        ])
    changes = baseline.changes(session, record, options.tolerance)
    slower = sum(change.verdict == baseline.SLOWER for change in changes)
    found.add(slower > 0 or not changes, [
        *baseline.sentences(changes), *baseline.additions(session, record),
        *baseline.updates(session, record)
    ])
    found.headline += f"; {slower} of {len(changes)} sizes slower than the baseline of {record['date']}"
