import unittest

import paths  # noqa: F401  (sets the module path)
import verdicts
from figures import Figure, rounds


class SpreadTest(unittest.TestCase):
    def test_RanksAreThoseOfTheTables(self):
        """k of the 95 % interval of a median, from tables of the sign test (two-sided, 5 %)."""
        for count, rank in ((6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (25, 8)):
            with self.subTest(count=count):
                found = verdicts.spread(range(1, count + 1))
                self.assertEqual((found.low, found.high), (rank, count + 1 - rank))

    def test_FewRounds_HaveTheirWholeRange(self):
        for values in ([3], [3, 1], [5, 1, 2, 4, 3]):
            found = verdicts.spread(values)
            self.assertEqual((found.low, found.high), (min(values), max(values)))


class RowsTest(unittest.TestCase):
    def verdict(self, own, peer, **more):
        (row,) = verdicts.rows_of("part", [Figure("a", "us", {"own": own, "peer": peer}, **more)])
        return row.verdict

    def test_SpreadBeyondOne_IsBetterOrWorse(self):
        self.assertEqual(self.verdict([1.0] * 6, [2.0] * 6), "better")
        self.assertEqual(self.verdict([2.0] * 6, [1.0] * 6), "worse")
        self.assertEqual(self.verdict([2.0] * 6, [1.0] * 6, more_is_better=True), "better")

    def test_SpreadThatContainsOne_IsATie(self):
        self.assertEqual(self.verdict([0.5, 0.5, 0.5, 0.5, 0.5, 1.1], [1.0] * 6), "tie")
        # Of nine rounds, one on the other side is an outlier.
        self.assertEqual(self.verdict([0.5] * 8 + [1.1], [1.0] * 9), "better")

    def test_OnePercent_IsATie(self):
        self.assertEqual(self.verdict([0.991] * 6, [1.0] * 6), "tie")
        self.assertEqual(self.verdict([1009], [1000], exact=True), "tie")

    def test_FewRounds_HaveAQuestionMark(self):
        self.assertEqual(self.verdict([1.0] * 5, [2.0] * 5), "better?")
        self.assertEqual(self.verdict([1.0], [1.0]), "tie?")

    def test_ExactCounts_HaveNone(self):
        self.assertEqual(self.verdict([1], [2], exact=True), "better")

    def test_BaseOfZero_HasNoRatio(self):
        self.assertEqual(self.verdict([0], [0], exact=True), "tie")
        self.assertEqual(self.verdict([1], [0], exact=True), "worse")

    def test_NoRoundOfBoth_HasNoVerdict(self):
        self.assertIsNone(self.verdict([None, 1.0], [1.0, None]))
        self.assertIsNone(self.verdict([], [1.0]))

    def test_Target_StandsBesideTheSideItIsOf(self):
        figure = Figure("a", "us", {"perftest": [1.0], "own": [3.0], "peer": [2.0]},
                        target=rounds.Target(at_most=2.0), target_of="perftest")
        first, second = verdicts.rows_of("part", [figure])
        self.assertEqual((first.other, first.target, first.missed), ("perftest", "ratio <= 2: MISSED", True))
        self.assertEqual((second.other, second.target, second.missed), ("peer", None, False))

    def test_TargetsOfTimes_AreJudgedOnRequest(self):
        target = rounds.Target(at_most=2)
        for more, text in (({}, "own <= 2: not judged"), ({"steady": True}, "own <= 2: MISSED"),
                           ({"exact": True}, "own <= 2: MISSED")):
            (row,) = verdicts.rows_of("part", [Figure("a", "", {"own": [3.0]}, target=target, **more)], times=False)
            self.assertEqual((row.target, row.missed), (text, "MISSED" in text))

    def test_TargetWithoutAValue_StaysInTheTable(self):
        (row,) = verdicts.rows_of("part", [Figure("a", "", {"own": [None]}, target=rounds.Target(at_most=2))])
        self.assertEqual((row.own, row.target), (None, "own <= 2: MISSED"))

    def test_OwnAlone_IsARow(self):
        (row,) = verdicts.rows_of("part", [Figure("a", "us", {"own": [1.0, 3.0]}, target=rounds.Target(at_most=2))])
        self.assertEqual((row.own, row.other, row.ratio, row.target), (2.0, None, None, "own <= 2: met"))


class TableTest(unittest.TestCase):
    def test_Numbers_HaveFourDigits(self):
        for value, text in ((None, "-"), (0, "0"), (2.0, "2"), (12345.6, "12346"), (188.62, "188.6"), (3.3349, "3.335"),
                            (0.01234, "0.012"), (100, "100")):
            self.assertEqual(verdicts.number(value), text)

    def test_Table_HasEachPartOnce(self):
        figures = [Figure("memory", "KiB", {"own": [1.0] * 6, "peer": [2.0] * 6}),
                   Figure("time", "us", {"own": [1.5] * 6})]
        lines = verdicts.table(verdicts.rows_of("some-part", figures)).splitlines()
        self.assertEqual(lines[0].split()[:3], ["what", "unit", "own"])
        self.assertEqual(lines[1], "some-part:")
        self.assertEqual(lines[2].split(), ["memory", "KiB", "1", "peer", "2", "0.500", "better"])
        self.assertEqual(lines[3].split(), ["time", "us", "1.5", "-", "-", "-", "-"])


if __name__ == "__main__":
    unittest.main()
