#!/usr/bin/env python3
"""Tests of the counters that the plugin writes for Prometheus, over software HCAs.

stats_test.py TOOL PLUGIN SOFTHCA_FOLDER [unittest arguments]
"""

import collections
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from over_softhca import environment

TIMEOUT_S = 60
TOOL, PLUGIN, SOFTHCA = sys.argv[1:4]
SERIES = re.compile(r'(nccl_gdr_\w+)\{((?:\w+="[^"]*",?)+)\} (\d+)')
SIZE = 1001  # no multiple of anything


def read_series(folder):
    """[(metric, {label: value}, number)] of all files that a collector would read."""
    found = []
    for name in sorted(glob.glob(f"{folder}/*.prom")):
        for line in pathlib.Path(name).read_text(encoding="ascii").splitlines():
            match = SERIES.fullmatch(line)
            if match:
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
                found.append((match[1], labels, int(match[3])))
            elif not line.startswith("# "):
                raise ValueError(f"{name}: {line}")
    return found


class Stats(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(f"{self.folder}/stats")

    def environment(self, faults=(), folder="stats", **settings):
        config = {"devices": [{"name": "mlx5_0"}, {"name": "mlx5_1"}], "faults": list(faults)}
        if folder is not None:
            settings["GDR_NCCL_STATS_DIR"] = f"{self.folder}/{folder}"
        return environment([SOFTHCA], config, NCCL_SOCKET_IFNAME="lo", **settings)

    def run_perf(self, iterations=10, **options):
        command = [TOOL, "perf", "sendrecv", "--plugin", PLUGIN, "--dev", "0", "--begin", str(SIZE),
                   "--end", str(SIZE), "--iters", str(iterations)]
        done = subprocess.run(command, env=self.environment(**options), text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def start_all_reduce(self, **options):
        self.until = f"{self.folder}/until"
        command = [TOOL, "perf", "all_reduce", "--ranks", "2", "--plugin", PLUGIN, "--dev", "0",
                   "--begin", "64K", "--end", "64K", "--until", self.until]
        with open(f"{self.folder}/output", "w", encoding="utf-8") as output:
            return subprocess.Popen(command, env=self.environment(**options), stdout=output,
                                    stderr=subprocess.STDOUT)

    def end(self, process):
        pathlib.Path(self.until).touch()
        process.wait(timeout=TIMEOUT_S)
        output = pathlib.Path(f"{self.folder}/output").read_text(encoding="utf-8")
        self.assertEqual(process.returncode, 0, output)
        return output

    def sums(self, metric, *labels):
        """The sums of a metric over everything but these labels."""
        sums = collections.Counter()
        for name, of_series, value in read_series(f"{self.folder}/stats"):
            if name == metric:
                sums[tuple(of_series[label] for label in labels)] += value
        return sums

    def sent_in(self, iterations, **settings):
        self.run_perf(iterations, **settings)
        sent = self.sums("nccl_gdr_bytes_total", "process", "direction")
        messages = self.sums("nccl_gdr_messages_total", "process", "direction")
        first, second = sorted({process for process, _ in sent})
        self.assertEqual(sent[(first, "sent")], sent[(second, "received")])
        self.assertEqual(sent[(second, "sent")], sent[(first, "received")])
        for key, count in messages.items():
            self.assertEqual(sent[key], SIZE * count, key)
        return sent[(first, "sent")] + sent[(second, "sent")]

    # Each iteration sends one message in the measurement of bandwidth, two in that of the bandwidth's
    # peak and of latency; what else is sent does not depend on their number.
    def check_bytes(self, **settings):
        ten, thirty, fifty = (self.sent_in(count, **settings) for count in (10, 30, 50))
        self.assertGreater(thirty - ten, 0)
        self.assertEqual((thirty - ten) % (20 * SIZE), 0)
        self.assertEqual(fifty - thirty, thirty - ten)

    def test_bytes_are_those_that_were_sent_over_one_rail(self):
        self.check_bytes(GDR_NCCL_FAILOVER="0")

    def test_bytes_are_those_that_were_sent_with_a_standby_rail(self):
        self.check_bytes()

    def test_data_is_counted_where_it_went(self):
        self.run_perf()
        sent = self.sums("nccl_gdr_bytes_total", "device", "port")
        self.assertGreater(sent[("mlx5_0", "1")], 0)
        self.assertEqual(sent[("mlx5_1", "1")], 0)
        self.assertGreater(self.sums("nccl_gdr_registrations_total", "path")[("host",)], 0)
        self.assertEqual(self.sums("nccl_gdr_connections")[()], 0)
        self.assertEqual(self.sums("nccl_gdr_failed_connections_total")[()], 0)

    def test_rail_that_dies_counts_recoveries(self):
        self.run_perf(200, faults=[{"kind": "port_down", "device": "mlx5_0", "after_bytes": 20 * SIZE}],
                      NCCL_IB_TIMEOUT="8")
        recoveries = self.sums("nccl_gdr_recoveries_total", "device")
        self.assertGreaterEqual(recoveries[("mlx5_0",)], 1)
        self.assertEqual(recoveries[("mlx5_1",)], 0)
        self.assertGreater(self.sums("nccl_gdr_bytes_total", "device")[("mlx5_1",)], 0)

    def test_file_is_rewritten_while_the_job_runs_and_ends_with_the_last_numbers(self):
        process = self.start_all_reduce()
        try:
            self.wait_for(lambda: self.sums("nccl_gdr_connections")[()] > 0)
            self.assertEqual(self.threads_of_ranks(process).count("gdr-stats"), 2)
        finally:
            output = self.end(process)
        self.assertEqual(self.sums("nccl_gdr_connections")[()], 0, output)
        self.assertIn(f"counters are written to {self.folder}/stats/nccl_gdr_", output)

    def wait_for(self, ready):
        limit = time.monotonic() + 40  # more than the interval of 10 s
        while not ready():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.05)

    def threads_of_ranks(self, process):
        """The names of the threads of a process and of its children."""
        names = []
        for status in glob.glob("/proc/[0-9]*/task/*/status"):
            try:
                text = pathlib.Path(status).read_text(encoding="utf-8", errors="replace")
                group = pathlib.Path(status).parents[2] / "stat"
                parent = int(group.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if process.pid in (parent, int(pathlib.Path(status).parents[2].name)):
                names.append(re.search(r"Name:\s*(.*)", text)[1])
        return names

    def test_without_the_variable_no_file_and_no_thread(self):
        process = self.start_all_reduce(folder=None)
        try:
            self.wait_for(lambda: self.threads_of_ranks(process).count("gdr-watcher") == 2)
            time.sleep(0.5)  # it would be started right after
            self.assertNotIn("gdr-stats", self.threads_of_ranks(process))
        finally:
            self.end(process)
        self.assertEqual(glob.glob(f"{self.folder}/stats/*") + glob.glob(f"{self.folder}/stats/.n*"), [])

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)

