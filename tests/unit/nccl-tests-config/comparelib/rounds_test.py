import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import rounds
from comparelib.rounds import Summary, Target


class RoundsTest(unittest.TestCase):

    def test_EachRound_BeginsWithAnotherSide(self):
        for sides, count, order in (("ab", 3, "abbaab"), ("abc", 3, "abcbcacab")):
            self.assertEqual("".join(side for _, _, side in rounds.schedule(sides, count)), order)
        # Subjects are measured on every side before the next.
        self.assertEqual(list(rounds.schedule("ab", 2, ["x", "y"])),
                         [(0, "x", "a"), (0, "x", "b"), (0, "y", "a"), (0, "y", "b"),
                          (1, "x", "b"), (1, "x", "a"), (1, "y", "b"), (1, "y", "a")])

    def test_Summary_TakesTheMiddleOfOddAndEvenCounts(self):
        for values, found in (([], None), ([3], Summary(3, 3, 3)), ([900, 1, 2], Summary(2, 1, 900)),
                              ([4, 1, 900, 2], Summary(3, 1, 900))):
            self.assertEqual(rounds.summary(values), found)

    def test_Ratios_AreOfEachRound(self):
        for values, base, found in (
                ([10, 20, 400], [20, 40, 800], Summary(0.5, 0.5, 0.5)),  # both drift alike
                ([1, 6, 9], [2, 1, 3], Summary(3, 0.5, 6)),  # not that of the medians
                ([1, None, 6], [2, 1, None], Summary(0.5, 0.5, 0.5)), ([None], [1], None),
                ([1, 2], [0, 0], None)):
            with self.subTest(values):
                self.assertEqual(rounds.ratio(values, base), found)

    def test_Targets_AreInclusive(self):
        for target, met, text in ((Target(at_least=0.95), True, "at least 0.95"), (Target(at_least=0.96), False, "at least 0.96"),
                                  (Target(at_most=0.95), True, "at most 0.95"), (Target(at_most=0.94), False, "at most 0.94")):
            self.assertEqual((target.met(Summary(0.95, 0.9, 1)), str(target)), (met, text))


if __name__ == "__main__":
    unittest.main()
