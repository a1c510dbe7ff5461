"""Writes generated files, or checks that those committed are what is generated."""

import difflib
import pathlib
import sys

_FOLDER = pathlib.Path(__file__).resolve().parent


def main(files, folder=_FOLDER):
    """`files` has a function that returns the text for each name. --check: exits 1 where one differs."""
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"usage: {sys.argv[0]} [--check]")
    differ = False
    for name, make in files.items():
        path, text = folder / name, make()
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
            continue
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = difflib.unified_diff(there.splitlines(), text.splitlines(), f"committed {name}",
                                     f"generated {name}", n=0, lineterm="")
        for line in lines:
            differ = True
            print(line)
    sys.exit(1 if differ else 0)
