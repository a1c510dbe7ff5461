"""Alternating measurements of several sides: the engine of every comparison in this tree.

A machine's speed drifts while it measures. So the sides are not measured one after the other, but in
rounds: each round measures every side once, and each round begins with another side, so that none
always runs first. A ratio is computed within each round, where both sides saw the same machine; the
result is the median of these ratios, with the smallest and the largest beside it.

    order = list(rounds.schedule(["first", "second"], 3))
    # (0, None, "first"), (0, None, "second"), (1, None, "second"), (1, None, "first"), ...
    samples = {side: [measure(side) for _, _, one in order if one == side] for side in ...}
    rounds.ratio(samples["second"], samples["first"])
"""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import statistics


def rotated(sides, index):
    """The sides in the order of round `index`, which begins with side `index` modulo their number."""
    first = index % len(sides)
    return [*sides[first:], *sides[:first]]


def schedule(sides, count, subjects=(None,)):
    """Yields (round, subject, side) for `count` rounds over every subject and side.

    A subject is something that all sides are compared in, such as a program or a figure. The sides of
    one subject directly follow each other.
    """
    for index in range(count):
        for subject in subjects:
            for side in rotated(sides, index):
                yield index, subject, side


@dataclasses.dataclass(frozen=True)
class Summary:
    """The median of the rounds' values, and their spread."""
    median: float
    low: float
    high: float


def summary(values):
    """The Summary of a list of numbers; None for an empty list."""
    values = list(values)
    return Summary(statistics.median(values), min(values), max(values)) if values else None


def ratio(values, base):
    """The Summary of value / base round by round, or None where no round has both.

    `values` and `base` have one entry a round; None marks a round without a result. A base of zero, as
    the bandwidth of empty messages, gives no ratio.
    """
    return summary(value / below for value, below in zip(values, base)
                   if value is not None and below)


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on a ratio's median: at_least for figures where more is better, else at_most."""
    at_least: float | None = None
    at_most: float | None = None

    def met(self, found):
        return ((self.at_least is None or found.median >= self.at_least)
                and (self.at_most is None or found.median <= self.at_most))

    def __str__(self):
        return f"at least {self.at_least}" if self.at_most is None else f"at most {self.at_most}"
