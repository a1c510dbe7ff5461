"""Formats a comparison side by side in Markdown, and describes it in sentences."""

from comparelib import comparison, session as sessions, tables


def size_text(size):
    """Bytes as nccl-tests' options take them: 8, 128K, 1M, 1G."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def size_of(text):
    """The bytes that nccl-tests takes a size for: "8", "128M", "1.5G". Raises ValueError."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper())
    return int(float(text[:-1]) * unit) if unit else int(text)


def _number(summary):
    return "-" if summary is None else f"{summary.median:.2f}"


def _spread(summary):
    return "-" if summary is None else f"{summary.low:.2f}-{summary.high:.2f}"


def _wrong(series):
    counts = [one.wrong for one in series.values() if one.wrong is not None]
    return f"{sum(counts):g}" if counts else "N/A"


def _line(point, session, several):
    line = [size_text(point.size)]
    for side in session.sides:
        line += [_number(point.series[side].times()), _number(point.series[side].bandwidths())]
    for side in session.others:
        line.append(_number(point.speed[side]))
        if several:
            line += [_spread(point.speed[side]), point.verdict[side] or "-"]
    return [*line, _wrong(point.series)]


def build(session, points):
    """The rows of one program's table, the headings first.

    Cells are medians over the rounds. With several rounds, each ratio has its smallest and largest value and
    its verdict beside it.
    """
    several = session.rounds > 1
    headings = ["size"]
    for side in session.sides:
        headings += [f"{side} us", f"{side} GB/s"]
    for side in session.others:
        headings += [f"{side}/{session.base}", *(["min-max", "verdict"] if several else [])]
    return [[*headings, "#wrong"], *(_line(point, session, several) for point in points)]


def _compared(session, points, side):
    """What the verdicts on the sizes are together: "is faster than ib"."""
    found = {point.verdict[side] for point in points}
    if comparison.WRONG in found:
        return f"or {session.base} has wrong values"
    differences = found & {comparison.FASTER, comparison.SLOWER}
    if len(differences) == 2:
        return f"is faster than {session.base} at some sizes and slower at others"
    if differences:
        return f"is {differences.pop()} than {session.base}"
    return f"{'cannot be judged beside' if session.rounds == 1 else 'is as fast as'} {session.base}"


def incomparable(session):
    """Why the files are not those of one machine and kind of run."""
    return [note for note in session.notes if note.startswith("NOT COMPARABLE")]


def verdicts(session, points):
    """The result of one program, one sentence for each side that is compared with the base."""
    found = incomparable(session)
    if found:
        return found
    for side in session.others:
        ratios = comparison.overall(points, side)
        if ratios is None:
            found.append(f"{side} has no result that {session.base} has, too.")
        elif side != session.control:
            found.append(
                f"{side} {_compared(session, points, side)}: {ratios.median:.2f} times its speed in the median over "
                f"the sizes ({ratios.low:.2f} to {ratios.high:.2f}): {comparison.tally(points, side)}.")
    return found


def sentences(session, points):
    """How far the verdicts can be trusted."""
    found = []
    ratios = [ratio for point in points if (summary := point.speed.get(session.control))
              for ratio in (summary.low, summary.high)]
    if ratios:
        found.append(f"Control: {session.base} measured against itself differs by up to "
                     f"{100 * max(abs(ratio - 1) for ratio in ratios):.1f} % in a round.")
    if session.rounds == 1 and any(comparison.overall(points, side) for side in session.others):
        found.append(
            "No verdict from one round, whose spread is unknown: use --rounds 5 --control.")
    if 1 < session.rounds <= comparison.WEAK_ROUNDS and session.others:
        control = "" if session.control else ", and --control,"
        found.append(
            f"The {session.rounds} rounds of one size in {2 ** (session.rounds - 1)} agree by chance alone; "
            f"--rounds 5 or more{control} make the verdicts reliable.")
    return found


def channels(session):
    """What the channels of each side used, by the log of its first round."""
    found = []
    for run in session.runs:
        if run.repeat == 0 and not run.log.empty:
            ends = ", ".join(f"via {channel} x{count}"
                             for channel, count in sorted(run.log.channels.items()))
            used = ",".join(sorted(run.log.networks)) or "none named"
            found.append(
                f"{run.program} {run.transport}: network {used}; {ends or 'no network channel'}")
    return found


def _ranks(count, each):
    """The ranks, `each` of which are a node of their own where a host stands for several."""
    return count and f"{count} ranks{f' as {count // each} nodes' if each > 1 else ''}"


def facts(session):
    """The machine and the rounds in a few words."""
    machine = sessions.machine(session)
    gpus = [f"{count} x {name}" for name, count in (machine["gpus"] or {}).items()]
    found = [
        *gpus, _ranks(machine["ranks"], session.facts.get("ranks_per_node") or 1),
        "over the software HCA" if session.facts.get("softhca") else None,
        session.facts.get("mode"), "in place" if session.in_place else "out of place"]
    found.append("one run" if session.rounds == 1 else f"medians of {session.rounds} rounds")
    return ", ".join(text for text in found if text)


def heading(session):
    return f"{facts(session)}; GB/s (10^9) of bus bandwidth, a ratio of speeds above 1 is faster than {session.base}"


def _section(title, lines):
    return f"\n## {title}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n" if lines else ""


def document(session, found, lines):
    """table.md: all of it in Markdown. `found` maps a program to its points, `lines` has the outcome."""
    parts = []
    for program, points in found.items():
        parts += [f"{program}: {text}\n" for text in verdicts(session, points)]
    for program, points in found.items():
        parts.append(
            f"## {program}\n\n{heading(session)}\n\n{tables.table(build(session, points))}\n")
        parts += [f"- {text}" for text in sentences(session, points)]
        commands = dict.fromkeys(run.command for run in session.runs
                                 if run.program == program and run.repeat == 0 and run.command)
        if commands:
            parts.append("\n```\n" + "\n".join(commands) + "\n```\n")
    facts_found = [f"{what}: {value}" for what, value in sessions.versions(session).items()]
    return "\n".join(parts) + _section("Outcome", lines) + _section(
        "Transport of the channels", channels(session)) + _section("Versions", facts_found)
