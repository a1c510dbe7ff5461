#!/usr/bin/env python3
"""Fails where a kind of base/finding_kinds.def has no row in docs/troubleshooting.md, or several, and
where a row there names a kind that does not exist.

usage: check_kinds.py
"""

import collections
import re
import sys

from source_files import ROOT

KINDS = "base/finding_kinds.def"
DOCUMENT = "docs/troubleshooting.md"
_KIND = re.compile(r'^GDR_FINDING_KIND\(k\w+, "([^"]+)"\)', re.MULTILINE)
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TABLES = re.compile(r"^\| kind \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", re.MULTILINE)
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def faults(definitions, document):
    """Lines about the kinds of the definitions and the rows of the document."""
    kinds = _KIND.findall(definitions)
    rows = collections.Counter(_ROW.findall("".join(_TABLES.findall(document))))
    yield from (f"{KINDS}: {kind} is not lower case with hyphens" for kind in kinds
                if not _ID.fullmatch(kind))
    yield from (f"{DOCUMENT}: the kind {kind} has {rows[kind]} rows" for kind in kinds
                if rows[kind] != 1)
    yield from (f"{DOCUMENT}: there is no kind {row} in {KINDS}" for row in rows if row not in kinds)
    if not kinds:
        yield f"{KINDS} has no kinds"


def main():
    found = list(faults((ROOT / KINDS).read_text(encoding="utf-8"),
                        (ROOT / DOCUMENT).read_text(encoding="utf-8")))
    print("\n".join(found + [f"{len(found)} faults in the rows of kinds"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
