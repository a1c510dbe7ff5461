#!/usr/bin/env python3
"""What a message asks of the HCA: the plugin's counts against the table of docs/performance.md.

usage: wire_cost_test.py BUILD_FOLDER [TEST ...]
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1])

# Of those that `wire_cost` runs by hand, what differs in kind; the others differ in size.
MEASURED = ("8 B, one at a time", "8 B", "64 KiB", "64 KiB, 8 grouped", "64 KiB, adaptive routing",
            "64 KiB, 4 QPs, split", "8 B, GPU", "64 KiB, standby rail",
            "64 KiB, 8 grouped, standby rail")


def compare(page, *cases):
    """wire_cost --compare with the table of a page."""
    words = [str(ROOT / "tests/bench/wire_cost"), "--build", str(BUILD), "--compare", str(page)]
    for name in cases:
        words += ["--case", name]
    return subprocess.run(words, text=True, capture_output=True, check=False, timeout=500)


class Table(unittest.TestCase):
    PAGE = ROOT / "docs/performance.md"

    def test_counts_of_the_plugin_are_those_of_the_page(self):
        done = compare(self.PAGE, *MEASURED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_count_that_differs_is_found(self):
        text = self.PAGE.read_text(encoding="utf-8")
        for name, changed in (("wrong", text.replace("| 8 B | 1 ", "| 8 B | 2 ")), ("missing", "")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                page = pathlib.Path(folder) / "page.md"
                page.write_text(changed, encoding="utf-8")
                done = compare(page, "8 B")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn("8 B: page.md has", done.stdout)


def shapes_of(files):
    """The requests of each file's first port."""
    return [shape for file in files for shape in file["devices"][0]["ports"][0]["requests"]]


class Counters(unittest.TestCase):
    """The file of the software HCA, with a program that is not ours."""

    def test_bytes_of_perftest(self):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "softhca"), SOFTHCA_CONFIG=json.dumps(
                {"fabric": f"counters-{os.getpid()}", "counters_file": f"{folder}/%p.json"}))
            script = str(pathlib.Path(__file__).with_name("run_program.py"))
            words = [sys.executable, script, "--softhca", str(BUILD / "softhca"), "--expect", "1000",
                     "--pair", "--config", env["SOFTHCA_CONFIG"], "--", "ib_write_bw", "-F", "-n", "1000",
                     "-s", "4096", "-d", "softhca0", "-Q", "1"]
            done = subprocess.run(words, env=env, text=True, capture_output=True, check=False, timeout=200)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            files = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("*.json")]
        self.assertEqual(len(files), 2)
        writes = sum(shape["count"] for shape in shapes_of(files)
                     if (shape["opcode"], shape["bytes"]) == ("RDMA_WRITE", 4096))
        self.assertGreaterEqual(writes, 1000)
        self.assertEqual(sum(file["devices"][0]["ports"][0]["error_completions"] for file in files), 0)

    def test_ping_pong_with_one_receive_writes_a_clear_to_send_for_each_message(self):
        for depth, least, most in (("1", 0.99, 1.01), ("8", 0.1, 0.6)):
            with self.subTest(depth=depth):
                self.assertTrue(least <= self.clear_to_sends_per_message(depth) <= most)

    def clear_to_sends_per_message(self, depth):
        """Of the latency test of nccl-gdr perf with that --depth."""
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "softhca"), NCCL_SOCKET_IFNAME="lo",
                       SOFTHCA_CONFIG=json.dumps({"fabric": f"counters-{os.getpid()}",
                                                  "counters_file": f"{folder}/%p.json"}))
            words = [str(BUILD / "bin/nccl-gdr"), "perf", "sendrecv", "--test", "lat", "--begin", "8", "--end",
                     "8", "--dev", "0", "--iters", "1000", "--depth", depth, "--plugin",
                     str(BUILD / "lib/libnccl-net-gdr.so")]
            done = subprocess.run(words, env=env, text=True, capture_output=True, check=False, timeout=200)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            files = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("*.json")]
        count = collections.Counter()
        for shape in shapes_of(files):
            count[shape["opcode"]] += shape["count"]
        self.assertGreaterEqual(count["RDMA_WRITE_WITH_IMM"], 2000, done.stdout)
        return count["RDMA_WRITE"] / count["RDMA_WRITE_WITH_IMM"]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
