import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from arguments import Plugin
import figures
from against_perftest import Failed, Targets, compare, rounds


class CompareTest(unittest.TestCase):
    """Compares fakes of the programs; each call of one takes its next value from a list."""

    def compare(self, values, enforce=False, at_least=0.9, at_most=2.0, peers=(), json_file=None):
        self.calls = []
        values = {name: iter(numbers) for name, numbers in values.items()}

        def run_perftest(words):
            self.calls.append(words[0])
            numbers = {"ib_write_bw": "1048576 10 0 {} 0", "ib_write_lat": "8 10 0 0 {} 0 0 0 0"}
            return numbers[words[0]].format(next(values[words[0]]))

        def run_plugin(words):
            test = words[words.index("--test") + 1]
            name = pathlib.Path(words[words.index("--plugin") + 1]).stem
            one = "1" if "--depth" in words else ""
            self.calls.append(f"{name}_{test}{one}")
            value = next(values[f"{name}_{test}{one}"])
            return json.dumps({"bandwidth": [{"average_mib_s": value}],
                               "latency": [{"typical_us": value}]})

        plugins = [Plugin("own", pathlib.Path("/lib/plugin.so"))] + list(peers)
        options = argparse.Namespace(repeat=2, bandwidth_iters=10, latency_iters=10, enforce=enforce,
                                     plugins=plugins, json=json_file)
        targets = Targets(rounds.Target(at_least=at_least), rounds.Target(at_most=at_most),
                          rounds.Target(at_most=3.0))
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            return compare("a fake", options, targets, run_perftest, run_plugin)

    _VALUES = {"ib_write_bw": [100, 200], "plugin_bw": [90, 200], "ib_write_lat": [1, 2],
               "plugin_lat": [1.5, 2.5], "plugin_lat1": [2, 5]}

    def test_Repeats_AlternateTheSidesOfEachFigure(self):
        self.compare(self._VALUES)
        self.assertEqual(self.calls, ["ib_write_bw", "plugin_bw", "ib_write_lat", "plugin_lat", "plugin_lat1",
                                      "plugin_bw", "ib_write_bw", "plugin_lat", "plugin_lat1", "ib_write_lat"])

    def test_Ratios_ArePrintedWithTheirSpread(self):
        self.assertEqual(self.compare(self._VALUES), 0)
        for text in ("0.950 (0.900 to 1.000) times ib_write_bw (target: at least 0.9)",
                     "1.375 (1.250 to 1.500) times ib_write_lat (target: at most 2.0)",
                     "2.250 (2.000 to 2.500) times ib_write_lat (target: at most 3.0)", "all targets are met"):
            self.assertIn(text, self.output.getvalue())

    def test_Peer_IsMeasuredBesideThePluginAndComparedWithIt(self):
        peer = Plugin("other", pathlib.Path("/lib/other.so"), "8")
        values = {**self._VALUES, "other_bw": [100, 100], "other_lat": [3, 5], "other_lat1": [1, 2]}
        self.assertEqual(self.compare(values, enforce=True, peers=[peer]), 0)
        for text in ("other 100.00 MiB/s, 0.750 (0.500 to 1.000) times ib_write_bw\n",
                     "own / other: 1.450 (0.900 to 2.000)", "own / other: 0.500 (0.500 to 0.500)",
                     "own / other: 2.250 (2.000 to 2.500)"):
            self.assertIn(text, self.output.getvalue())

    def test_MissedTarget_FailsOnlyIfEnforced(self):
        self.assertEqual(self.compare(self._VALUES, at_least=0.96), 0)
        self.assertIn("a target is MISSED: 1 MiB bandwidth: 0.950 times that of perftest is not at least 0.96",
                      self.output.getvalue())
        self.assertNotIn("all targets", self.output.getvalue())
        self.assertEqual(self.compare(self._VALUES, enforce=True, at_least=0.96), 1)
        self.assertEqual(self.compare(self._VALUES, enforce=True, at_most=1.3), 1)
        self.assertEqual(self.compare({**self._VALUES, "plugin_lat1": [4, 8]}, enforce=True), 1)
        self.assertEqual(self.compare(self._VALUES, enforce=True), 0)

    def test_Json_HasTheSamplesOfAllSidesAndTheTargets(self):
        peers = [Plugin(name, pathlib.Path(f"/lib/{name}.so")) for name in ("one", "two")]
        values = {**self._VALUES, **{f"{peer.name}_{test}": [3, 5] for peer in peers
                                     for test in ("bw", "lat", "lat1")}}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            self.compare(values, peers=peers, json_file=file)
            found = figures.read(file)
        self.assertEqual([list(figure.samples) for figure in found], [["perftest", "own", "one", "two"]] * 3)
        self.assertEqual(found[2].samples["perftest"], [1, 2])
        self.assertEqual(found[2].samples["own"], [2, 5])
        self.assertEqual([figure.target_of for figure in found], ["perftest"] * 3)
        self.assertEqual([figure.more_is_better for figure in found], [True, False, False])

    def test_ProgramWithoutResult_IsAFailure(self):
        with self.assertRaisesRegex(Failed, "ib_write_bw printed no result for 1048576 bytes"):
            self.compare({**self._VALUES, "ib_write_bw": ["none"]})

    def test_PluginThatPrintsNoJson_IsAFailure(self):
        def run_plugin(words):
            return "a warning\n{}" if "--test" in words else ""

        options = argparse.Namespace(repeat=1, bandwidth_iters=10, latency_iters=10, enforce=False,
                                     plugins=[Plugin("own", pathlib.Path("/lib/plugin.so"))])
        with contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(Failed, "printed no result .*\n?a warning"):
                compare("a fake", options, None, lambda words: "1048576 10 0 1 0\n8 10 0 0 1 0 0 0 0", run_plugin)


if __name__ == "__main__":
    unittest.main()
