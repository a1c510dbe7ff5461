"""Axes of a plot: from values to coordinates, and where the labelled lines are."""

import dataclasses
import math

from comparelib import report


@dataclasses.dataclass(frozen=True)
class Axis:
    """Maps the values `low` to `high` to the coordinates `start` to `end`, on a logarithmic scale or a
    linear one."""
    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = True

    def at(self, value):
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def size_axis(sizes, start, end):
    low, high = min(sizes), max(sizes)
    return Axis(low / 1.3, high * 1.3, start, end)


def size_ticks(axis):
    """(value, label): powers of two, so many that about eight have room."""
    first, last = math.ceil(math.log2(axis.low)), math.floor(math.log2(axis.high))
    step = max(1, math.ceil((last - first + 1) / 8))
    return [(2 ** power, report.size_text(2 ** power)) for power in range(first, last + 1, step)]


_STEPS = (1, 2, 5)


def _round_values(low, high):
    """The values 1, 2 and 5 times a power of ten from just below `low` to just above `high`."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    values = [factor * 10.0 ** power for power in powers for factor in _STEPS]
    first = max(index for index, value in enumerate(values) if value <= low)
    last = min(index for index, value in enumerate(values) if value >= high)
    return values[first:last + 1]


def value_axis(values, start, end):
    """A logarithmic axis around positive values."""
    found = _round_values(min(values) / 1.05, max(values) * 1.05)
    return Axis(found[0], found[-1], start, end)


def value_ticks(axis):
    """(value, label): the powers of ten, and 2 and 5 times them where there are few."""
    values = _round_values(axis.low * 1.001, axis.high / 1.001)
    if len(values) > 8:
        values = [value for value in values if axis.low <= value * 1.001
                  and abs(math.log10(value) - round(math.log10(value))) < 1e-6]
    return [(value, f"{value:g}") for value in values]


def ratio_axis(values, start, end):
    """A linear axis that has 1 and the values inside, in steps that fit."""
    low, high = min([*values, 0.95]), max([*values, 1.05])
    margin = 0.05 * (high - low)
    return Axis(max(low - margin, 0), high + margin, start, end, logarithmic=False)


def ratio_ticks(axis):
    span = axis.high - axis.low
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e3,
                                  1e9) if span / step <= 7)
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [(index * step, f"{index * step:.2f}" if step < 0.1 else f"{index * step:g}")
            for index in range(first, last + 1)]
