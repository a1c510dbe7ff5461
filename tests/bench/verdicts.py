"""Compares the own figures with those of others, and prints all of them in one table.

A ratio is taken within each round. Its spread is the range in which the median of such ratios lies with
95 % confidence or more, from order statistics: of n rounds the k-th smallest and the k-th largest, with
the largest k for which fewer than k heads in n throws of a coin have a chance of 2.5 % or less. Below
six rounds no k does, and the spread is that of all rounds. "better" and "worse" are where the whole
spread lies on one side of 1, and the median differs from it by more than 1 %; all else is a tie. From
fewer than six rounds the verdict has a question mark. Counts that repeat exactly have no spread.
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import math

from figures import OWN, rounds

LEGEND = """Figures are medians. The ratio is the median of those of the rounds, in which both sides were measured in
turn; its spread is the range in which this median lies with 95 % confidence. better, worse: the whole
spread is on one side of 1, and the median more than 1 % from it; else a tie. With a question mark: fewer
than 6 rounds, whose whole range is the spread. Counts that repeat exactly have one value and no spread.
A target is a bound of the own plugin, on its figure (own) or on its ratio to the side of that row (ratio). No
peer has one. Targets of times are not judged in a quick run and on a busy machine."""
BETTER, TIE, WORSE = "better", "tie", "worse"
ENOUGH_ROUNDS = 6
MARGIN = 0.01  # another build of the same source differs by as much


@dataclasses.dataclass
class Row:
    """One line of the table: a figure beside that of one other side, or alone."""
    part: str
    what: str
    unit: str
    own: float | None
    other: str | None = None  # the side
    theirs: float | None = None
    ratio: rounds.Summary | None = None  # own / theirs; low and high are the spread
    verdict: str | None = None
    target: str | None = None
    missed: bool = False


def spread(values):
    """The rounds.Summary of a list of ratios, with the range of its median as explained above."""
    ordered = sorted(values)
    count = len(ordered)
    rank, chance = 0, 0.0
    while rank < (count + 1) // 2:
        chance += math.comb(count, rank) / 2 ** count  # of at most `rank` heads
        if chance > 0.025:
            break
        rank += 1
    rank = max(rank, 1)
    return rounds.Summary(rounds.summary(ordered).median, ordered[rank - 1], ordered[-rank])


def _verdict(figure, found, count):
    low, high = (found.low, found.high) if not figure.exact else (found.median, found.median)
    if abs(found.median - 1) <= MARGIN or low <= 1 <= high:
        word = TIE
    else:
        word = BETTER if (found.median > 1) == figure.more_is_better else WORSE
    return word if figure.exact or count >= ENOUGH_ROUNDS else word + "?"


def _median(values):
    found = rounds.summary(value for value in values or [] if value is not None)
    return found.median if found else None


def _beside(part, figure, side):
    own, theirs = figure.samples.get(OWN, []), figure.samples[side]
    row = Row(part, figure.title, figure.unit, _median(own), side, _median(theirs))
    ratios = [value / base for value, base in zip(own, theirs) if value is not None and base]
    if ratios:
        row.ratio = spread(ratios)
        row.verdict = _verdict(figure, row.ratio, len(ratios))
    elif row.own is not None and row.theirs == 0:
        # Nothing can be divided by, but none is level with none, and else the larger one is known.
        row.verdict = TIE if row.own == 0 else BETTER if figure.more_is_better else WORSE
    return row


def rows_of(part, figures, times=True):
    """The rows of one part's figures; a target stands in the row of the side that it refers to. `times`: whether
    targets of times are judged, too."""
    rows = []
    for figure in figures:
        sides = [side for side in figure.samples if side != OWN]
        of_figure = [_beside(part, figure, side) for side in sides]
        if not of_figure:
            of_figure = [Row(part, figure.title, figure.unit, _median(figure.samples.get(OWN)))]
        if figure.has_target():
            row = next((row for row in of_figure if row.other == figure.target_of), of_figure[0])
            judged = times or not figure.of_time()
            row.missed = judged and figure.missed() is not None
            row.target = f"{figure.bound()}: {'MISSED' if row.missed else 'met' if judged else 'not judged'}"
        rows += of_figure
    return rows


def number(value):
    """Four digits, and no more after the point than say something."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
    text = f"{value:.{min(digits, 3)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _ratio_text(row):
    if row.ratio is None:
        return "-"
    text = f"{row.ratio.median:.3f}"
    return text if row.ratio.low == row.ratio.high else f"{text} ({row.ratio.low:.3f} to {row.ratio.high:.3f})"


HEADINGS = ("what", "unit", "own", "beside", "its", "own / its (spread)", "verdict", "target")


def table(rows):
    """The text of all rows, under a line for each part."""
    cells = [(row.what, row.unit, number(row.own), row.other or "-", number(row.theirs), _ratio_text(row),
              row.verdict or "-", row.target or "") for row in rows]
    widths = [max(len(line[at]) for line in [HEADINGS, *cells]) for at in range(len(HEADINGS))]
    lines = [_line(HEADINGS, widths)]
    part = None
    for row, line in zip(rows, cells):
        if row.part != part:
            part = row.part
            lines.append(f"{part}:")
        lines.append(_line(line, widths))
    return "\n".join(lines)


def _line(cells, widths):
    aligned = [cell.rjust(width) if HEADINGS[at] in ("own", "its") else cell.ljust(width)
               for at, (cell, width) in enumerate(zip(cells, widths))]
    return ("  " + "  ".join(aligned)).rstrip()
