import io
import time
import unittest

import samples
from comparelib import progress


class RemainingTest(unittest.TestCase):

    def test_NothingDone_IsUnknown(self):
        self.assertIsNone(progress.remaining("aab", []))

    def test_RunsOfTheSameKind_TakeAsLongAsBefore(self):
        self.assertEqual(progress.remaining("abaab", [10, 2]), 22)
        self.assertEqual(progress.remaining("aba", [10, 2, 14]), 0)

    def test_RunsOfAnotherKind_TakeTheAverage(self):
        self.assertEqual(progress.remaining("aac", [10, 20]), 15)


class TextTest(unittest.TestCase):

    def test_Durations_AreReadable(self):
        self.assertEqual([progress.duration(seconds) for seconds in (0.4, 59, 61, 3599, 3660)],
                         ["0 s", "59 s", "1 min 01 s", "59 min 59 s", "1 h 01 min"])

    def test_ResultOfALine_IsShort(self):
        self.assertEqual(progress.result_text(samples.row(1 << 20, 50)), "1M 50 us 20.97 GB/s")
        self.assertIsNone(progress.result_text("# Using devices"))


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(unittest.TestCase):

    def _shown(self, stream):
        now = iter([0.0, 60.0, 60.0, 120.0, 120.0, 130.0])
        shown = progress.Progress("aba", stream, lambda: next(now))
        shown.begin("all_reduce_perf over gdr, round 1 of 2")
        shown.line(samples.row(1 << 20, 50))
        shown.end("ok")
        shown.begin("all_reduce_perf over ib, round 1 of 2")
        shown.end("3 wrong values at 8 B")
        return stream.getvalue().splitlines()

    def test_File_GetsTwoLinesARun(self):
        lines = self._shown(io.StringIO())
        self.assertEqual(lines[0], "[1/3] all_reduce_perf over gdr, round 1 of 2 ...")
        self.assertRegex(
            lines[1],
            r"^\[1/3\] .*: 1 min 00 s, ok, last 1M 50 us 20.97 GB/s; 2 more take about 2 min 00 s, "
            r"until \d\d:\d\d:\d\d$")
        self.assertRegex(lines[3],
                         r"1 min 00 s, 3 wrong values at 8 B; 1 more take about 1 min 00 s")

    def test_Terminal_GetsOneLineThatIsRewritten(self):
        stream = _Terminal()
        shown = progress.Progress("ab", stream)
        shown.begin("all_reduce_perf over gdr")
        shown.line(samples.row(1 << 20, 50))
        deadline = time.monotonic() + 20
        while "last 1M" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
        shown.end("ok")
        self.assertRegex(
            stream.getvalue(),
            r"\r\x1b\[K\[1/2\] all_reduce_perf over gdr: \d s, last 1M 50 us 20.97 GB/s")
        self.assertEqual(stream.getvalue().count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
