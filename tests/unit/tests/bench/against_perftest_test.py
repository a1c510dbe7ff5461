import argparse
import contextlib
import io
import json
import pathlib
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
import verdicts
from arguments import Plugin
from against_perftest import Failed, Targets, compare, rounds
from bench_program import load

_OUTPUT = {"ib_write_bw": """\
 Dual-port       : OFF          Device         : softhca0
 remote address: LID 0x01 QPN 0x0011 PSN 0x5c6a7
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    5000             13900.11            {}             0.013843
---------------------------------------------------------------------------------------
""", "ib_write_lat": """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          1.21           9.50         {}             1.35           0.12            1.80                    3.10
"""}
_VALUES = {"ib_write_bw": [100, 200], "plugin_bw": [90, 200], "ib_write_lat": [1, 2],
           "plugin_lat": [1.5, 2.5], "plugin_lat1": [2, 5]}


class CompareTest(unittest.TestCase):
    """Compares fakes of the programs; each call of one takes its next value from a list."""

    def compare(self, values, peers=()):
        """The figures."""
        self.calls = []
        values = {name: iter(numbers) for name, numbers in values.items()}

        def run_perftest(words):
            self.calls.append(words[0])
            return _OUTPUT[words[0]].format(next(values[words[0]]))

        def run_plugin(words):
            test = words[words.index("--test") + 1]
            name = pathlib.Path(words[words.index("--plugin") + 1]).stem
            one = "1" if "--depth" in words else ""
            self.calls.append(f"{name}_{test}{one}")
            value = next(values[f"{name}_{test}{one}"])
            return json.dumps({"bandwidth": [{"average_mib_s": value}],
                               "latency": [{"typical_us": value}]})

        targets = Targets(*(rounds.Target(at_most=bound) for bound in (1, 2, 3)))
        return self.run_with(run_perftest, run_plugin, targets, peers)

    def run_with(self, run_perftest, run_plugin, targets=None, peers=()):
        options = argparse.Namespace(repeat=2, bandwidth_iters=10, latency_iters=10,
                                     plugins=[Plugin("own", pathlib.Path("/lib/plugin.so")), *peers])
        with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(verdicts, "finish") as finish:
            compare("a fake", options, targets, run_perftest, run_plugin)
        return finish.call_args[0][2]

    def test_Repeats_AlternateTheSidesOfEachFigure(self):
        self.compare(_VALUES)
        self.assertEqual(self.calls, ["ib_write_bw", "plugin_bw", "ib_write_lat", "plugin_lat", "plugin_lat1",
                                      "plugin_bw", "ib_write_bw", "plugin_lat", "plugin_lat1", "ib_write_lat"])

    def test_Figures_HaveTheSamplesOfAllSidesAndTheTargets(self):
        peers = [Plugin("other", pathlib.Path("/lib/other.so"), "8")]
        found = self.compare({**_VALUES, "other_bw": [3, 5], "other_lat": [4, 6], "other_lat1": [7, 8]}, peers)
        self.assertEqual([(figure.samples, figure.more_is_better, figure.target.at_most, figure.target_of)
                          for figure in found], [
            ({"perftest": [100, 200], "own": [90, 200], "other": [3, 5]}, True, 1, "perftest"),
            ({"perftest": [1, 2], "own": [1.5, 2.5], "other": [4, 6]}, False, 2, "perftest"),
            ({"perftest": [1, 2], "own": [2, 5], "other": [7, 8]}, False, 3, "perftest")])

    def test_ProgramWithoutResult_IsAFailure(self):
        with self.assertRaisesRegex(Failed, "ib_write_bw printed no result for 1048576 bytes"):
            self.compare({**_VALUES, "ib_write_bw": ["none"]})
        with self.assertRaisesRegex(Failed, "printed no result .*\n?a warning"):
            self.run_with(lambda words: _OUTPUT[words[0]].format(1), lambda words: "a warning\n{}")


class SofthcaRatioTest(unittest.TestCase):
    def test_ServerThatDoesNotListen_EndsWithWhatItPrinted(self):
        """One that ends, and one that stays."""
        ratio = load("softhca_ratio")
        for last in ("exit 1", "exec sleep 60"):
            client = 'case "$*" in *127.0.0.1) echo "Couldn\'t connect to 127.0.0.1" >&2; exit 1;; esac'
            words = ["sh", "-c", f"{client}; echo no device; {last}", "ib_write_bw"]
            with self.subTest(last), mock.patch.object(ratio, "_LISTEN_LIMIT_S", 0.2):
                with self.assertRaisesRegex(Failed, "Couldn't connect to 127.*\nThe server printed:\nno device\n"):
                    ratio.run_perftest(words, None)


if __name__ == "__main__":
    unittest.main()
