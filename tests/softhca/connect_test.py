#!/usr/bin/env python3
"""Tests that the plugin connects where ports ask for what real fabrics ask for.

connect_test.py TOOL PLUGIN SOFTHCA_FOLDER [unittest arguments]

Two ranks, each with one of two software HCAs, which the configuration makes demanding. The software
HCA drops packets that a real fabric would drop, so that data that arrives is the proof.
"""

import json
import os
import socket
import subprocess
import sys
import unittest

TIMEOUT_S = 100
TOOL, PLUGIN, SOFTHCA = sys.argv[1:4]

# A path on which no packet arrives is reported after 2 x 8 us and not after half a minute.
SHORT_RETRIES = {"NCCL_IB_TIMEOUT": "1", "NCCL_IB_RETRY_CNT": "1"}


class Connect(unittest.TestCase):
    def ranks(self, first=None, second=None, faults=(), **settings):
        """(exit codes, outputs) of the rank on mlx5_0, a device with the fields `first`, and of the
        one on mlx5_1."""
        config = {"devices": [{"name": "mlx5_0"} | (first or {}), {"name": "mlx5_1"} | (second or {})],
                  "faults": list(faults), "fabric": f"connect-{os.getpid()}"}
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("NCCL_", "GDR_NCCL_"))}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            root = f"127.0.0.1:{probe.getsockname()[1]}"
        started = []
        for rank in range(2):
            env = kept | {"LD_LIBRARY_PATH": SOFTHCA, "SOFTHCA_CONFIG": json.dumps(config),
                          "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET",
                          "NCCL_SOCKET_IFNAME": "lo",
                          "NCCL_IB_HCA": f"=mlx5_{rank}"} | settings
            command = [TOOL, "perf", "sendrecv", "--plugin", PLUGIN, "--dev", "0", "--end", "8",
                       "--iters", "10", "--root", root, "--rank", str(rank)]
            started.append(subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT))
        outputs = [rank.communicate(timeout=TIMEOUT_S)[0] for rank in started]
        return [rank.returncode for rank in started], outputs

    def connect(self, first=None, second=None, faults=(), **settings):
        codes, outputs = self.ranks(first, second, faults, **settings)
        self.assertEqual(codes, [0, 0], "\n".join(outputs))
        return "\n".join(outputs)

    def fail_to_connect(self, first=None, second=None, faults=(), **settings):
        codes, outputs = self.ranks(first, second, faults, **settings)
        self.assertNotIn(0, codes, "\n".join(outputs))
        return "\n".join(outputs)

    def late_neighbours(self, count, state="RTR"):
        return [{"kind": "modify_qp_refused", "device": "mlx5_0", "count": count, "to": state}]

    def test_neighbours_are_resolved_late_all_connect(self):
        for state in ("INIT", "RTR", "RTS"):
            with self.subTest(state=state):
                output = self.connect(faults=self.late_neighbours(5, state),
                                      NCCL_IB_MQP_RETRY_SLEEP_MSEC="2")
                self.assertIn(f"to {state} failed with errno 110", output)
                self.assertRegex(output, rf"to {state} succeeded at attempt \d")

    def test_neighbours_are_never_resolved_error_counts_the_attempts(self):
        output = self.fail_to_connect({"link_layer": "Ethernet"}, {"link_layer": "Ethernet"},
                                      self.late_neighbours(0), NCCL_IB_MQP_RETRY_CNT="3",
                                      NCCL_IB_MQP_RETRY_SLEEP_MSEC="2")
        self.assertIn("to RTR failed 4 times in", output)
        self.assertIn("could not be resolved by ARP or neighbour discovery", output)

    def test_other_error_is_tried_again_if_all_are(self):
        refused = [fault | {"errno": 113} for fault in self.late_neighbours(2)]
        self.fail_to_connect(faults=refused)
        self.connect(faults=refused, NCCL_IB_MQP_RETRY_ALL="1", NCCL_IB_MQP_RETRY_SLEEP_MSEC="2")

    def test_port_requires_a_grh(self):
        for required in (True, "checked"):
            for ends in (({"grh_required": required}, {}), ({}, {"grh_required": required}),
                         ({"grh_required": required}, {"grh_required": required})):
                with self.subTest(ends=ends):
                    self.connect(*ends)

    def test_other_subnet_is_reached_by_flid(self):
        subnets = ({"subnet_prefix": "fec0000000000001", "flid": 4097},
                   {"subnet_prefix": "fec0000000000002", "flid": 4098})
        output = self.connect(*subnets)
        self.assertIn("flid 4097", output)
        self.assertIn("flid 4098", output)
        self.assertNotIn("different InfiniBand subnets", output)
        output = self.fail_to_connect(*subnets, NCCL_IB_ROUTABLE_FLID_GID_INDEX="0", **SHORT_RETRIES)
        self.assertIn("are in different InfiniBand subnets, and the peer's GID", output)

    def test_ece_options_of_both_ends_are_agreed_on(self):
        ece = ({"ece": {"vendor_id": "2c9", "options": "33"}},
               {"ece": {"vendor_id": "2c9", "options": "e1"}})
        self.assertIn(", ECE vendor 0x2c9 options 0x21 on 1 QP(s)", self.connect(*ece))
        self.assertIn(", ECE vendor 0x2c9 options 0x21 on 4 QP(s)",
                      self.connect(*ece, NCCL_IB_QPS_PER_CONNECTION="4"))
        self.assertNotIn(", ECE ", self.connect(*ece, NCCL_IB_ECE_ENABLE="0"))

    def test_ece_at_one_end_is_not_used(self):
        ece = {"ece": {"vendor_id": "2c9", "options": "33"}}
        for ends in ((ece, {}), ({}, ece), (ece, {"ece": {"vendor_id": "14e4", "options": "33"}})):
            with self.subTest(ends=ends):
                self.assertNotIn(", ECE ", self.connect(*ends))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
