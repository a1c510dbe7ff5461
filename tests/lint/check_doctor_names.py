#!/usr/bin/env python3
"""Fails where a document names a check of `nccl-gdr doctor` that does not exist.

usage: check_doctor_names.py
"""

import re
import sys

from source_files import ROOT, source_files

_CHECKS = "tools/doctor/checks"
_DEFINED = re.compile(r"\.name = \"([a-z0-9-]+)\"")
_NAMED = re.compile(r"--check ([a-z0-9-]+)")
_OPTION_OF_DOCTOR = re.compile(r"`(?:nccl-gdr doctor )?--check [a-z]")


def unknown_checks(name, text, checks):
    """Lines "name:line: what is wrong" for a document; checks: the names that exist."""
    for number, line in enumerate(text.split("\n"), 1):
        if not _OPTION_OF_DOCTOR.search(line) and "nccl-gdr doctor" not in line:
            continue
        for check in _NAMED.findall(line):
            if check not in checks:
                yield f"{name}:{number}: there is no check {check} in {_CHECKS}/"


def main():
    sources = [name for name in source_files([_CHECKS]) if name.endswith(".cc")]
    checks = {check for name in sources
              for check in _DEFINED.findall((ROOT / name).read_text(encoding="utf-8"))}
    documents = [name for name in source_files(["."]) if name.endswith(".md")]
    found = [line for name in documents
             for line in unknown_checks(name, (ROOT / name).read_text(encoding="utf-8"), checks)]
    print("\n".join(found + [f"{len(found)} unknown checks of the doctor, {len(checks)} exist"]))
    return 1 if found or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
