#!/usr/bin/env python3
"""What a message asks of the HCA: the plugin's counts against the table, and the page against both.

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
BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
BUILD = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(BENCH))

import wire_cases
import wire_model
import wire_page
from wire_model import End, Request

# Of those that `wire_cost` runs by hand, what differs in kind; the others differ in size.
MEASURED = ("8 B, one at a time", "8 B", "64 KiB", "64 KiB, 8 grouped", "64 KiB, adaptive routing",
            "64 KiB, 4 QPs, split", "8 B, GPU", "64 KiB, standby rail",
            "64 KiB, 8 grouped, standby rail")


class Table(unittest.TestCase):
    def test_counts_of_the_plugin_are_those_of_the_table(self):
        """After a change of the data path: tests/bench/wire_cost --update gdr, then --page."""
        words = [str(BENCH / "wire_cost"), "--build", str(BUILD), "--compare", "gdr"]
        for name in MEASURED:
            words += ["--case", name]
        done = subprocess.run(words, text=True, capture_output=True, check=False, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_counts_derived_from_nccl_are_those_measured(self):
        table = wire_page.read_table()
        for case in wire_cases.CASES.values():
            if not case.standby:
                found = wire_page.differences(case, wire_cases.builtin_ib(case),
                                              wire_page.ends_of(table, "nccl-ib", case))
                self.assertEqual(found, [])

    def test_page_is_made_from_the_table(self):
        """Otherwise: tests/bench/wire_cost --page."""
        page = wire_page.PAGE.read_text(encoding="utf-8")
        self.assertEqual(wire_page.text_of_page(page, wire_page.read_table()), page)

    def test_a_count_that_differs_is_found(self):
        case = wire_cases.CASES["8 B"]
        write = Request("RDMA_WRITE", 8, True, True)
        one, other = End({write: 1}, doorbells=1), End({write: 2}, doorbells=1)
        self.assertEqual(len(wire_page.differences(case, (one, one), (one, one))), 0)
        self.assertEqual(len(wire_page.differences(case, (one, one), (one, other))), 1)


class Model(unittest.TestCase):
    """Figures that were worked out by hand."""

    def test_work_queue_entries(self):
        # Control, remote address and data segments; 4 + 64 bytes inline take five segments.
        self.assertEqual(wire_model.wqe_bytes(Request("RDMA_WRITE_WITH_IMM", 4096, False, True)), 48)
        self.assertEqual(wire_model.wqe_bytes(Request("RDMA_WRITE", 8, True, True)), 48)
        self.assertEqual(wire_model.wqe_bytes(Request("RDMA_WRITE", 64, True, True)), 112)
        self.assertEqual(wire_model.wqe_bytes(Request("RDMA_WRITE_WITH_IMM", 0, False, True)), 32)

    def test_packets(self):
        write = Request("RDMA_WRITE_WITH_IMM", 4097, False, True)
        self.assertEqual(wire_model.packets(write, 4096), 2)
        # Two packets with LRH, BTH, ICRC and VCRC; RETH and immediate once; padding to four bytes.
        self.assertEqual(wire_model.wire_bytes(write, 4096, "InfiniBand"), 2 * 26 + 16 + 4 + 4100)
        self.assertEqual(wire_model.wire_bytes(write, 4096, "RoCE v2"), 2 * 82 + 16 + 4 + 4100)
        flush = Request("RDMA_READ", 1, False, True)
        self.assertEqual(wire_model.packets(flush, 4096), 0)

    def test_a_list_of_requests_is_fetched(self):
        inline = Request("RDMA_WRITE_WITH_IMM", 8, True, True)
        alone = wire_model.bus(End({inline: 1}, doorbells=1))
        self.assertEqual((alone["cpu_write_bytes"], alone["hca_reads"]), (64, 0))
        listed = wire_model.bus(End({inline: 2}, doorbells=1))
        self.assertEqual((listed["cpu_write_bytes"], listed["hca_reads"], listed["hca_read_bytes"]),
                         (8, 1, 128))


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
        requests = wire_model.requests_of(file["devices"][0]["ports"][0] for file in files)
        writes = sum(count for request, count in requests.items()
                     if (request.opcode, request.bytes) == ("RDMA_WRITE", 4096))
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
        requests = wire_model.requests_of(file["devices"][0]["ports"][0] for file in files)
        for request, number in requests.items():
            count[request.opcode] += number
        self.assertGreaterEqual(count["RDMA_WRITE_WITH_IMM"], 2000, done.stdout)
        return count["RDMA_WRITE"] / count["RDMA_WRITE_WITH_IMM"]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
