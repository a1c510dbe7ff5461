#!/usr/bin/env python3
"""What the plugin must show on the kernel's own RDMA. Each test boots its own machines.

`cases.py --list` names the tests; `cases.py CLASS.test` runs one.
"""

import os
import re
import sys
import unittest

sys.dont_write_bytecode = True

from cluster import BUILD, Network, address, cluster, join, require  # noqa: E402
from kernel import Missing  # noqa: E402

_TOOL = BUILD / "bin" / "nccl-gdr"
_PLUGIN = f"--plugin {BUILD / 'lib' / 'libnccl-net-gdr.so'}"
_SKIPPED = 77  # CTest's SKIP_RETURN_CODE

# 4.096 us x 2^14 for each of 1 + 3 tries: 0.27 s until a lost peer is an error. rxe may take a
# few times as long; the bound leaves room for an emulated machine that is busy.
_IMPATIENT = "export NCCL_IB_TIMEOUT=14 NCCL_IB_RETRY_CNT=3 NCCL_DEBUG=WARN"
_ERROR_BOUND_S = 40


def perf(test, *arguments):
    return " ".join([str(_TOOL), "perf", test, _PLUGIN, *arguments, "2>&1"])


def start_ranks(machines, ranks, test, *arguments, before="true"):
    """The ranks in turn on the machines, in one run."""
    root = f"--root {address(0, 0)}:7000 --ranks {ranks}"
    return [machines[rank % len(machines)].start(
        f"{before}\n{perf(test, root, f'--rank {rank}', *arguments)}") for rank in range(ranks)]


class OneMachine(unittest.TestCase):
    def test_conformance_suite_passes(self):
        with cluster() as (a,):
            done = a.run(f"{_TOOL} check {_PLUGIN} --dev 0 2>&1", timeout=240)
            self.assertRegex(done.output, r"\b[1-9]\d* passed, 0 failed, 0 skipped")

    def test_devices_have_the_place_and_speed_of_their_netdev(self):
        with cluster(network=Network(nics=2)) as (a,):
            places = a.run("for i in 0 1; do readlink -f /sys/class/net/eth$i/device/..; done"
                           ).output.split()
            output = a.run(perf("sendrecv", "--dev 0 --end 8 --iters 10")).output
            for index, place in enumerate(places):
                self.assertRegex(output, rf"device +{index} rxe{index} pci {re.escape(place)} ")

    def test_gid_is_the_routable_one_of_the_family_asked_for(self):
        with cluster() as (a,):
            for settings, gid in (("", f"::ffff:{address(0, 0)} (RoCE v2"),
                                  ("NCCL_IB_ADDR_FAMILY=AF_INET6", f"{address(0, 0, 6)} (RoCE v2"),
                                  ("NCCL_IB_ADDR_RANGE=10.0.0.0/24",
                                   f"::ffff:{address(0, 0)} (RoCE v2")):
                output = a.run(f"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET {settings}\n" +
                               perf("sendrecv", "--dev 0 --end 8 --iters 10")).output
                self.assertIn(gid, output, settings)
                self.assertIn(" 0 wrong", output)

    def test_ipv6_alone_is_enough(self):
        with cluster(network=Network(ipv4=False)) as (a,):
            output = a.run("export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET NCCL_SOCKET_IFNAME=eth0\n" +
                           perf("sendrecv", "--dev 0 --end 64K --factor 8 --iters 10")).output
            self.assertIn(f"{address(0, 0, 6)} (RoCE v2", output)
            self.assertIn(" 0 wrong", output)


