#!/usr/bin/env python3
"""Draws the pictures of docs/ that show machines of this folder.

usage: make_pictures.py [--check] TOOL    TOOL is the program nccl-gdr

Writes the pictures; with --check, fails where a committed picture is not what the program draws.
The CMake target topo-pictures runs it.
"""

import os
import subprocess
import sys
from pathlib import Path

import committed

_ROOT = Path(__file__).resolve().parents[2]
_DATE = "1795305600"  # 2026-11-22 in UTC, so that the pictures do not depend on the day

PICTURES = {
    "rails-dgx-h100.svg": "hwloc-dgx-h100.xml",
    "rails-hgx-4nic.svg": "nccl-hgx-4nic.xml",
    "rails-gb200-tray.svg": "nccl-gb200-tray.xml",
    "rails-cross-wired.svg": "nccl-cross-wired.xml",
}


def draw(tool, machine):
    """The picture of a file, whatever the user's settings."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    environment |= {"SOURCE_DATE_EPOCH": _DATE, "NCCL_CONF_FILE": os.devnull}
    command = [tool, "topo", "--from", f"tests/topologies/{machine}", "--svg", "-"]
    return subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True,
                          text=True).stdout


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} [--check] TOOL")
    program = os.path.abspath(sys.argv.pop())
    committed.main({name: lambda machine=machine: draw(program, machine)
                    for name, machine in PICTURES.items()}, _ROOT / "docs")
