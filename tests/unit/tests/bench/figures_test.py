import argparse
import contextlib
import io
import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import figures
from figures import Figure, rounds


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "figures.json"

    def test_Figures_AreReadAsTheyWereWritten(self):
        written = [Figure("time", "us", {"own": [1.5, None], "peer": [2, 3]},
                          target=rounds.Target(at_most=2.0), target_of="peer"),
                   Figure("count", "", {"own": [3]}, more_is_better=True, exact=True)]
        figures.write(self.file, "a program", written)
        self.assertEqual(figures.read(self.file), written)

    def test_UnusableFile_IsUnreadableWithItsName(self):
        for text in (None, "", "[]", "{}", '{"format": 1, "figures": []}', '{"format": 2, "figures": [{"a": 1}]}'):
            with self.subTest(text=text):
                if text is not None:
                    self.file.write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(figures.Unreadable, "figures.json has "):
                    figures.read(self.file)


    def test_OptionJson_TakesWhatCanBeWritten(self):
        self.assertEqual(figures.writable("-"), pathlib.Path("-"))
        self.assertEqual(figures.writable(str(self.file)), self.file)
        self.assertFalse(self.file.exists())
        self.file.write_text("kept", encoding="utf-8")
        figures.writable(str(self.file))
        self.assertEqual(self.file.read_text(encoding="utf-8"), "kept")

    def test_OptionJson_RefusesWhatCannotBeWritten(self):
        for path, text in ((self.file.parent, "Is a directory"), (self.file.parent / "no" / "a", "No such file"),
                           ("/proc/a.json", "cannot be written")):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, text):
                figures.writable(str(path))

    def test_FileThatCannotBeWrittenAfterAll_IsNoMissedTarget(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
            figures.write(self.file.parent, "a program", [])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("cannot be written: Is a directory", errors.getvalue())


class TargetTest(unittest.TestCase):
    _RATIO = Figure("time", "us", {"peer": [1, 2], "own": [2, 6]}, target=rounds.Target(at_most=2.4),
                    target_of="peer")

    def test_Ratio_IsOfTheNamedSide(self):
        self.assertEqual(self._RATIO.missed(), "time: 2.500 times that of peer is not at most 2.4")

    def test_OwnMedian_IsJudgedWithoutASide(self):
        low = Figure("speed", "", {"own": [1.5, 1.7, 1.8]}, target=rounds.Target(at_least=1.9))
        self.assertEqual(low.missed(), "speed: 1.700 is not at least 1.9")
        low.samples["own"] = [1.9]
        self.assertIsNone(low.missed())

    def test_PeerAlone_HasNoTarget(self):
        figure = Figure("time", "us", {"peer": [1]}, target=rounds.Target(at_most=0.5))
        self.assertFalse(figure.has_target())
        self.assertIsNone(figure.missed())

    def test_TargetWithoutAnyValue_IsMissed(self):
        for figure in (Figure("count", "", {"own": [None, None]}, target=rounds.Target(at_most=1)),
                       Figure("time", "us", {"own": [1, None], "peer": [None, 2]}, target=rounds.Target(at_most=1),
                              target_of="peer")):
            self.assertEqual(figure.missed(), f"{figure.title}: no round has a value for the target at most 1")

    def test_Bound_NamesWhatIsBounded(self):
        self.assertEqual(self._RATIO.bound(), "ratio <= 2.4")
        self.assertEqual(Figure("a", "", {}, target=rounds.Target(at_least=632.0)).bound(), "own >= 632")


class MergedTest(unittest.TestCase):
    def test_RunsOfOneTitle_BecomeOneFigure(self):
        own = [Figure("a", "", {"own": [1]}), Figure("b", "", {"own": [2]})]
        found = figures.merged([own, [Figure("a", "", {"peer": [3]})]])
        self.assertEqual([figure.samples for figure in found], [{"own": [1], "peer": [3]}, {"own": [2]}])
        self.assertEqual(own[0].samples, {"own": [1]})


if __name__ == "__main__":
    unittest.main()
