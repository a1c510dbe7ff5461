"""What a session shows: medians, spread and ratios of every size, and whether a ratio means anything.

A ratio is one of speeds: the base's time divided by the side's time within one round, so above 1 the side is
faster. It is judged by its own rounds and by the control, which is the base measured a second time in
every round:

    tie     the rounds disagree on which side is faster, or the median is no farther from 1 than a ratio
            of the control was, in any round of that size
    faster  every round has the side ahead, and farther than that
    slower  the same with the side behind
    ?       there is one round only, so its spread is unknown
    wrong   a run of either side had wrong values at that size
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import math

from comparelib import rounds

TIE, FASTER, SLOWER, UNKNOWN, WRONG = "tie", "faster", "slower", "?", "wrong"
VERDICTS = (FASTER, SLOWER, TIE, UNKNOWN, WRONG)
# Rounds up to which the verdict of a single size is weak: without any difference, all of n rounds agree
# with a probability of 2^(1-n), so that of n = 4 would make one size in eight a false difference.
WEAK_ROUNDS = 4


@dataclasses.dataclass(frozen=True)
class Series:
    """One side at one size, one entry a round; None where a round has no result."""
    time_us: list[float | None]
    busbw: list[float | None]
    wrong: float | None  # of all rounds; None: nothing was counted

    def times(self):
        return rounds.summary(value for value in self.time_us if value is not None)

    def bandwidths(self):
        return rounds.summary(value for value in self.busbw if value is not None)


@dataclasses.dataclass(frozen=True)
class Point:
    """All sides at one size. `speed` and `verdict` have an entry for each side but the base."""
    size: int
    series: dict[str, Series]
    speed: dict[str, rounds.Summary | None]
    verdict: dict[str, str | None]


def half(row, in_place):
    return row.in_place if in_place else row.out_of_place


def _series(tables, size, in_place):
    times, bandwidths, wrongs = [], [], []
    for table in tables:
        row = next((row for row in table.rows if row.size == size), None) if table else None
        found = row and half(row, in_place)
        times.append(found.time_us if found else None)
        bandwidths.append(found.busbw if found else None)
        if found and found.wrong is not None:
            wrongs.append(found.wrong)
    return Series(times, bandwidths, sum(wrongs) if wrongs else None)


def speeds(side, base):
    """The ratio of speeds of each round that has both."""
    return [below / time for time, below in zip(side.time_us, base.time_us)
            if time is not None and below is not None]


def band(ratios):
    """How far from 1 the control was at most, as the logarithm of a ratio."""
    return max((abs(math.log(ratio)) for ratio in ratios), default=0.0)


def judged(ratios, noise):
    """The verdict on the ratios of the rounds; `noise` is the control's band."""
    if not ratios:
        return None
    if len(ratios) == 1:
        return UNKNOWN
    found = rounds.summary(ratios)
    if found.low <= 1 <= found.high or abs(math.log(found.median)) <= noise:
        return TIE
    return FASTER if found.median > 1 else SLOWER


def _point(session, tables, size):
    series = {side: _series(tables[side], size, session.in_place) for side in session.sides}
    base = series[session.base]
    ratios = {side: speeds(series[side], base) for side in session.others}
    noise = band(ratios.get(session.control, []))
    verdicts = {}
    for side, found in ratios.items():
        wrong = found and (series[side].wrong or base.wrong)
        # The control is the base itself: its ratios are no verdict, but the measure of the others'.
        own = None if side == session.control else judged(found, noise)
        verdicts[side] = WRONG if wrong else own
    return Point(size, series, {side: rounds.summary(found) for side, found in ratios.items()},
                 verdicts)


def points(session, program):
    """The Points of one program, by size."""
    tables = {}
    for side in session.sides:
        by_round = {run.repeat: run.table for run in session.counted(program, side)}
        tables[side] = [by_round.get(index) for index in range(session.rounds)]
    sizes = {row.size for found in tables.values() for table in found if table for row in table.rows
             if row.size > 0 and half(row, session.in_place) is not None}
    return [_point(session, tables, size) for size in sorted(sizes)]


def tally(found, side):
    """How many sizes have each verdict, as text: "12 faster, 3 tie"."""
    verdicts = [point.verdict[side] for point in found if point.verdict.get(side)]
    return ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS if name in verdicts)


def overall(found, side):
    """The Summary (smallest, median, largest) of a side's median ratios over all sizes."""
    return rounds.summary(point.speed[side].median for point in found if point.speed.get(side))
