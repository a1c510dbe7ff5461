"""The launchers over the software HCA: several ranks under a real Slurm and a real Open MPI.

CTest sets GDR_TOOL, GDR_PLUGIN_DIR and SOFTHCA_DIR to what was built.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import one_node_slurm

_LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config" / "launch"
_RANKS = 3
_JOB = ["--gpus", str(_RANKS), "--program", "perf_rank", "--preset", "one_host_softhca"]
_SIZES = ["--", "--begin", "1K", "--end", "64K", "--factor", "8", "--iters", "20"]


def environment(base):
    """`base` with what the launchers need here, and none of the caller's settings of NCCL."""
    kept = ("GDR_PLUGIN_DIR",)
    result = {name: value for name, value in base.items()
              if not name.startswith(("NCCL_", "GDR_NCCL_", "SLURM_JOB")) or name in kept}
    result.update(GDR_TOOL=os.environ["GDR_TOOL"], MASTER_PORT=str(one_node_slurm.free_ports(1)[0]))
    return result


class Launchers(unittest.TestCase):

    def assert_all_reduced(self, output):
        """Every rank took part, over the plugin and the software HCA, and all data was right."""
        self.assertIn(f"# {_RANKS} ranks, 3 sizes: 0 wrong", output)
        self.assertIn(f"# plugin GDR ({os.environ['GDR_PLUGIN_DIR']}/libnccl-net-gdr.so)", output)
        ranks = re.findall(r"^# rank +(\d) pid \d+ .* device \d softhca", output, re.MULTILINE)
        self.assertEqual(sorted(ranks), [str(rank) for rank in range(_RANKS)])

    def start(self, command, env, folder=None, output=None):
        """(exit status, what it and its job printed) of a command, whose job writes to `output`."""
        done = subprocess.run(command, env=environment(env), cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr + (output.read_text() if output and output.exists() else "")

    def test_Mpirun_OfSeveralRanks_ReducesOverTheSoftwareHca(self):
        if shutil.which("mpirun") is None:
            self.skipTest("mpirun is not installed (openmpi-bin)")
        status, text = self.start([str(_LAUNCH / "mpirun"), *_JOB, *_SIZES], os.environ)
        self.assertEqual(status, 0, text)
        self.assert_all_reduced(text)

    def test_Slurm_JobOfSeveralRanks_ReducesOverTheSoftwareHca(self):
        if reason := one_node_slurm.why_not():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory(prefix="slurm-") as folder, \
                one_node_slurm.OneNodeSlurm(folder, cpus=_RANKS + 1) as slurm:
            output = pathlib.Path(folder) / "job.out"
            script, options = str(_LAUNCH / "slurm.sbatch"), ["--nodes", "1", *_JOB, "--mpi", "none"]
            by_hand = ["sbatch", "--wait", "--ntasks-per-node=1", f"--output={output}", script]
            for command in (
                    [script, *options, "--no-gpu-request", "--sbatch", "--wait", "--sbatch", f"--output={output}"],
                    # With one task a node, it starts all ranks all the same; a path among its arguments does no harm.
                    [*by_hand, *options, "--program", str(_LAUNCH / "perf_rank")]):
                status, text = self.start([*command, *_SIZES], slurm.environment, folder, output)
                self.assertEqual(status, 0, text)
                self.assert_all_reduced(text)
            # Submitted by hand with fewer nodes than --nodes.
            status, text = self.start([*by_hand, "--nodes", "2", *_JOB], slurm.environment, folder, output)
            self.assertNotEqual(status, 0)
            self.assertIn("the job has 1 nodes, and --nodes is 2", text)
