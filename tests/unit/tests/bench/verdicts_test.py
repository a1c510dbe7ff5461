import argparse
import contextlib
import io
import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import figures
import verdicts
from figures import Figure, rounds


class RowsTest(unittest.TestCase):
    def test_Verdicts_AreThoseOfTheRounds(self):
        for own, peer, more, verdict in (
                ([1.0] * 6, [2.0] * 6, {}, "better"), ([2.0] * 6, [1.0] * 6, {}, "worse"),
                ([2.0] * 6, [1.0] * 6, {"more_is_better": True}, "better"),
                ([0.5] * 5 + [1.1], [1.0] * 6, {}, "tie"), ([0.991] * 6, [1.0] * 6, {}, "tie"),
                ([1.0], [2.0], {}, "?"), ([1], [2], {"exact": True}, "better"),
                ([1009], [1000], {"exact": True}, "tie"), ([1], [0], {"exact": True}, "-"),
                ([None, 1.0], [1.0, None], {}, "-"), ([], [1.0], {}, "-")):
            with self.subTest(own=own, peer=peer, more=more):
                (row,) = verdicts.rows_of(Figure("a", "us", {"own": own, "peer": peer}, **more))
                self.assertEqual(row[6], verdict)

    def test_Target_StandsBesideTheSideItIsOf(self):
        figure = Figure("a", "us", {"perftest": [1.0], "own": [3.0], "peer": [2.0]},
                        target=rounds.Target(at_most=2.0), target_of="perftest")
        self.assertEqual([(row[3], row[-1]) for row in verdicts.rows_of(figure)],
                         [("perftest", "ratio <= 2: MISSED"), ("peer", "")])
        self.assertEqual(verdicts.rows_of(figure, judge=False)[0][-1], "ratio <= 2: not judged")

    def test_OwnAlone_IsARow(self):
        for values, target, own, text in (([1.0, 3.0], rounds.Target(at_most=2), "2", "own <= 2: met"),
                                          ([None], rounds.Target(at_least=632.0), "-", "own >= 632: MISSED")):
            (row,) = verdicts.rows_of(Figure("a", "us", {"own": values}, target=target))
            self.assertEqual((row[2], row[3], row[-1]), (own, "-", text))

    def test_Numbers_HaveFourDigits(self):
        for value, text in ((None, "-"), (0, "0"), (2.0, "2"), (12345.6, "12346"), (188.62, "188.6"),
                            (3.3349, "3.335"), (0.01234, "0.012"), (100, "100")):
            self.assertEqual(verdicts.number(value), text)

    def test_Table_NamesThePartOfEachRow(self):
        rows = [*verdicts.rows_of(Figure("memory", "KiB", {"own": [1.0, 2.0], "peer": [2.0, 2.0]})),
                *verdicts.rows_of(Figure("time", "us", {"own": [1.5]}))]
        _, _, *lines = verdicts.table({"some-part": rows}).splitlines()
        self.assertEqual([[cell.strip() for cell in line.split("|")[1:-1]] for line in lines], [
            ["some-part", "memory", "KiB", "1.5", "peer", "2", "0.750 (0.500 to 1.000)", "tie", ""],
            ["some-part", "time", "us", "1.5", "-", "-", "-", "-", ""]])

    def test_Finish_PrintsWritesAndFailsForATargetThatIsMissed(self):
        missed = Figure("a", "us", {"own": [3.0]}, target=rounds.Target(at_most=2))
        met = Figure("b", "us", {"own": [1.0]}, target=rounds.Target(at_most=2))
        of_other = Figure("c", "us", {"new": [3.0]}, target=rounds.Target(at_most=2))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.json"
            for found, enforce, status in (
                    ([missed, met], False, 0), ([missed, met], True, 1), ([met], True, 0),
                    ([met, of_other], False, 0), ([met, of_other], True, 1)):
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    options = argparse.Namespace(json=file, enforce=enforce)
                    self.assertEqual(verdicts.finish(options, "a program", found), status)
                self.assertEqual("a target is MISSED: a: 3.000 is not at most 2\n" in output.getvalue(),
                                 missed in found)
                self.assertEqual("a target is NOT JUDGED: c: " in output.getvalue(), enforce and of_other in found)
                self.assertEqual(figures.read(file), found)


if __name__ == "__main__":
    unittest.main()
