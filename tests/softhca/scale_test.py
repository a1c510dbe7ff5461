#!/usr/bin/env python3
"""The arithmetic of large jobs: NCCL's graphs, and what a connection costs in the file beside the program.

usage: scale_test.py BUILD_FOLDER [TEST ...]
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
BUILD = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(BENCH))

import channel_graph
from channel_graph import Cluster

LOADER = importlib.machinery.SourceFileLoader("scale", str(BENCH / "scale"))
scale = importlib.util.module_from_spec(importlib.util.spec_from_loader("scale", LOADER))
sys.modules["scale"] = scale
LOADER.exec_module(scale)


class Graph(unittest.TestCase):
    def test_trees_reach_every_node_and_have_two_children_at_most(self):
        for nodes in (2, 3, 5, 8, 13, 16, 100, 512):
            for tree in (0, 1):
                parents = [channel_graph.double_tree_parents(nodes, node)[tree] for node in range(nodes)]
                self.assertEqual(parents.count(None), 1, nodes)
                for node in range(nodes):
                    steps, at = 0, node
                    while parents[at] is not None:
                        at, steps = parents[at], steps + 1
                        self.assertLess(steps, 2 * nodes.bit_length(), (nodes, node))
                    self.assertLessEqual(parents.count(node), 2, (nodes, node))

    def test_tree_of_16_nodes_is_that_of_nccl(self):
        # The picture in src/graph/trees.cc of NCCL, for 14 nodes: 13 has its parent beyond the end.
        parents = [channel_graph.binary_tree_parent(14, node) for node in range(14)]
        self.assertEqual(parents, [None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12])

    def test_inner_nodes_of_one_tree_are_leaves_of_the_other(self):
        for nodes in (8, 16, 512):
            parents = [channel_graph.double_tree_parents(nodes, node) for node in range(nodes)]
            first = {pair[0] for pair in parents} - {None}
            second = {pair[1] for pair in parents} - {None}
            self.assertEqual(first & second, set(), nodes)

    def test_connections_of_rings(self):
        ends = channel_graph.rings(Cluster(nodes=4, gpus=8, channels=16))
        self.assertEqual((ends.most(), ends.of_node()), ((2, 2), (16, 16)))
        self.assertEqual(channel_graph.rings(Cluster(nodes=1)).most(), (0, 0))

    def test_pxn_divides_alltoall_by_the_gpus(self):
        cluster = Cluster(nodes=512)
        self.assertEqual(channel_graph.alltoall(cluster, True).most(), (511, 511))
        self.assertEqual(channel_graph.alltoall(cluster, False).most(), (511 * 8, 511 * 8))


class Costs(unittest.TestCase):
    def test_queues_of_mlx5(self):
        # 512 requests of 256 bytes, one receive of 16 bytes in a block of 64; 513 + 1 entries of 64 bytes.
        device = {"queue_pairs": [{"max_send_wr": 512, "max_recv_wr": 1, "max_send_sge": 1, "max_recv_sge": 1,
                                   "max_inline": 60, "count": 1}],
                  "completion_queues": [{"cqe": 513, "count": 1}]}
        self.assertEqual(scale.mlx5_queue_bytes(device), 512 * 256 + 64 + 1024 * 64)

    def test_several_queue_pairs_cost_what_was_measured(self):
        table = scale.read_measured()["gdr"]
        for words, setting in ((["--qps", "1"], "one rail"), (["--qps", "2"], "2 QPs"), (["--qps", "4"], "4 QPs")):
            cost = scale.cost_of(table, scale.parse_options(words))
            for name in ("queue_pairs", "mlx5_queue_kib", "registered_kib"):
                self.assertEqual(cost[name], (table[setting][name], 0), (words, name))

    def test_a_merged_device_has_the_queues_of_several_queue_pairs(self):
        # As the software HCA's counters show: at the sender 255 entries of 256 bytes and 255 completions of 64; at
        # the receiver 31 of 448 bytes (16 KiB), 384 receives of 16 (8), 32 flushes of 256 and 512 completions.
        ends, _ = scale.cost_of(scale.read_measured()["gdr"], scale.parse_options(["--ports", "2"]))["mlx5_queue_kib"]
        for end, kib in zip(ends, (2 * (64 + 16), 2 * (16 + 8 + 8 + 32))):
            self.assertAlmostEqual(end, kib, delta=1)

    def test_options_without_a_meaning_are_refused(self):
        for words in (["--nodes", "0"], ["--gpus", "0"], ["--qps", "-1"], ["--plugin-name", "unknown"]):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit) as ended:
                    scale.parse_options(words)
                self.assertEqual(ended.exception.code, 2)

    def test_a_connection_costs_no_more_than_the_file_says(self):
        """After a change of what a connection has: tests/bench/scale --measure, then --page."""
        expected = json.loads((BENCH / "scale_measured.json").read_text(encoding="utf-8"))["gdr"]
        found = scale.measure(scale.parse_options(["--build", str(BUILD)]))
        for setting, costs in found.items():
            for name in ("descriptors", "sockets", "lines", "warnings", "process_descriptors"):
                self.assertLessEqual(costs[name], expected[setting][name] + 0.01, (setting, name))
            for name in ("queue_pairs", "completion_queues", "mlx5_queue_kib", "registered_kib"):
                for one, limit in zip(costs[name], expected[setting][name]):
                    self.assertLessEqual(one, limit * 1.01, (setting, name))
            self.assertLessEqual(set(costs["threads"]), set(expected[setting]["threads"]), setting)

    def test_page_is_what_the_program_prints(self):
        """Otherwise: tests/bench/scale --page."""
        page = scale.PAGE.read_text(encoding="utf-8")
        self.assertEqual(scale.text_of_page(page), page)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
