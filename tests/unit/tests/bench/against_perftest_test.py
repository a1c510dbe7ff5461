import argparse
import contextlib
import io
import json
import unittest

import paths  # noqa: F401  (sets the module path)
from against_perftest import Failed, Targets, compare, rounds


class CompareTest(unittest.TestCase):
    """Compares fakes of both programs; each call of one takes its next value from a list."""

    def compare(self, values, enforce=False, at_least=0.9, at_most=2.0):
        self.calls = []
        values = {name: iter(numbers) for name, numbers in values.items()}

        def run_perftest(words):
            self.calls.append(words[0])
            numbers = {"ib_write_bw": "1048576 10 0 {} 0", "ib_write_lat": "8 10 0 0 {} 0 0 0 0"}
            return numbers[words[0]].format(next(values[words[0]]))

        def run_plugin(words):
            test = words[words.index("--test") + 1]
            self.calls.append(f"plugin_{test}")
            value = next(values[f"plugin_{test}"])
            return json.dumps({"bandwidth": [{"average_mib_s": value}],
                               "latency": [{"typical_us": value}]})

        options = argparse.Namespace(repeat=2, bandwidth_iters=10, latency_iters=10, enforce=enforce)
        targets = Targets(rounds.Target(at_least=at_least), rounds.Target(at_most=at_most))
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            return compare("a fake", options, targets, run_perftest, run_plugin)

    _VALUES = {"ib_write_bw": [100, 200], "plugin_bw": [90, 200], "ib_write_lat": [1, 2],
               "plugin_lat": [1.5, 2.5]}

    def test_Repeats_AlternateTheSidesOfEachFigure(self):
        self.compare(self._VALUES)
        self.assertEqual(self.calls, ["ib_write_bw", "plugin_bw", "ib_write_lat", "plugin_lat",
                                      "plugin_bw", "ib_write_bw", "plugin_lat", "ib_write_lat"])

    def test_Ratios_ArePrintedWithTheirSpread(self):
        self.assertEqual(self.compare(self._VALUES), 0)
        self.assertIn("ratio 0.950 (0.900 to 1.000) (target: at least 0.9)", self.output.getvalue())
        self.assertIn("ratio 1.375 (1.250 to 1.500) (target: at most 2.0)", self.output.getvalue())
        self.assertIn("both targets are met", self.output.getvalue())

    def test_MissedTarget_FailsOnlyIfEnforced(self):
        self.assertEqual(self.compare(self._VALUES, at_least=0.96), 0)
        self.assertIn("a target is MISSED", self.output.getvalue())
        self.assertEqual(self.compare(self._VALUES, enforce=True, at_least=0.96), 1)
        self.assertEqual(self.compare(self._VALUES, enforce=True, at_most=1.3), 1)
        self.assertEqual(self.compare(self._VALUES, enforce=True), 0)

    def test_ProgramWithoutResult_IsAFailure(self):
        with self.assertRaisesRegex(Failed, "ib_write_bw printed no result for 1048576 bytes"):
            self.compare({**self._VALUES, "ib_write_bw": ["none"]})


if __name__ == "__main__":
    unittest.main()
