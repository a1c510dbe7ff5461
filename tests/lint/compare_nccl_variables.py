#!/usr/bin/env python3
"""Fails where NCCL's source tree reads a variable of its InfiniBand transport that our list lacks.

usage: compare_nccl_variables.py NCCL

The list is tests/unit/plugin/config/nccl_variables.txt; a unit test checks that the plugin honours
each of its variables or names it. Build with -DNCCL_SOURCE_DIR=NCCL to have this check as a test.
"""

import re
import sys
from pathlib import Path

from source_files import ROOT

_LIST = ROOT / "tests/unit/plugin/config/nccl_variables.txt"

# NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20) and ncclGetEnv("NCCL_IB_HCA").
_NAME = re.compile(r'(?:NCCL_PARAM\(\s*\w+\s*,\s*"|[gG]et[eE]nv\("NCCL_)((?:IB|IBVERBS)_[A-Z0-9_]+)"')


def listed(text):
    """The names in a list of this form."""
    return {line.split()[0] for line in text.splitlines() if line and not line.startswith("#")}


def names_read(text):
    """The variables of the InfiniBand transport that a source file of NCCL's reads."""
    return {"NCCL_" + name for name in _NAME.findall(text)}


def main():
    tree = Path(sys.argv[1]) / "src"
    sources = [file for ending in ("*.cc", "*.cpp", "*.h") for file in sorted(tree.rglob(ending))]
    known = listed(_LIST.read_text(encoding="utf-8"))
    read = {}
    for source in sources:
        for name in names_read(source.read_text(encoding="utf-8", errors="replace")):
            read.setdefault(name, source)
    if not read:
        sys.exit(f"{tree} reads no such variable: is this NCCL's source tree?")
    missing = sorted(set(read) - known)
    for name in missing:
        print(f"{read[name]}: reads {name}, which {_LIST.relative_to(ROOT)} lacks")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
