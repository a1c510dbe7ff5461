"""The launchers over the software HCA: several ranks under a real Slurm and a real Open MPI.

CTest sets GDR_TOOL, GDR_PLUGIN_DIR and SOFTHCA_DIR to what was built.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import one_node_slurm

_LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config" / "launch"
_RANKS = 3
_JOB = ["--gpus", str(_RANKS), "--program", "perf_rank", "--preset", "one_host_softhca"]
_SIZES = ["--", "--begin", "1K", "--end", "64K", "--factor", "8", "--iters", "20"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(base):
    """`base` with what the launchers need here, and none of the caller's settings of NCCL."""
    kept = ("GDR_PLUGIN_DIR",)
    result = {name: value for name, value in base.items()
              if not name.startswith(("NCCL_", "GDR_NCCL_", "SLURM_JOB")) or name in kept}
    result.update(GDR_TOOL=os.environ["GDR_TOOL"], MASTER_PORT=str(free_port()))
    return result


class Launchers(unittest.TestCase):

    def assert_all_reduced(self, output):
        """Every rank took part, over the plugin and the software HCA, and all data was right."""
        self.assertIn(f"# {_RANKS} ranks, 3 sizes: 0 wrong", output)
        self.assertIn(f"# plugin GDR ({os.environ['GDR_PLUGIN_DIR']}/libnccl-net-gdr.so)", output)
        ranks = re.findall(r"^# rank +(\d) pid \d+ .* device \d softhca", output, re.MULTILINE)
        self.assertEqual(sorted(ranks), [str(rank) for rank in range(_RANKS)])

    def test_Mpirun_OfSeveralRanks_ReducesOverTheSoftwareHca(self):
        if shutil.which("mpirun") is None:
            self.skipTest("mpirun is not installed (openmpi-bin)")
        done = subprocess.run([str(_LAUNCH / "mpirun"), *_JOB, *_SIZES], stdin=subprocess.DEVNULL,
                              env=environment(os.environ), capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_all_reduced(done.stdout + done.stderr)

    def test_Slurm_JobOfSeveralRanks_ReducesOverTheSoftwareHca(self):
        if reason := one_node_slurm.why_not():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory(prefix="slurm-") as folder, \
                one_node_slurm.OneNodeSlurm(folder, cpus=_RANKS + 1) as slurm:
            output = pathlib.Path(folder) / "job.out"
            command = [str(_LAUNCH / "slurm.sbatch"), "--nodes", "1", *_JOB, "--mpi", "none",
                       "--no-gpu-request", "--sbatch", "--wait", "--sbatch", f"--output={output}"]
            done = subprocess.run([*command, *_SIZES], env=environment(slurm.environment), cwd=folder,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=120, check=False)
            text = output.read_text() if output.exists() else ""
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + text)
            self.assert_all_reduced(text)
            self.refuse_more_nodes(slurm, folder)
            self.submit_by_hand(slurm, folder)

    def submit_by_hand(self, slurm, folder):
        """A job that sbatch was given with one task a node starts all ranks; a path among its arguments does no harm."""
        output = pathlib.Path(folder) / "by-hand.out"
        command = ["sbatch", "--wait", "--ntasks-per-node=1", f"--output={output}",
                   str(_LAUNCH / "slurm.sbatch"), "--nodes", "1", *_JOB, "--mpi", "none", "--program",
                   str(_LAUNCH / "perf_rank"), *_SIZES]
        done = subprocess.run(command, env=environment(slurm.environment), cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)
        text = output.read_text() if output.exists() else ""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + text)
        self.assert_all_reduced(text)

    def refuse_more_nodes(self, slurm, folder):
        """A job that is submitted by hand with fewer nodes than --nodes ends with the reason."""
        output = pathlib.Path(folder) / "small.out"
        command = ["sbatch", "--wait", "--ntasks-per-node=1", f"--output={output}",
                   str(_LAUNCH / "slurm.sbatch"), "--nodes", "2", *_JOB]
        done = subprocess.run(command, env=environment(slurm.environment), cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the job has 1 nodes, and --nodes is 2", output.read_text())
