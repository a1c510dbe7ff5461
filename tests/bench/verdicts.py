"""Compares the own figures with those of others, and prints all of them in one table.

The ratio is the median of those of the rounds, in which both sides were measured in turn. It is judged as
nccl-tests-config/compare judges: better or worse where every round is on the same side of 1 and the median
more than 1 % from it, else a tie; "?" where one round alone has both. Counts that repeat exactly need one.
"""

import math

import figures
from figures import OWN, Figure, rounds
from comparelib import comparison, tables

LEGEND = """Figures are medians. The ratio is the median of those of the rounds, in which both sides were measured in
turn, with their range. better, worse: every round is on one side of 1, and the median more than 1 % from it; else
a tie; ?: one round only. A target is a bound of the own plugin, on its figure or on its ratio to the side of that row."""
HEADINGS = ("what", "unit", "own", "beside", "its", "own / its (range)", "verdict", "target")
_MARGIN = math.log(1.01)  # another build of the same source differs by as much


def verdict(figure, ratios):
    """better, worse, tie or ? of the ratios own / other."""
    speeds = [ratio if figure.more_is_better else 1 / ratio for ratio in ratios if ratio]
    found = comparison.judged(speeds * 2 if figure.exact else speeds, _MARGIN)
    return {comparison.FASTER: "better", comparison.SLOWER: "worse", None: "-"}.get(found, found)


def number(value):
    """Four digits, and no more after the point than say something."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
    text = f"{value:.{min(digits, 3)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _median(values):
    found = rounds.summary(value for value in values or [] if value is not None)
    return found.median if found else None


def _beside(figure, side):
    """The cells that compare the own figure with that of the side."""
    own, theirs = figure.samples.get(OWN, []), figure.samples[side]
    ratios = [value / base for value, base in zip(own, theirs) if value is not None and base]
    found, text = rounds.summary(ratios), "-"
    if found:
        text = f"{found.median:.3f}"
        if found.low != found.high:
            text += f" ({found.low:.3f} to {found.high:.3f})"
    return [side, number(_median(theirs)), text, verdict(figure, ratios)]


def _target(figure, judge):
    if figure.target.at_most is None:
        bound = f">= {figure.target.at_least:g}"
    else:
        bound = f"<= {figure.target.at_most:g}"
    state = "not judged" if not judge else "MISSED" if figure.missed() else "met"
    return f"{'own' if figure.target_of is None else 'ratio'} {bound}: {state}"


def rows_of(figure, judge=True):
    """The cells under HEADINGS of each side beside the own one; the target is in the row of its side. `judge`: whether
    targets are judged."""
    own = [figure.title, figure.unit, number(_median(figure.samples.get(OWN)))]
    sides = [side for side in figure.samples if side != OWN]
    rows = [own + _beside(figure, side) + [""] for side in sides] or [own + ["-"] * 4 + [""]]
    if figure.has_target():
        at = sides.index(figure.target_of) if figure.target_of in sides else 0
        rows[at][-1] = _target(figure, judge)
    return rows


def table(parts):
    """The text of {part: its rows}."""
    rows = [("part", *HEADINGS), *((part, *row) for part, of_part in parts.items() for row in of_part)]
    return tables.table(rows, left=("part", "what", "unit", "beside", HEADINGS[5], "verdict", "target"))


def finish(options, program, found):
    """Prints the figures and the targets that are missed, writes the file of --json; returns the exit status. A target
    without figures of the own plugin is not judged, which is an error with --enforce."""
    print(f"{table({program: [row for figure in found for row in rows_of(figure)]})}\n{LEGEND}")
    missed = [text for text in map(Figure.missed, found) if text]
    for text in missed:
        print(f"a target is MISSED: {text}")
    unjudged = [figure.title for figure in found if options.enforce and figure.target and not figure.has_target()]
    for title in unjudged:
        print(f"a target is NOT JUDGED: {title}: no figure is of the side {OWN}; give --plugin FILE without a name")
    if options.json:
        figures.write(options.json, program, found)
    return 1 if options.enforce and (missed or unjudged) else 0
