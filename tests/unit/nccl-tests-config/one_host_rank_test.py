"""Runs nccl-tests-config/one_host_rank with the variables that launchers set."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from paths import ROOT

_SHOW = ["bash", "-c", 'echo "$NCCL_HOSTID $NCCL_TESTS_DEVICE"']


class OneHostRankTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="one_host_rank test ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rank(self, number, gpus=None, command=_SHOW, **settings):
        """(exit status, host and GPU or the error) of a rank; gpus: how many nvidia-smi shows, None: there is none."""
        done = self.run_rank(number, gpus, command, settings)
        return done.returncode, (done.stdout or done.stderr).strip()

    def run_rank(self, number, gpus, command, settings):
        smi = self.folder / "nvidia-smi"
        smi.write_text("#!/bin/sh\nexit 127\n" if gpus is None else f"#!/bin/sh\nseq 0 {gpus - 1}\n")
        smi.chmod(0o755)
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        if number is not None:
            env.update(OMPI_COMM_WORLD_RANK=str(number), OMPI_COMM_WORLD_LOCAL_RANK=str(number))
        return subprocess.run([str(ROOT / "nccl-tests-config" / "one_host_rank"), *command],
                              env={**env, **settings}, capture_output=True, text=True, check=False)

    def test_Rank_AloneOnItsHost_HasTheGpuOfItsNumber(self):
        self.assertEqual(self.rank(3, gpus=4), (0, "one-host-rank-3 3"))
        self.assertEqual(self.rank(3), (0, "one-host-rank-3 3"))

    def test_SeveralRanksOfANode_ShareAHost(self):
        hosts = [self.rank(number, gpus=4, GDR_RANKS_PER_NODE="2") for number in range(4)]
        self.assertEqual(hosts, [(0, "one-host-rank-0 0"), (0, "one-host-rank-0 1"), (0, "one-host-rank-1 2"),
                                 (0, "one-host-rank-1 3")])

    def test_FewerGpusThanRanks_RanksTakeThemInTurn(self):
        self.assertEqual(self.rank(3, gpus=2, GDR_RANKS_PER_NODE="2"), (0, "one-host-rank-1 1"))
        self.assertEqual(self.rank(3, gpus=8, CUDA_VISIBLE_DEVICES="4,5,6"), (0, "one-host-rank-3 0"))
        self.assertEqual(self.rank(3, gpus=2, NCCL_TESTS_DEVICE="0"), (0, "one-host-rank-3 0"))

    def test_SharedGpu_IsNamedByTheRankThatComesLater(self):
        for number, settings, text in ((1, {}, ""), (1, {"NCCL_TESTS_DEVICE": "0"}, ""), (3, {}, (
                "one_host_rank: rank 3 shares GPU 1 with another rank, as 2 GPU(s) are visible\n"))):
            self.assertEqual(self.run_rank(number, 2, _SHOW, settings).stderr, text)

    def test_MoreRanksOfANodeThanGpus_EndsWithTheFix(self):
        for number in (0, 3):  # every rank, so that mpirun shows it whichever ends first
            status, text = self.rank(number, gpus=1, GDR_RANKS_PER_NODE="2")
            self.assertEqual(status, 2)
            self.assertIn("GDR_RANKS_PER_NODE=2, but 1 GPU(s) are visible", text)
            self.assertIn("set GDR_RANKS_PER_NODE to 1 or less", text)
        # Where the number of GPUs is unknown, or the user has chosen one.
        self.assertEqual(self.rank(3, GDR_RANKS_PER_NODE="2"), (0, "one-host-rank-1 3"))
        self.assertEqual(self.rank(3, gpus=1, GDR_RANKS_PER_NODE="2", NCCL_TESTS_DEVICE="0"), (0, "one-host-rank-1 0"))

    def test_NoCommand_EndsWithTheUsage(self):
        status, text = self.rank(0, command=[])
        self.assertEqual(status, 2)
        self.assertRegex(text, r"^usage: mpirun .*one_host_rank PROGRAM")

    def test_RankThatIsNoNumber_EndsWithTheReason(self):
        for settings in ({"OMPI_COMM_WORLD_RANK": "one"}, {"OMPI_COMM_WORLD_LOCAL_RANK": "one"}):
            status, text = self.rank(0, **settings)
            self.assertEqual(status, 2)
            self.assertIn("rank one is no number", text)

    def test_NoRankOrNoNumber_EndsWithTheReason(self):
        status, text = self.rank(None)
        self.assertEqual(status, 2)
        self.assertIn("has no rank", text)
        for wrong in ("0", "two", "-1"):
            status, text = self.rank(0, GDR_RANKS_PER_NODE=wrong)
            self.assertEqual(status, 2)
            self.assertIn(f"GDR_RANKS_PER_NODE={wrong} is no number of ranks", text)


if __name__ == "__main__":
    unittest.main()
