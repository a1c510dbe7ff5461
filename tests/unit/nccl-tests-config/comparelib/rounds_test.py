import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import rounds


class ScheduleTest(unittest.TestCase):

    def test_TwoSides_AlternateTheirOrder(self):
        self.assertEqual([side for _, _, side in rounds.schedule(["a", "b"], 3)], list("abbaab"))

    def test_ThreeSides_EachBeginsARound(self):
        self.assertEqual([side for _, _, side in rounds.schedule("abc", 3)], list("abcbcacab"))

    def test_Subjects_AreMeasuredOnEverySideBeforeTheNext(self):
        self.assertEqual(list(rounds.schedule("ab", 2, ["x", "y"])),
                         [(0, "x", "a"), (0, "x", "b"), (0, "y", "a"), (0, "y", "b"),
                          (1, "x", "b"), (1, "x", "a"), (1, "y", "b"), (1, "y", "a")])


class SummaryTest(unittest.TestCase):

    def test_OddAndEvenCounts_TakeTheMiddle(self):
        self.assertIsNone(rounds.summary([]))
        self.assertEqual(rounds.summary([3]), rounds.Summary(3, 3, 3))
        self.assertEqual(rounds.summary([900, 1, 2]), rounds.Summary(2, 1, 900))
        self.assertEqual(rounds.summary([4, 1, 900, 2]), rounds.Summary(3, 1, 900))


class RatioTest(unittest.TestCase):

    def test_DriftOfBothSides_DoesNotChangeTheRatio(self):
        self.assertEqual(rounds.ratio([10, 20, 400], [20, 40, 800]), rounds.Summary(0.5, 0.5, 0.5))

    def test_Ratios_AreOfEachRoundNotOfTheMedians(self):
        self.assertEqual(rounds.ratio([1, 6, 9], [2, 1, 3]), rounds.Summary(3, 0.5, 6))

    def test_RoundsWithoutBothSides_AreIgnored(self):
        self.assertEqual(rounds.ratio([1, None, 6], [2, 1, None]), rounds.Summary(0.5, 0.5, 0.5))
        self.assertIsNone(rounds.ratio([None], [1]))

    def test_BaseOfZero_GivesNoRatio(self):
        self.assertIsNone(rounds.ratio([1, 2], [0, 0]))


class TargetTest(unittest.TestCase):

    def test_Bounds_AreInclusive(self):
        at = rounds.Summary(0.95, 0.9, 1)
        self.assertTrue(rounds.Target(at_least=0.95).met(at))
        self.assertFalse(rounds.Target(at_least=0.96).met(at))
        self.assertTrue(rounds.Target(at_most=0.95).met(at))
        self.assertFalse(rounds.Target(at_most=0.94).met(at))
        self.assertEqual(str(rounds.Target(at_most=2.2)), "at most 2.2")
        self.assertEqual(str(rounds.Target(at_least=1.0)), "at least 1.0")


if __name__ == "__main__":
    unittest.main()
