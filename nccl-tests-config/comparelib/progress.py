"""Shows on the standard error which run is under way, when all will be done, and the last result."""

import datetime
import re
import sys
import threading
import time

from comparelib import perf_table, report


def duration(seconds):
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min {seconds % 60:02d} s" if seconds < 3600 else (
        f"{seconds // 3600} h {seconds % 3600 // 60:02d} min")


def remaining(plan, done):
    """Seconds that the runs after the first len(done) of `plan` will take; None before the first ended.

    A run takes as long as the earlier ones of the same kind did, else as the earlier runs on average. `plan`
    has a kind for each run (anything that can be compared), `done` the seconds of those that ended.
    """
    if not done:
        return None
    by_kind = {}
    for kind, seconds in zip(plan, done):
        by_kind.setdefault(kind, []).append(seconds)
    mean = sum(done) / len(done)
    return sum(sum(by_kind[kind]) / len(by_kind[kind]) if kind in by_kind else mean
               for kind in plan[len(done):])


def result_text(line):
    """A result of nccl-tests in a few words, or None for any other line."""
    table = perf_table.parse(line)
    measure = table.rows and table.rows[0].out_of_place
    if not measure:
        return None
    return f"{report.size_text(table.rows[0].size)} {measure.time_us:g} us {measure.busbw:g} GB/s"


class Progress:
    """On a terminal one line is rewritten every second; elsewhere each run has two lines."""

    def __init__(self, plan, stream=None, clock=time.monotonic):
        self._plan, self._done = list(plan), []
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._clock, self._began, self._label, self._last = clock, 0.0, "", ""
        self._stop = threading.Event()
        self._ticker = None

    def begin(self, label):
        self._label = f"[{len(self._done) + 1}/{len(self._plan)}] {label}"
        self._last, self._began = "", self._clock()
        if not self._live:
            print(f"{self._label} ...", file=self._stream, flush=True)
            return
        self._stop.clear()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def line(self, line):
        """A line that the run printed; the last result is shown. Called from the reading thread."""
        self._last = result_text(line) or self._last

    def end(self, text):
        """The run has ended with this result; without text it was stopped."""
        seconds = self._clock() - self._began
        if self._ticker is not None:
            self._stop.set()
            self._ticker.join()
            self._ticker = None
            print("\r\033[K", end="", file=self._stream)
        self._done.append(seconds)
        last = f", last {self._last}" if self._last else ""
        print(f"{self._label}: {duration(seconds)}, {text}{last}{self._outlook()}",
              file=self._stream,
              flush=True)

    def _outlook(self):
        left = remaining(self._plan, self._done)
        if not left:
            return ""
        end = datetime.datetime.now() + datetime.timedelta(seconds=left)
        return (f"; {len(self._plan) - len(self._done)} more take about {duration(left)}, "
                f"until {end:%H:%M:%S}")

    def _tick(self):
        while not self._stop.is_set():
            left = remaining(self._plan, self._done)
            seconds = self._clock() - self._began
            outlook = "" if left is None else f", all done in about {duration(max(left - seconds, 0))}"
            last = f", last {self._last}" if self._last else ""
            text = re.sub(r"\s+", " ", f"{self._label}: {duration(seconds)}{last}{outlook}")
            print(f"\r\033[K{text[:160]}", end="", file=self._stream, flush=True)
            self._stop.wait(1)
