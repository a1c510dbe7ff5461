"""What the tests in guests share: machines for all tests of a class, and the programs that run there."""

import pathlib
import re
import time
import unittest

from cluster import BUILD, Cluster, Network, address, join
from hardware import Hardware

TOOL = BUILD / "bin" / "nccl-gdr"
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config"
_PLUGIN = f"--plugin {BUILD / 'lib' / 'libnccl-net-gdr.so'}"

# 4.096 us x 2^14 for each of 1 + 3 attempts: 0.27 s until a lost peer is an error. rxe may take several
# times as long, and TCP detects a peer that only closed its socket in 30 s at worst; the bound leaves
# room for a busy emulated machine.
IMPATIENT = "export NCCL_IB_TIMEOUT=14 NCCL_IB_RETRY_CNT=3 NCCL_DEBUG=WARN"
ERROR_BOUND_S = 40

# For what takes seconds, on a busy emulated machine.
PATIENCE_S = 60

# Whenever the last packet of a burst is lost, rxe waits for NCCL_IB_TIMEOUT, here 0.13 s.
QUICK_RETRY = "export NCCL_IB_TIMEOUT=15 NCCL_DEBUG=WARN"

# What the RDMA device of a number has sent.
PACKETS = "/sys/class/infiniband/rxe{}/ports/1/hw_counters/sent_pkts"

# Fewer packets in flight than rxe's limit: rxe_deviations.md, "retries".
FEW_PACKETS = "--depth 2 --slice 64K"


def perf(test, *arguments):
    return " ".join([str(TOOL), "perf", test, _PLUGIN, *arguments, "2>&1"])


def conformance(*arguments):
    return " ".join([str(TOOL), "conformance", _PLUGIN, *arguments, "2>&1"])


def netem(nic, fault):
    return f"tc qdisc replace dev eth{nic} root netem {fault}"


def no_netem(nic):
    return f"tc qdisc del dev eth{nic} root"


class Case(unittest.TestCase):
    """Machines for all tests of a class, in order of its tests' names."""
    count = 1
    network = Network()
    hardware = Hardware()
    root_nic = 0  # of the first machine, for the ranks' own sockets

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.count, cls.network, cls.hardware)
        cls.machines = cls.enterClassContext(cls.cluster)

    def run(self, result=None):
        before, started = len(result.failures) + len(result.errors), time.monotonic()
        super().run(result)
        print(f"{self.id().split('.', 1)[1]}: {time.monotonic() - started:.1f} s", flush=True)
        if len(result.failures) + len(result.errors) > before:
            self.cluster.failed = True

    def setUp(self):
        self.addCleanup(lambda: [machine.kill_jobs() for machine in self.machines])

    def start_ranks(self, ranks, test, *arguments, before="true", port=7000):
        """Starts one run whose ranks alternate over the machines; returns their jobs. Runs at the same time
        need different ports."""
        root = f"--root {address(0, self.root_nic)}:{port} --ranks {ranks}"
        return [self.machines[rank % self.count].start(
            f"{before}\n{perf(test, root, f'--rank {rank}', *arguments)}")
                for rank in range(ranks)]

    def expect_all_passed(self, outcome, may_skip=()):
        """may_skip has the numbers of conformance cases, such as C60."""
        self.assertRegex(outcome.output, r"\b[1-9]\d* passed, 0 failed, \d+ skipped")
        skipped = set(re.findall(r"(?m)^skip +(C\d\d)", outcome.output))
        self.assertLessEqual(skipped, set(may_skip), outcome.output)

    def start_until_stopped(self, *arguments, before):
        """Starts an all-reduce of two ranks that verifies what it moves until stop(); returns its jobs
        once it has moved some."""
        jobs = self.start_ranks(2, "all_reduce", "--until /run/tmp/stop", *arguments,
                                before=f"rm -f /run/tmp/stop\n{before}")
        jobs[0].wait_for("float32", PATIENCE_S)
        return jobs

    def stop(self, jobs):
        """Ends such an all-reduce, which must have been right all the time; returns what it printed."""
        self.machines[0].run("touch /run/tmp/stop")
        outputs = [outcome.output for outcome in join(jobs, PATIENCE_S)]
        self.assertRegex(outputs[0], r"(?m)^# 2 ranks, \d+ rows: 0 wrong")
        return outputs

    def wait_until(self, what, holds, jobs):
        """Returns once holds() is true; fails if a job ends before, or after a minute."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline or not all(job.running() for job in jobs):
                self.fail("\n".join([f"not so: {what}", *(job.output() for job in jobs)]))
            time.sleep(0.05)

    def on_all(self, text, machines=None):
        for job in [machine.start(text) for machine in machines or self.machines]:
            job.wait()

    def wait_for_traffic(self, rail, machines=None):
        """Returns once all machines, or these, have sent 256 packets over the rail from now on."""
        count = PACKETS.format(rail)
        self.on_all(f"end=$(($(cat {count}) + 256))\nuntil [ $(cat {count}) -gt $end ]; do sleep 0.1; done",
                    machines)
