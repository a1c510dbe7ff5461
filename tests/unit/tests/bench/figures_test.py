import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import figures
from figures import Figure, rounds


class FiguresTest(unittest.TestCase):
    def test_Figures_AreReadAsTheyWereWritten(self):
        written = [Figure("time", "us", {"own": [1.5, None], "peer": [2, 3]},
                          target=rounds.Target(at_most=2.0), target_of="peer"),
                   Figure("count", "", {"own": [3]}, more_is_better=True, exact=True)]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            figures.write(file, "a program", written)
            self.assertEqual(figures.read(file), written)

    def test_Targets_AreOfTheOwnFigureOrItsRatio(self):
        at_most, at_least = rounds.Target(at_most=2.4), rounds.Target(at_least=1.9)
        for samples, target, of, missed in (
                ({"peer": [1, 2], "own": [2, 6]}, at_most, "peer", "a: 2.500 times that of peer is not at most 2.4"),
                ({"own": [1.5, 1.7, 1.8]}, at_least, None, "a: 1.700 is not at least 1.9"),
                ({"own": [1.9]}, at_least, None, None), ({"peer": [1]}, at_least, None, None),
                ({"own": [None, None]}, at_most, None, "a: no round has a value for the target at most 2.4"),
                ({"own": [1, None], "peer": [None, 2]}, at_most, "peer",
                 "a: no round has a value for the target at most 2.4")):
            with self.subTest(samples):
                self.assertEqual(Figure("a", "", samples, target=target, target_of=of).missed(), missed)

    def test_RunsOfOneTitle_BecomeOneFigure(self):
        own = [Figure("a", "", {"own": [1]}), Figure("b", "", {"own": [2]})]
        found = figures.merged([own, [Figure("a", "", {"peer": [3]})]])
        self.assertEqual([figure.samples for figure in found], [{"own": [1], "peer": [3]}, {"own": [2]}])
        self.assertEqual(own[0].samples, {"own": [1]})


if __name__ == "__main__":
    unittest.main()
