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


def value_axis(values, start, end):
    """A logarithmic axis from the power of ten below the values to one of 1, 2, 5 times one above them."""
    low, high = 10 ** math.floor(math.log10(min(values))), max(values)
    top = next(factor * 10 ** power for power in range(math.floor(math.log10(high)), 99)
               for factor in (1, 2, 5) if factor * 10 ** power >= high * 1.05)
    return Axis(low, top, start, end)


def value_ticks(axis):
    first, last = round(math.log10(axis.low)), math.floor(math.log10(axis.high) + 1e-9)
    return [(10.0 ** power, f"{10.0 ** power:g}" if abs(power) < 5 else f"1e{power}")
            for power in range(first, last + 1)]


def ratio_axis(values, start, end):
    """A linear axis that has 1 and the values inside, in steps that fit."""
    low, high = min([*values, 0.95]), max([*values, 1.05])
    margin = 0.05 * (high - low)
    return Axis(max(low - margin, 0), high + margin, start, end, logarithmic=False)


def ratio_ticks(axis):
    span = axis.high - axis.low
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e3, 1e9)
                if span / step <= 7)
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [(index * step, f"{index * step:.2f}" if step < 0.1 else f"{index * step:g}")
            for index in range(first, last + 1)]
