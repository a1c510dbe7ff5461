"""A Python that is too old is named by every program of nccl-tests-config, and not by a traceback."""

import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from paths import ROOT

_CONFIG = ROOT / "nccl-tests-config"
_PROGRAMS = ("compare", "nccl-gdr-burn-in", "launch/mpirun", "launch/slurm.sbatch", "launch/torchrun")
_BEFORE_THE_CHECK = ("launch/common.py", "comparelib/__init__.py", "burn_in/__init__.py")


class PythonVersionTest(unittest.TestCase):

    def test_OldPython_IsNamedByEveryProgram(self):
        with tempfile.TemporaryDirectory() as folder:
            # Python 3.6 has no dataclasses.
            for version, status, more in (((3, 8, 10), 3, "sys.modules['dataclasses'] = None"), ((3, 9, 0), 0, "")):
                site = pathlib.Path(folder) / "sitecustomize.py"
                site.write_text(f"import sys\nsys.version_info = {version}\n{more}\n", encoding="ascii")
                for program in _PROGRAMS:
                    with self.subTest(program=program, version=version):
                        done = subprocess.run([sys.executable, "-B", str(_CONFIG / program), "--help"], text=True,
                                              env={**os.environ, "PYTHONPATH": folder}, capture_output=True, check=False)
                        self.assertEqual(done.returncode, status, done.stderr)
                        self.assertEqual("this needs Python 3.9 or later" in done.stderr, status == 3, done.stderr)

    def test_IncompletePython_IsNoVerdict(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder) / "sitecustomize.py"
            for missing in ("dataclasses", "tempfile"):  # as in Debian's python3-minimal
                site.write_text(f"import sys\nsys.modules['{missing}'] = None\n", encoding="ascii")
                for program in ("compare", "nccl-gdr-burn-in"):
                    done = subprocess.run([sys.executable, "-B", str(_CONFIG / program), "--help"], text=True,
                                          env={**os.environ, "PYTHONPATH": folder}, capture_output=True, check=False)
                    self.assertEqual(done.returncode, 3, done.stderr)
                    self.assertIn(missing, done.stderr)

    def test_WhatComesBeforeTheCheck_IsParsedByPython36(self):
        for name in (*_PROGRAMS, *_BEFORE_THE_CHECK):
            text = (_CONFIG / name).read_text(encoding="utf-8")
            ast.parse(text, name, feature_version=(3, 6))
            self.assertNotIn("from __future__ import annotations", text, name)


if __name__ == "__main__":
    unittest.main()
