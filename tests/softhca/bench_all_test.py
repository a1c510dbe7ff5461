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
    def run_all(self, folder, *words):
        """(what it printed, what --json has); a missed target of a short run on a busy machine is no failure."""
        plugin = BUILD / "lib" / "libnccl-net-gdr.so"
        report = pathlib.Path(folder) / "all.json"
        done = subprocess.run([str(ALL), "--build", str(BUILD), "--peer", f"same={plugin}:12", "--quick",
                               "--json", str(report), "--keep", f"{folder}/kept", *words],
                              text=True, capture_output=True, check=False, timeout=300)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout, json.loads(report.read_text(encoding="utf-8"))

    def test_Peer_StandsBesideTheOwnPluginInEveryRow(self):
        with tempfile.TemporaryDirectory() as folder:
            text, report = self.run_all(folder, "--only", "softhca-connections", "requests")
            kept = sorted(file.name for file in pathlib.Path(folder, "kept").iterdir())
        self.assertEqual(kept, [*(f"requests-{run}.json" for run in (1, 2, 3, 4)), "requests.txt",
                                "softhca-connections-1.json", "softhca-connections.txt"])
        self.assertEqual([(part["name"], part["ran"]) for part in report["parts"]],
                         [("softhca-connections", True), ("requests", True)])
        self.assertIn("2 of 2 parts ran, 0 in part, 0 not", text)
        whats = [row["what"] for row in report["rows"]]
        for what in ("resident memory, open, 100 connections", "set-up, 100 connections",
                     "tear-down, 100 connections", "poll of all in turn, 100 connections",
                     "requests a message, 8 B", "doorbells a message, 8 B", "completions a message, 8 B"):
            self.assertEqual(whats.count(what), 1, what)
        for row in report["rows"]:
            with self.subTest(what=row["what"]):
                self.assertEqual(row["other"], "same")
                self.assertGreater(row["own"], 0)
                self.assertAlmostEqual(row["ratio"]["median"], row["own"] / row["theirs"])  # of one round
                self.assertRegex(text, rf"(?m)^  {row['what']} .* same .* {row['verdict'].rstrip('?')}")
        self.assertRegex(text, r"(?m)^  resident memory, open, 100 connections .* own <= 188: (met|MISSED)$")


    def test_UnusablePeer_IsRefusedBeforeAnyPart(self):
        plugin = BUILD / "lib" / "libnccl-net-reference-old.so"
        for peer, reason in ((ALL, "cannot load the plugin"), (f"{plugin}:12", "exports no ncclNetPlugin_v12"),
                             (f"{plugin}:99", "is no version")):
            done = subprocess.run([str(ALL), "--build", str(BUILD), "--peer", f"peer={peer}"], text=True,
                                  capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertRegex(done.stderr, rf"all: error: peer=.*: .*{reason}")
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
