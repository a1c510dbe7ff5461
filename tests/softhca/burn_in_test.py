#!/usr/bin/env python3
"""nccl-gdr-burn-in over software HCAs, which are as fast as the machine happens to be.

burn_in_test.py TOOL PLUGIN SOFTHCA_FOLDER FAKE_CUDA_FOLDER [unittest arguments]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from over_softhca import environment, free_address

TIMEOUT_S = 100
TOOL, PLUGIN, SOFTHCA, FAKE_CUDA = sys.argv[1:5]
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config"
PROGRAM = SCRIPTS / "nccl-gdr-burn-in"
TO_1, TO_0 = ("rail 0 softhca0:1 to rail 1 softhca1:1, host memory",
              "rail 1 softhca1:1 to rail 0 softhca0:1, host memory")


def descendants(process):
    """The children of a process, theirs, and so on."""
    try:
        listed = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:  # it has ended
        return []
    return listed + [one for child in listed for one in descendants(child)]


class BurnIn(unittest.TestCase):
    def start(self, *arguments, devices=({}, {}), faults=(), **variables):
        variables = {"NCCL_SOCKET_IFNAME": "lo", "GDR_TOOL": TOOL} | variables
        env = environment([SOFTHCA, pathlib.Path(PLUGIN).parent],
                          {"devices": list(devices), "faults": list(faults)}, **variables)
        return subprocess.Popen([sys.executable, "-B", PROGRAM, *arguments, "--json"], text=True, env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process, status):
        """{subject: result} of a run that has to end with that exit status."""
        output, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, status, output + errors)
        results = json.loads(output)["results"] if output else []
        return {result["subject"]: result for result in results}

    def expect_measured(self, result):
        """Its speed is no verdict about a software HCA."""
        self.assertEqual(result["verdict"], "unknown", result)
        self.assertGreater(result["gbits"], 0)
        self.assertGreater(result["latency_us"], 0)
        self.assertIn("device of software", result["text"])

    def test_local_measures_both_rails(self):
        found = self.end(self.start("local"), 3)
        self.assertEqual(list(found), [TO_1, TO_0])
        for result in found.values():
            self.expect_measured(result)

    def test_loopback_of_roce_leaves_out_the_rail_that_is_down(self):
        down = [{"kind": "port_down", "device": "softhca1"}]
        roce = [{"link_layer": "Ethernet"}] * 2
        found = self.end(self.start("loopback", devices=roce, faults=down), 1)
        self.expect_measured(found["rail 0 softhca0:1 to itself, host memory"])
        self.assertEqual(found["rail 1 softhca1:1"]["text"], "the port is down")
        self.assertEqual(len(found), 2)

    def test_remote_measures_the_rail_of_both_ends(self):
        root = free_address()
        first, second = [self.start("remote", "--root", root, devices=[{}],
                                    OMPI_COMM_WORLD_RANK=rank) for rank in "01"]
        found = self.end(first, 3)
        self.assertEqual(self.end(second, 3), {})
        self.expect_measured(found.pop("rail 0 softhca0:1 <-> softhca0:1, host memory"))
        self.assertEqual(found, {})

    # Rail 1 reaches neither of the two that reach each other, so that the fabric connects rails.
    def test_rail_that_reaches_no_other_one_fails_and_is_measured_by_itself(self):
        found = self.end(self.start("local", devices=[{}] * 3, faults=[
            {"kind": "modify_qp_refused", "device": "softhca1", "count": 0, "errno": 22}]), 1)
        failed = [subject for subject, one in found.items() if one["verdict"] == "failure"]
        self.assertEqual(failed, [TO_1, "rail 1 softhca1:1 to rail 2 softhca2:1, host memory",
                                  "rail 1 softhca1:1 to itself, host memory"])
        self.assertIn("none reaches rail 1 softhca1:1", found[TO_1]["text"])
        self.assertIn("rail 0 softhca0:1 to itself, host memory", found)

    # The standby rail of the connection would be measured in its place.
    def test_link_that_fails_under_load_is_a_failure(self):
        found = self.end(self.start("local", NCCL_IB_TIMEOUT="14", faults=[
            {"kind": "port_down", "device": "softhca1", "after_bytes": 1 << 24}]), 1)
        self.assertIn("the transfer failed: ", found[TO_1]["text"])
        self.assertIn("softhca1:1", found[TO_1]["text"])

    def test_killed_burn_in_takes_its_programs_along(self):
        process = self.start("loopback")
        programs = []
        # Both ranks, each of which is a process of a program that measures.
        while len(programs) < 4:
            self.assertIsNone(process.poll())
            programs = [one for one in descendants(process.pid) if "sendrecv" in self.words(one)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        deadline = time.monotonic() + TIMEOUT_S
        while any("sendrecv" in self.words(one) for one in programs):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_gpus_have_the_numbers_that_cuda_has_for_their_addresses(self):
        code = "from burn_in import rails; print(rails.cuda_numbers())"
        found = subprocess.check_output([sys.executable, "-B", "-c", code], cwd=SCRIPTS, text=True,
                                        env=os.environ | {"LD_LIBRARY_PATH": FAKE_CUDA})
        self.assertEqual(found, "{'0000:1a:00.0': 0, '0000:1b:00.0': 1}\n")

    def words(self, process):
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8")
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
