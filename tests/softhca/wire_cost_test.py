#!/usr/bin/env python3
"""What a message asks of the HCA: the plugin's counts against the table of docs/performance.md.

usage: wire_cost_test.py BUILD_FOLDER [TEST ...]
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from over_softhca import environment  # noqa: E402

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


class Counters(unittest.TestCase):
    """The files of the software HCA."""

    def files_of(self, *words):
        """Those of a program; CONFIG among its words is replaced by the configuration."""
        with tempfile.TemporaryDirectory() as folder:
            env = environment([BUILD / "softhca"], {"counters_file": f"{folder}/%p.json"}, NCCL_SOCKET_IFNAME="lo")
            words = [env["SOFTHCA_CONFIG"] if word == "CONFIG" else str(word) for word in words]
            done = subprocess.run(words, env=env, text=True, capture_output=True, check=False, timeout=200)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("*.json")]

    def requests_of(self, files):
        """How many there are of each (opcode, bytes) at the first ports."""
        count = collections.Counter()
        for file in files:
            for shape in file["devices"][0]["ports"][0]["requests"]:
                count[(shape["opcode"], shape["bytes"])] += shape["count"]
        return count

    def test_bytes_of_perftest(self):
        files = self.files_of(sys.executable, pathlib.Path(__file__).with_name("run_program.py"), "--softhca",
                              BUILD / "softhca", "--expect", "1000", "--pair", "--config", "CONFIG", "--",
                              "ib_write_bw", "-F", "-n", "1000", "-s", "4096", "-d", "softhca0", "-Q", "1")
        self.assertEqual(len(files), 2)
        self.assertGreaterEqual(self.requests_of(files)[("RDMA_WRITE", 4096)], 1000)
        self.assertEqual(sum(file["devices"][0]["ports"][0]["error_completions"] for file in files), 0)

    def test_ping_pong_with_one_receive_writes_a_clear_to_send_for_each_message(self):
        for depth, least, most in (("1", 0.99, 1.01), ("8", 0.1, 0.6)):
            with self.subTest(depth=depth):
                count = collections.Counter()
                for (opcode, _), number in self.requests_of(self.files_of(
                        BUILD / "bin/nccl-gdr", "perf", "sendrecv", "--test", "lat", "--begin", "8", "--end", "8",
                        "--dev", "0", "--iters", "1000", "--depth", depth, "--plugin",
                        BUILD / "lib/libnccl-net-gdr.so")).items():
                    count[opcode] += number
                self.assertGreaterEqual(count["RDMA_WRITE_WITH_IMM"], 2000)
                self.assertTrue(least <= count["RDMA_WRITE"] / count["RDMA_WRITE_WITH_IMM"] <= most)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
