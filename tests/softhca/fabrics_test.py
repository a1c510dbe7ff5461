#!/usr/bin/env python3
"""Tests of the plugin over software HCAs that behave as real fabrics do.

fabrics_test.py TOOL PLUGIN SOFTHCA_FOLDER [unittest arguments]
"""

import re
import subprocess
import sys
import unittest

from over_softhca import environment, free_address

TIMEOUT_S = 120
TOOL, PLUGIN, SOFTHCA = sys.argv[1:4]


def fault(kind, device="mlx5_0", **fields):
    return {"kind": kind, "device": device} | fields


def required(device, options):
    """The device, whose QPs reach no peer unless they use these ECE options."""
    return device | {"ece": device["ece"] | {"required": options}}


class Fabric(unittest.TestCase):
    def start(self, arguments, devices, faults=(), **settings):
        env = environment([SOFTHCA], {"devices": devices, "faults": list(faults)},
                          NCCL_DEBUG_SUBSYS="INIT,NET", **settings)
        return subprocess.Popen([TOOL, *arguments], env=env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def finish(self, processes, succeeds=True):
        outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
        text = "\n".join(outputs)
        failed = any(process.returncode != 0 for process in processes)
        self.assertEqual(failed, not succeeds, text)
        return text

    PERF = ("perf", "sendrecv", "--plugin", PLUGIN, "--dev", "0", "--end", "1M", "--iters", "20",
            "--check")

    def perf(self, *devices, faults=(), succeeds=True, **settings):
        """Two ranks on the first device, whose data is verified."""
        process = self.start(self.PERF, devices, faults, **settings)
        return self.finish([process], succeeds)

    def perf_between(self, first, second, succeeds=True, **settings):
        """Two ranks, each with one device of its own."""
        root = free_address()
        ranks = [self.start([*self.PERF, "--root", root, "--rank", str(rank)], [device],
                            **settings) for rank, device in enumerate((first, second))]
        return self.finish(ranks, succeeds)

    def conformance(self, cases, *devices, faults=(), **settings):
        output = self.finish([self.start(("conformance", "--plugin", PLUGIN, "--filter", cases),
                                         devices, faults, **settings)])
        self.assertRegex(output, "C[0-9]+")
        return output


class LateNeighbour(Fabric):
    ROCE = {"name": "mlx5_0", "link_layer": "Ethernet"}

    def test_few_refused_calls_connect(self):
        for state in ("INIT", "RTR", "RTS"):
            with self.subTest(state=state):
                output = self.perf(self.ROCE, faults=[fault("modify_qp_refused", count=3, to=state)],
                                   NCCL_IB_MQP_RETRY_SLEEP_MSEC="1")
                self.assertIn(f"to {state} failed with errno 110", output)
                self.assertRegex(output, rf"to {state} succeeded at attempt \d")

    def test_more_refused_calls_than_retries_are_an_error(self):
        output = self.perf(self.ROCE, faults=[fault("modify_qp_refused", count=0)], succeeds=False,
                           NCCL_IB_MQP_RETRY_CNT="2", NCCL_IB_MQP_RETRY_SLEEP_MSEC="1")
        self.assertRegex(output, r"WARN .*mlx5_0:1 to RTR failed 3 times: .*could not be resolved by ARP")

    def test_other_errors_are_retried_on_demand(self):
        refused = [fault("modify_qp_refused", errno=16, count=0)]  # one may be that of a flush
        self.assertIn("errno 16", self.perf(self.ROCE, faults=refused, succeeds=False))
        refused[0]["count"] = 1
        self.perf(self.ROCE, faults=refused, NCCL_IB_MQP_RETRY_ALL="1",
                  NCCL_IB_MQP_RETRY_SLEEP_MSEC="1")

    def test_many_connections_at_once_connect(self):
        self.conformance("C1[1-5]*", self.ROCE, faults=[fault("modify_qp_refused", count=20)],
                         NCCL_IB_MQP_RETRY_SLEEP_MSEC="1")


class Grh(Fabric):
    def test_ports_that_require_it_connect(self):
        for rule in (True, "checked"):
            requires = {"grh_required": rule}
            for first, second in ((requires, {}), ({}, requires), (requires, requires)):
                with self.subTest(first=first, second=second):
                    self.perf_between({"name": "mlx5_0", "guid": "a0", "lid": 5} | first,
                                      {"name": "mlx5_1", "guid": "b0", "lid": 6} | second)

    def test_conformance(self):
        self.conformance("C[12]*", {"name": "mlx5_0", "grh_required": "checked"})


class Subnets(Fabric):
    FIRST = {"name": "mlx5_0", "guid": "a0", "lid": 5, "subnet_prefix": "fec0000000000001",
             "flid": 4097}
    SECOND = {"name": "mlx5_1", "guid": "b0", "lid": 5, "subnet_prefix": "fec0000000000002",
              "flid": 4098}

    def test_flids_route_between_subnets(self):
        output = self.perf_between(self.FIRST, self.SECOND)
        self.assertIn("flid 4097", output)
        self.assertIn("flid 4098", output)
        self.assertNotIn("different InfiniBand subnets", output)

    def test_index_without_a_flid_is_an_error_that_names_the_subnets(self):
        # A path on which no packet arrives is reported after 2 x 8 us and not after half a minute.
        output = self.perf_between(self.FIRST, self.SECOND, succeeds=False,
                                   NCCL_IB_ROUTABLE_FLID_GID_INDEX="0", NCCL_IB_TIMEOUT="1",
                                   NCCL_IB_RETRY_CNT="1")
        self.assertIn("are in different InfiniBand subnets, and the peer's GID", output)

    def test_flids_within_a_subnet_are_not_used(self):
        self.perf_between(self.FIRST, self.SECOND | {"subnet_prefix": "fec0000000000001", "lid": 6})

    def test_subnets_with_grh_required_connect(self):
        self.perf_between(self.FIRST | {"grh_required": True}, self.SECOND)

    def test_subnets_of_one_machine_connect(self):
        """Each rank has a port in both subnets, and uses the one of its own rail."""
        self.perf(self.FIRST, self.SECOND | {"lid": 6})


class Ece(Fabric):
    FULL = {"name": "mlx5_0", "guid": "a0", "lid": 5,
            "ece": {"vendor_id": "2c9", "options": "10000033"}}
    LESS = {"name": "mlx5_1", "guid": "b0", "lid": 6,
            "ece": {"vendor_id": "2c9", "options": "10000011"}}

    def test_ends_agree_on_the_common_options(self):
        full, less = required(self.FULL, "10000011"), required(self.LESS, "10000011")
        for ends in ((full, less), (less, full)):
            for qps in ("1", "4"):
                with self.subTest(ends=ends, qps=qps):
                    output = self.perf_between(*ends, NCCL_IB_QPS_PER_CONNECTION=qps)
                    self.assertIn(", ECE vendor 0x2c9 options 0x10000011", output)

    def test_end_without_it_or_of_another_vendor_connects(self):
        none = {"name": "mlx5_1", "guid": "b0", "lid": 6}
        other = {"name": "bnxt_re0", "guid": "b0", "lid": 6,
                 "ece": {"vendor_id": "14e4", "options": "1"}}
        for ends in ((self.FULL, none), (none, self.FULL), (self.FULL, other), (other, self.FULL)):
            with self.subTest(ends=ends):
                self.assertNotIn(", ECE ", self.perf_between(*ends))

    def test_it_can_be_switched_off(self):
        self.assertNotIn(", ECE ", self.perf(self.FULL, NCCL_IB_ECE_ENABLE="0"))

    def test_conformance(self):
        self.conformance("C1*", required(self.FULL, "10000033"))


class Speed(Fabric):
    def test_unknown_speed_is_warned_about(self):
        output = self.perf({"name": "mlx5_0", "port_speed_gbps": 0, "speed_gbps": 0})
        self.assertRegex(output, r"WARN NET/GDR \[port-speed\] : .*mlx5_0:1.* the speed of the port is unknown; "
                                 r"NCCL is given \d+ Gb/s.*Fix: update rdma-core")
        assumed = int(re.search(r"NCCL is given (\d+) Gb/s", output)[1])
        self.assertRegex(output, rf"device +0 mlx5_0 .* speed {assumed * 1000} Mb/s")


class SmallMessages(Fabric):
    def test_messages_longer_than_max_msg_sz_arrive(self):
        self.perf({"name": "mlx5_0", "max_msg_sz": 131072})

    def test_ends_that_differ_connect(self):
        large = {"name": "mlx5_0", "guid": "a0", "lid": 5}
        small = {"name": "mlx5_1", "guid": "b0", "lid": 6, "max_msg_sz": 131072}
        self.perf_between(large, small)
        self.perf_between(small, large)

    def test_conformance(self):
        self.conformance("C2*", {"name": "mlx5_0", "max_msg_sz": 131072})


class GidChange(Fabric):
    def test_connections_after_the_change_use_the_new_entry(self):
        """The address moves from entry 3 to entry 5 while the process runs."""
        roce = {"name": "mlx5_0", "link_layer": "Ethernet", "gids": ["::ffff:10.0.0.1"]}
        moves = [fault("gid_change", gid_index=3, after_ops=100),
                 fault("gid_change", gid_index=2, after_ops=100),
                 fault("gid_change", gid_index=5, gid="::ffff:10.0.0.1", after_ops=100)]
        self.conformance("C[12]*", roce, faults=moves)

    def test_connections_before_the_change_go_on(self):
        for device, gids in (({"link_layer": "Ethernet", "gids": ["::ffff:10.0.0.1"]}, (2, 3)),
                             ({"grh_required": True}, (0,))):
            with self.subTest(device=device):
                removed = [fault("gid_change", gid_index=index, after_ops=10) for index in gids]
                self.perf({"name": "mlx5_0"} | device, faults=removed)


class LostAcknowledgement(Fabric):
    def test_it_ends_the_job_with_the_reason(self):
        output = self.perf({"name": "mlx5_0"}, faults=[fault("ack_lost", after_ops=100)],
                           succeeds=False, NCCL_IB_TIMEOUT="8")
        self.assertIn("RETRY_EXC_ERR", output)

    def test_late_one_changes_nothing(self):
        self.perf({"name": "mlx5_0"}, faults=[fault("ack_lost", after_ops=20, count=3,
                                                    late_us=20000)])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
