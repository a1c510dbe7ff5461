#!/usr/bin/env python3
"""Prints the lines of each row of the budget in CONTRIBUTING.md beside what the row may have.

usage: line_budget.py

A row names folders, and documents without their ".md": "docs, README". The row "all" is the whole tree.
"""

import re
import sys
from pathlib import Path

from source_files import ROOT, source_files

_HEAD = "| part | lines |\n"


def rows(text):
    """The parts of the table and their budgets: [("docs, README", 9000), ...]."""
    table = text.split(_HEAD, 1)[1].split("\n\n", 1)[0]
    return [(part, int(lines.replace(",", "")))
            for part, lines in re.findall(r"^\| (.+?) \| ([\d,]+) \|$", table, re.MULTILINE)]


def lines_of(part, lines):
    """The lines of a part, given those of each file by name."""
    names = re.sub(r" \(.*\)", "", part).split(", ")
    return sum(count for name, count in lines.items()
               if part == "all" or Path(name).parts[0].removesuffix(".md") in names)


def main():
    lines = {name: (ROOT / name).read_bytes().count(b"\n") for name in source_files(["."])}
    for part, budget in rows((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        count = lines_of(part, lines)
        over = f", {count - budget:,} over" if count > budget else ""
        print(f"lines of {part}: {count:,} of {budget:,}{over}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
