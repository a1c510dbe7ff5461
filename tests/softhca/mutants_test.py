#!/usr/bin/env python3
"""That QPs which are connected wrongly, wrong registrations and wrong values on the wire are noticed over the
software HCA, as on an HCA.

mutants_test.py TOOL PLUGIN SOFTHCA_FOLDER FAKE_CUDA_FOLDER MUTANT_LIBRARY [unittest arguments]

The library is that of verbs_mutant.cc. Every run is made without a mutant, too, which has to pass.
"""

import os
import signal
import subprocess
import sys
import unittest

from over_softhca import environment

TIMEOUT_S = 120
TOOL, PLUGIN, SOFTHCA, FAKE_CUDA, MUTANT = sys.argv[1:6]

SIZES = ("conformance", "--plugin", PLUGIN, "--filter", "C20*")
GPU_MEMORY = ("perf", "sendrecv", "--plugin", PLUGIN, "--memory", "cuda", "--end", "64K", "--iters", "5",
              "--check", "--timeout", "5")
TWO_RAILS = ("perf", "sendrecv", "--plugin", PLUGIN, "--dev", "0", "--begin", "1M", "--end", "1M",
             "--test", "bw", "--check", "--timeout", "30")
FLAP = {"faults": [{"kind": "port_flap", "device": "softhca0", "after_ops": 200, "down_ms": 100}]}
USED_AGAIN = "softhca0:1: the rail is used again after"
GAVE_UP = "gave up waiting"
# The event of the refused QP may be noticed before a completion.
REFUSED = 'REM_INV_REQ_ERR|"QP request error"'
NO_ACCESS = 'REM_ACCESS_ERR|"QP access error"'
TWO_ADDRESSES = {"devices": [{"link_layer": "Ethernet", "gids": ["::ffff:10.0.0.1", "::ffff:10.0.0.2"]}]}
ACK_LOST = {"faults": [{"kind": "ack_lost", "device": "softhca0", "count": 1,
                        "at_request": {"opcode": "write_with_imm", "nth": 5}}]}


def start(command, mutant=None, config=None):
    env = environment([SOFTHCA, FAKE_CUDA], config or {}, NCCL_IBVERBS_LIB=MUTANT, NCCL_SOCKET_IFNAME="lo",
                      NCCL_IB_TIMEOUT="8", NCCL_IB_RETRY_CNT="1", **({"VERBS_MUTANT": mutant} if mutant else {}))
    return subprocess.Popen([TOOL, *command], env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True)


def output_of(process):
    """What it prints until it ends; it is killed with its ranks where it hangs."""
    try:
        return process.communicate(timeout=TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "killed, as it did not end: " + process.communicate()[0]


class Mutants(unittest.TestCase):
    def expect_success(self, command, config=None):
        process = start(command, config=config)
        output = output_of(process)
        self.assertEqual(process.returncode, 0, output)
        self.assertNotIn("verbs_mutant:", output)

    def expect_failure(self, command, mutant, *reasons, config=None):
        process = start(command, mutant, config)
        output = output_of(process)
        self.assertEqual(process.returncode, 1, output)  # not by a signal
        self.assertIn(f"verbs_mutant: {mutant} of ", output)
        for reason in reasons:
            self.assertRegex(output, reason)

    def expect_failures(self, mutants, config=None):
        for mutant, reason in mutants:
            with self.subTest(mutant=mutant):
                self.expect_failure((*SIZES, "--timeout", "2"), mutant, reason, config=config)
        self.expect_success(SIZES, config)

    def test_connected_wrongly(self):
        self.expect_failures((("psn:12345", GAVE_UP), ("psn:-12345", "RETRY_EXC_ERR"), ("mtu:0", REFUSED),
                              ("dest:1", "RETRY_EXC_ERR"), ("denies:0", REFUSED)))

    def test_wrong_gid(self):
        self.expect_failures((("gid:-1", "RETRY_EXC_ERR"), ("gid:2", "RETRY_EXC_ERR")), TWO_ADDRESSES)

    # The acknowledgement is lost, and the HCA waits for it without end.
    def test_no_time_out(self):
        self.expect_failures((("timeout:0", GAVE_UP),), ACK_LOST)

    def test_registered_wrongly(self):
        self.expect_failures((("half:0", f"LOC_PROT_ERR|{NO_ACCESS}"), ("local:0", NO_ACCESS),
                              ("other_rkey:0", NO_ACCESS), ("other_lkey:0", "LOC_PROT_ERR")))

    def test_wrong_values_in_requests(self):
        self.expect_failures((("rkey:1", NO_ACCESS), ("remote:64", "byte 0 of 1 is wrong"),
                              ("remote:4096", NO_ACCESS), ("length:-1", r"reported size 0 .* 1 bytes were sent"),
                              ("length:1", "more data arrived than the receive has room for"),
                              ("imm:1", "data arrived for a receive that is not posted"),
                              ("slot:64", GAVE_UP)))

    def test_flush_by_a_read(self):
        self.expect_failure(GPU_MEMORY, "rd:0", REFUSED)
        self.expect_success(GPU_MEMORY)

    def rail_returns(self, mutant=None):
        """Whether a lost rail returns, before one of its QPs was connected wrongly three times."""
        process = start((*TWO_RAILS, "--seconds", str(TIMEOUT_S)), mutant, FLAP)
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if USED_AGAIN in line:
                    return True
                if line.startswith("verbs_mutant: ") and lines.count(line) == 3:
                    return False
            raise AssertionError("".join(lines))
        finally:
            process.terminate()
            output_of(process)

    # The end that sends is ahead of what the other one expects, so that the probe is not answered.
    def test_rail_of_another_epoch_does_not_return(self):
        self.assertFalse(self.rail_returns("epoch:-1"))
        self.assertTrue(self.rail_returns())

    # It is behind: the probe is acknowledged as a repetition, and does not arrive. A difference of
    # one packet would be over with the probe.
    def test_rail_of_another_epoch_whose_probe_is_acknowledged_does_not_return(self):
        process = start((*TWO_RAILS, "--seconds", "5"), "epoch:100000", FLAP)
        output = output_of(process)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("verbs_mutant: epoch:100000 of ", output)
        self.assertNotIn(USED_AGAIN, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=2)
