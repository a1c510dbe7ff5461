"""Lets the unit tests of the scripts import the modules that the scripts consist of."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for _folder in ("nccl-tests-config", "tests/bench", "tests/launch", "tests/lint", "tests/metrics",
                "tests/softhca"):
    sys.path.insert(0, str(ROOT / _folder))
