"""Runs nccl-tests-config/one_host_rank with the variables that launchers set."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from paths import ROOT

_SHOW = ["bash", "-c", 'echo "$NCCL_HOSTID $NCCL_TESTS_DEVICE"']
_TWO = {"GDR_RANKS_PER_NODE": "2"}


class OneHostRankTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="one_host_rank test ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_rank(self, number, gpus, settings, command=_SHOW):
        """gpus: how many nvidia-smi shows; None: there is none."""
        smi = self.folder / "nvidia-smi"
        smi.write_text("#!/bin/sh\nexit 127\n" if gpus is None else f"#!/bin/sh\nseq 0 {gpus - 1}\n")
        smi.chmod(0o755)
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        if number is not None:
            env.update(OMPI_COMM_WORLD_RANK=str(number), OMPI_COMM_WORLD_LOCAL_RANK=str(number))
        return subprocess.run([str(ROOT / "nccl-tests-config" / "one_host_rank"), *command],
                              env={**env, **settings}, capture_output=True, text=True, check=False)

    def test_Rank_HasItsHostAndGpu(self):
        for number, gpus, settings, shown in (
                (3, 4, {}, "3 3"), (3, None, {}, "3 3"),
                *((number, 4, _TWO, f"{number // 2} {number}") for number in range(4)),
                # Fewer GPUs than ranks: these take them in turn.
                (3, 2, _TWO, "1 1"), (3, 8, {"CUDA_VISIBLE_DEVICES": "4,5,6"}, "3 0"),
                (3, 2, {"NCCL_TESTS_DEVICE": "0"}, "3 0"),
                # Where the number of GPUs is unknown, or the user has chosen one.
                (3, None, _TWO, "1 3"), (3, 1, {**_TWO, "NCCL_TESTS_DEVICE": "0"}, "1 0")):
            with self.subTest(number=number, gpus=gpus, settings=settings):
                done = self.run_rank(number, gpus, settings)
                self.assertEqual((done.returncode, done.stdout), (0, f"one-host-rank-{shown}\n"), done.stderr)

    def test_SharedGpu_IsNamedByTheRankThatComesLater(self):
        for number, settings, text in ((1, {}, ""), (1, {"NCCL_TESTS_DEVICE": "0"}, ""), (3, {}, (
                "one_host_rank: rank 3 shares GPU 1 with another rank, as 2 GPU(s) are visible\n"))):
            self.assertEqual(self.run_rank(number, 2, settings).stderr, text)

    def test_WhatCannotRun_EndsWithTheReason(self):
        more = r"GDR_RANKS_PER_NODE=2, but 1 GPU\(s\) are visible.*set GDR_RANKS_PER_NODE to 1 or less"
        for number, gpus, settings, text in (
                # Every rank, so that mpirun shows it whichever ends first.
                (0, 1, _TWO, more), (3, 1, _TWO, more), (None, None, {}, "has no rank"),
                (0, None, {"OMPI_COMM_WORLD_RANK": "one"}, "rank one is not a number"),
                (0, None, {"OMPI_COMM_WORLD_LOCAL_RANK": "one"}, "rank one is not a number"),
                *((0, None, {"GDR_RANKS_PER_NODE": wrong}, f"GDR_RANKS_PER_NODE={wrong} is not a number of ranks")
                  for wrong in ("0", "two", "-1"))):
            with self.subTest(number=number, settings=settings):
                done = self.run_rank(number, gpus, settings)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, text)
        done = self.run_rank(0, None, {}, command=[])
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"no program given; usage: mpirun .*one_host_rank PROGRAM")
        done = self.run_rank(None, None, {}, command=["--help"])
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "^usage: mpirun ")


if __name__ == "__main__":
    unittest.main()
