"""Runs nccl-tests-config/compare as a whole over fakes of the programs of nccl-tests."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from paths import ROOT

_FAKE = pathlib.Path(__file__).resolve().with_name("fake_nccl_test")


class CompareCase(unittest.TestCase):
    """A folder with the programs, and a way to run compare in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="compare test ")  # with a space on purpose
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("all_reduce_perf", "sendrecv_perf"):
            (self.folder / name).symlink_to(_FAKE)

    def environment(self):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "GDR_", "SOFTHCA_", "FAKE_"))}
        return {**env, "NCCL_TESTS_DIR": str(self.folder)}

    def compare(self, *arguments, end="32", **settings):
        env = {**self.environment(), **settings}
        arguments = [*(["--end", end] if end else []), *arguments]
        self.output = self.folder / "out"
        return subprocess.run(
            [str(ROOT / "nccl-tests-config" / "compare"), "--output", str(self.output), *arguments],
            env=env, cwd=self.folder, capture_output=True, text=True, check=False)
