"""Lets the tests import what the scripts of the tree are made of."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "nccl-tests-config"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))
