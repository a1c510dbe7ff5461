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


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        sys.exit(f"usage: {sys.argv[0]} [--check] TOOL")
    tool, outdated = os.path.abspath(arguments[-1]), False
    for name, machine in PICTURES.items():
        path, text = _ROOT / "docs" / name, draw(tool, machine)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"docs/{name} is not what the tool draws; make it again: target topo-pictures")
            outdated = True
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
