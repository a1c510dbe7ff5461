#!/usr/bin/env python3
"""Draws the picture of docs/ that shows a machine of this folder.

usage: make_picture.py [--check] TOOL    TOOL is the program nccl-gdr

Writes it; with --check, fails where the committed picture is not what the program draws.
The CMake target topo-picture runs it.
"""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PICTURE = _ROOT / "docs" / "rails-dgx-h100.svg"
_MACHINE = "tests/topologies/hwloc-dgx-h100.xml"


def draw(tool):
    """The picture, whatever the user's settings."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    environment["NCCL_CONF_FILE"] = os.devnull
    command = [tool, "topo", "--from", _MACHINE, "--svg", "-"]
    return subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True,
                          text=True).stdout


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        sys.exit(f"usage: {sys.argv[0]} [--check] TOOL")
    text = draw(os.path.abspath(arguments[-1]))
    if not check:
        _PICTURE.write_text(text, encoding="utf-8")
    elif _PICTURE.read_text(encoding="utf-8") != text:
        sys.exit(f"{_PICTURE.name} is not what the tool draws; make it again: target topo-picture")


if __name__ == "__main__":
    main(sys.argv[1:])
