#!/usr/bin/env python3
"""tests/bench/all, with the build's own plugin as the peer: that it runs, and that its table is right.

usage: bench_all_test.py BUILD_FOLDER [TEST ...]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ALL = pathlib.Path(__file__).resolve().parents[1] / "bench" / "all"
BUILD = pathlib.Path(sys.argv[1])


class All(unittest.TestCase):
    def run_all(self, peer, status):
        """(what it printed, what --json has)."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "all.json"
            done = subprocess.run([str(ALL), "--build", str(BUILD), "--peer", peer, "--quick", "--json", str(report),
                                   "--only", "softhca-connections", "requests"],
                                  text=True, capture_output=True, check=False, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
            return done.stdout, json.loads(report.read_text(encoding="utf-8"))

    def test_Peer_StandsBesideTheOwnPluginInEveryRow(self):
        text, report = self.run_all(f"same={BUILD}/lib/libnccl-net-gdr.so:12", 0)
        self.assertEqual((list(report["parts"]), report["failures"]), (["softhca-connections", "requests"], {}))
        figures = [figure for part in report["parts"].values() for figure in part]
        titles = [figure["title"] for figure in figures]
        for title in ("resident memory, open, 100 connections", "set-up, 100 connections",
                      "tear-down, 100 connections", "poll of all in turn, 100 connections",
                      "requests a message, 8 B", "doorbells a message, 8 B", "completions a message, 8 B"):
            self.assertEqual(titles.count(title), 1, title)
        for figure in figures:
            self.assertGreater(figure["samples"]["own"][0], 0)
            self.assertEqual(sorted(figure["samples"]), ["own", "same"])
            self.assertRegex(text, rf"(?m)^\| \S+ +\| {figure['title']} .* same .* {'tie' if figure['exact'] else '[?]'}")

    def test_PeerThatCannotBeLoaded_IsTheReasonOfItsParts(self):
        text, report = self.run_all(f"peer={ALL}", 1)
        self.assertEqual(list(report["failures"]), ["softhca-connections", "requests"])
        self.assertRegex(text, r"ran IN PART: requests: exit status .*")
        self.assertIn("cannot load the plugin", text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
