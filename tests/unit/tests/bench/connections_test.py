import argparse
import contextlib
import io
import pathlib
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from arguments import Plugin
from bench_program import load

connections = load("connections")
_PLUGINS = [Plugin("peer", pathlib.Path("/peer.so")), Plugin("plugin", pathlib.Path("/own.so"))]


class MeasureTest(unittest.TestCase):
    """Measures with a fake of the driver, which takes twice as long for the first plugin."""

    def measure(self, counts, rounds=2, at_most=None):
        self.calls = []

        def run(words, plugin):
            self.calls.append(plugin.name)
            value = 2.0 if plugin.name == "peer" else 1.0
            report = {key: value for key, *_ in connections._COLUMNS}
            blocks = [value] * max(int(words[2]) // 100, 1)
            return {**report, "setup_blocks_us": blocks, "threads": 1}

        options = argparse.Namespace(plugins=_PLUGINS, connections=counts, rounds=rounds, polls=10,
                                     driver="driver", at_most=at_most)
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            return connections.measure_all(options, run)

    def test_Rounds_BeginWithAnotherPlugin(self):
        self.measure([10])
        self.assertEqual(self.calls, ["peer", "plugin", "plugin", "peer"])

    def test_Growth_IsPrintedFromTwoHundredConnectionsOn(self):
        for count, printed in ((100, False), (199, False), (200, True)):
            with self.subTest(count=count):
                self.measure([count])
                self.assertEqual("first and of the last hundred" in self.output.getvalue(), printed)

    def test_Figures_HaveEveryRoundOfEveryPluginAndNumber(self):
        _, found = self.measure([10, 20], at_most=195)
        self.assertEqual(len(found), 2 * len(connections._COLUMNS))
        self.assertEqual(found[0].title, "resident memory, open, 10 connections")
        self.assertEqual(found[0].samples, {"peer": [2, 2], "plugin": [1, 1]})
        self.assertEqual([figure.title for figure in found if figure.target],
                         [f"resident memory, open, {count} connections" for count in (10, 20)])


class InstructionsTest(unittest.TestCase):
    def figure(self, costs):
        options = argparse.Namespace(plugins=[Plugin("own", pathlib.Path("/own.so"))], driver=pathlib.Path("/driver"))
        self.output = io.StringIO()
        with mock.patch.object(connections, "count_instructions", lambda *_: dict(costs)):
            with contextlib.redirect_stdout(self.output):
                return connections.print_instructions(options, {}, "folder")

    def test_Instructions_AreThoseInsideThePlugin(self):
        self.assertEqual(self.figure({"own.so": 30.0, "libc.so.6": 5.0, "driver": 9.0}).samples, {"own": [30.0]})
        self.assertRegex(self.output.getvalue(), r"own +30 in own.so; elsewhere: libc.so.6 5\n")

    def test_CodeInAnotherObject_HasNoFigure(self):
        """Zero instructions would be better than any plugin."""
        self.assertEqual(self.figure({"core.so": 90.0}).samples, {"own": [None]})
        self.assertRegex(self.output.getvalue(), r"own +no code in own.so; elsewhere: core.so 90\n")


if __name__ == "__main__":
    unittest.main()