class TwoMachines(unittest.TestCase):
    def all_reduce(self, machines, *arguments, timeout=150):
        jobs = start_ranks(machines, 4, "all_reduce", "--rails 0,1 --iters 1 --warmup 1",
                           "--factor 8", *arguments)
        outputs = [outcome.output for outcome in join(jobs, timeout)]
        self.assertRegex(outputs[0], r"(?m)^# .*\b0 wrong")
        return outputs[0]

    def test_all_reduce_over_two_nics_each_is_right(self):
        with cluster(2, Network(nics=2)) as machines:
            output = self.all_reduce(machines, "--begin 8 --end 16M")
            self.assertRegex(output, r"(?m)^ *16777216 ")

    def test_all_reduce_with_jumbo_frames_is_right(self):
        with cluster(2, Network(nics=2, mtu=4200)) as machines:
            self.all_reduce(machines, "--begin 8 --end 2M")

    def test_all_reduce_is_right_with_loss_delay_and_reordering(self):
        with cluster(2, Network(nics=2)) as machines:
            for fault in ("loss 0.1%", "loss 1%", "delay 2ms", "delay 2ms reorder 5% 50%"):
                for machine in machines:
                    machine.run("for i in 0 1; do tc qdisc replace dev eth$i root netem "
                                f"{fault}; done")
                with self.subTest(fault):
                    self.all_reduce(machines, "--begin 8 --end 256K", timeout=100)

    def test_a_second_without_the_cable_only_delays(self):
        with cluster(2) as (a, b):
            jobs = start_ranks((a, b), 2, "sendrecv", "--test bw --begin 64K --end 64K",
                               "--iters 3000", before="export NCCL_IB_TIMEOUT=17")
            jobs[0].wait_for("BW peak", 30)
            a.run("tc qdisc replace dev eth0 root netem loss 100%; sleep 1; "
                  "tc qdisc del dev eth0 root")
            outputs = [outcome.output for outcome in join(jobs, 120)]
            self.assertIn(" 0 wrong", outputs[0])

    def expect_error(self, job):
        outcome = job.wait(_ERROR_BOUND_S, check=False)
        self.assertNotEqual(outcome.status, 0, outcome.output)
        self.assertIn("NCCL WARN NET/GDR", outcome.output)
        return outcome.output

    def start_stream(self, machines, *arguments):
        jobs = start_ranks(machines, 2, "sendrecv", "--test bw --begin 1M --end 1M",
                           "--iters 100000 --no-check", *arguments, before=_IMPATIENT)
        jobs[0].wait_for("BW peak", 30)
        return jobs

    def expect_both_ends_named(self, fault, status):
        """The fault is a command on the first machine, about eth1."""
        with cluster(2, Network(nics=2)) as machines:
            jobs = self.start_stream(machines, "--dev 1")
            machines[0].run(fault)
            output = self.expect_error(jobs[0]) + self.expect_error(jobs[1])
            for part in ("rxe1:1", address(0, 1), address(1, 1), status):
                self.assertIn(part, output)

    # The kernel takes the route away at once, and rxe then refuses the next request locally.
    def test_interface_down_names_both_ends_and_the_status(self):
        self.expect_both_ends_named("sleep 1; ip link set eth1 down", "LOC_QP_OP_ERR")

    def test_cable_gone_for_good_names_both_ends_and_the_status(self):
        self.expect_both_ends_named("tc qdisc replace dev eth1 root netem loss 100%",
                                    "RETRY_EXC_ERR")

    def test_killed_peer_is_an_error(self):
        with cluster(2) as machines:
            jobs = self.start_stream(machines)
            jobs[1].kill()
            self.assertIn("b rxe0:1", self.expect_error(jobs[0]))

    def test_stopped_peer_machine_is_an_error(self):
        with cluster(2) as machines:
            jobs = self.start_stream(machines)
            machines[1].power_off()
            self.assertIn("b rxe0:1", self.expect_error(jobs[0]))


def _names():
    suites = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    return [test.id().removeprefix("__main__.") for suite in suites for test in suite]


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(_names()))
        return 0
    try:
        require()
    except Missing as missing:
        print(f"cannot run: {missing}")
        return 1 if os.environ.get("CI") in ("1", "true") else _SKIPPED
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:] or _names(),
                                                          sys.modules["__main__"])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
