"""Prints the results: a table with what there is to say below it, or JSON."""

import json

from burn_in import verdict
from comparelib import tables

_HEADER = ("rails", "memory", "Gb/s", "of link", "us", "verdict")


def as_text(results):
    lines = [tables.table([_HEADER, *map(_row, results)], left=("rails", "memory", "verdict"))]
    for (verdict_of_all, text, fix), subjects in _notes(results).items():
        lines += ["", f"{verdict_of_all}: {'; '.join(subjects)}", f"  {text}"]
        if fix:
            lines.append(f"  Fix: {fix}")
    counts = [f"{sum(one.verdict == name for one in results)} {word}" for name, word in (
        (verdict.FAILURE, "failed"), (verdict.UNKNOWN, "unknown"), (verdict.OK, "ok"))]
    return "\n".join([*lines, "", ", ".join(counts)])


def _row(one):
    if one.case is None:
        return one.subject, "", "-", "-", "-", one.verdict
    is_judged = one.gbits and one.link_gbits() and not one.is_virtual()
    return (one.case.rails(), one.case.memory(), f"{one.gbits:.1f}" if one.gbits else "-",
            f"{100 * one.gbits / one.link_gbits():.0f} %" if is_judged else "-",
            f"{one.latency_us:.1f}" if one.latency_us else "-", one.verdict)


def _notes(results):
    """{(verdict, text, fix): the subjects of which they are true}"""
    notes = {}
    for one in results:
        if one.text:
            notes.setdefault((one.verdict, one.text, one.fix), []).append(one.subject)
    return notes


def as_json(results, mode):
    return json.dumps({"version": 1, "mode": mode, "exit_status": verdict.exit_status(results),
                       "results": [_object(one) for one in results]}, indent=1)


def _object(one):
    ends = [{"rail": end.rail, "hca": end.hca, "port": end.port, "memory": end.memory(),
             "link_gbits": end.gbits or None, "virtual": end.is_virtual}
            for end in (one.case.ends() if one.case else [])]
    return {"subject": one.subject, "ends": ends, "verdict": one.verdict,
            "gbits": one.gbits or None, "latency_us": one.latency_us or None, "text": one.text,
            "fix": one.fix}
