"""Loads a program of tests/bench, whose name has no suffix, as a module."""

import importlib.machinery
import importlib.util
import sys

import paths


def load(name):
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(paths.ROOT / "tests" / "bench" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses look for it there
    loader.exec_module(module)
    return module
