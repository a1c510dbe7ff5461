#!/usr/bin/env python3
"""Fails where tests/unit does not mirror the tree, or where a test or CMake list leaves the checkout.

usage: check_mirror.py [ROOT]
"""

import re
import sys
from pathlib import Path

# "../" right after the checkout's own folder is a path outside of it.
_OUTSIDE = re.compile(r"(PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/\.\.|\.\./shared")


def unmirrored(root):
    """Folders of tests/unit that hold tests but have no counterpart in the tree."""
    unit = root / "tests" / "unit"
    for folder in sorted({file.parent for file in unit.rglob("*_test.*")}):
        counterpart = folder.relative_to(unit)
        if not (root / counterpart).is_dir():
            yield f"{folder.relative_to(root)} holds tests, but there is no folder {counterpart}"


def leaving(root):
    """Lines of tests and CMake lists that name a path outside the checkout."""
    files = [*root.glob("*/**/CMakeLists.txt"), root / "CMakeLists.txt", *root.glob("cmake/*.cmake")]
    tests = (file for file in (root / "tests").rglob("*")
             if file.suffix in (".cc", ".h", ".py", ".sh") and file != Path(__file__).resolve())
    for file in sorted({*files, *tests}):
        name = file.relative_to(root)
        if name.parts[0].startswith("build") or name.parts[:2] == ("tests", "lint"):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
            if _OUTSIDE.search(line):
                yield f"{name}:{number}: names a path outside the checkout: {line.strip()}"


def findings(root):
    return [*unmirrored(root), *leaving(root)]


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2]
    found = findings(root)
    print("\n".join(found + [f"{len(found)} tests out of place or reading outside the checkout"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
