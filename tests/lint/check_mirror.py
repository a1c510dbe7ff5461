#!/usr/bin/env python3
"""Fails where tests/unit does not mirror the tree, or where a test or CMake list leaves the checkout.

usage: check_mirror.py
"""

import re
import sys
from pathlib import Path

from source_files import ROOT, source_files

# The checkout's parent, or a quoted path below a folder where people keep their files.
_OUTSIDE = re.compile(r"(PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/\.\.|\.\./shared"
                      r"|[\"']/(home|root|work|mnt|opt|srv|Users)/")


def unmirrored(names, folders):
    """The folders of tests/unit that hold tests but have no counterpart among the folders."""
    unit = Path("tests/unit")
    tests = {Path(name).parent for name in names
             if unit in Path(name).parents and "_test." in Path(name).name}
    for folder in sorted(tests):
        if folder != unit and folder.relative_to(unit) not in folders:
            yield f"{folder} holds tests, but there is no folder {folder.relative_to(unit)}"


def leaving(name, text):
    """The lines of a file that name a path outside the checkout."""
    for number, line in enumerate(text.split("\n"), 1):
        if _OUTSIDE.search(line):
            yield f"{name}:{number}: names a path outside the checkout: {line.strip()}"


def _is_checked(name):
    path = Path(name)
    if path.parts[:2] == ("tests", "lint") or path.parts[:4] == ("tests", "unit", "tests", "lint"):
        return False
    is_list = path.name == "CMakeLists.txt" or path.suffix == ".cmake"
    is_test = path.parts[0] == "tests" and path.suffix in ("", ".cc", ".h", ".py", ".sh")
    return is_list or is_test


def main():
    names = source_files(["."])
    folders = {parent for name in names for parent in Path(name).parents}
    found = list(unmirrored(names, folders))
    checked = [name for name in names if _is_checked(name)]
    for name in checked:
        found += leaving(name, (ROOT / name).read_text(encoding="utf-8"))
    print("\n".join(found + [f"{len(found)} tests out of place or reading outside the checkout, "
                             f"in {len(checked)} files"]))
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
