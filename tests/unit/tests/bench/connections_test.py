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
_OWN, _PEER = (Plugin(name, pathlib.Path(f"/{name}.so")) for name in ("own", "peer"))


class ConnectionsTest(unittest.TestCase):

    def test_Figures_HaveEveryRoundOfEveryPluginAndNumber(self):
        calls = []

        def run(words, plugin):
            calls.append((plugin.name, words[2]))
            return {key: len(calls) for key, *_ in connections._FIGURES}

        options = argparse.Namespace(plugins=[_OWN, _PEER], connections=[10, 20], rounds=2, polls=10,
                                     driver="driver", at_most=195)
        found = connections.measure(options, run)
        # Each round begins with another plugin.
        self.assertEqual(calls[:4], [("own", "10"), ("peer", "10"), ("peer", "10"), ("own", "10")])
        self.assertEqual(len(found), 2 * len(connections._FIGURES))
        self.assertEqual(found[0].samples, {"own": [1, 4], "peer": [2, 3]})
        self.assertEqual([(figure.title, figure.target.at_most) for figure in found if figure.target],
                         [(f"resident memory, open, {count} connections", 195) for count in (10, 20)])

    def test_Instructions_AreThoseInsideThePlugin(self):
        """Where its code is in another object, it has none: zero would be better than any plugin."""
        options = argparse.Namespace(plugins=[_OWN], driver=pathlib.Path("/driver"))
        for costs, own, text in (
                ({"own.so": 30.0, "libc.so.6": 5.0, "driver": 9.0}, 30.0, r"own +30 in own.so; elsewhere: libc.so.6 5\n"),
                ({"core.so": 90.0}, None, r"own +no code in own.so; elsewhere: core.so 90\n")):
            output = io.StringIO()
            with mock.patch.object(connections, "count_instructions", lambda *_, costs=costs: dict(costs)), \
                    contextlib.redirect_stdout(output):
                self.assertEqual(connections.instructions(options, {}).samples, {"own": [own]})
            self.assertRegex(output.getvalue(), text)


if __name__ == "__main__":
    unittest.main()
