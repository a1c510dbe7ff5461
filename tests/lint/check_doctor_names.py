#!/usr/bin/env python3
"""Fails where a document names a check of `nccl-gdr doctor` that does not exist, where no symptom of
docs/troubleshooting.md names a check, and where a check of checks.h is not in the list of checks.cc.

usage: check_doctor_names.py
"""

import re
import sys

from source_files import ROOT, source_files

_CHECKS = "tools/doctor/checks"
_DEFINED = re.compile(r"\.name = \"([a-z0-9-]+)\"")
_NAMED = re.compile(r"--check ([a-z0-9-]+(?:,[a-z0-9-]+)*)")
_SYMPTOMS = "docs/troubleshooting.md"
_SYMPTOMS_OF = re.compile(r"^## By symptom$(.*?)^## ", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(r"^Check (\w+)\(\);", re.MULTILINE)
_LISTED = re.compile(r"^ +(\w+)\(\),", re.MULTILINE)
_OPTION_OF_DOCTOR = re.compile(r"`(?:nccl-gdr doctor )?--check [a-z]")


def named_checks(text):
    """The names behind --check, of lists too."""
    return [name for names in _NAMED.findall(text) for name in names.split(",")]


def checks_without_symptom(text, checks):
    """Lines for the checks that no symptom of the document names."""
    symptoms = _SYMPTOMS_OF.search(text)
    named = set(named_checks(symptoms.group(1) if symptoms else ""))
    return [f"{_SYMPTOMS}: no symptom names the check {check}" for check in sorted(checks - named)]


def unlisted_checks(header, source):
    """Lines for the functions of checks.h that the list of checks.cc lacks."""
    listed = set(_LISTED.findall(source))
    return [f"{_CHECKS}/checks.cc: {name}() of checks.h is not listed"
            for name in _DECLARED.findall(header) if name not in listed]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def unknown_checks(name, text, checks):
    """Lines "name:line: what is wrong" for a document; checks: the names that exist."""
    for number, line in enumerate(text.split("\n"), 1):
        if not _OPTION_OF_DOCTOR.search(line) and "nccl-gdr doctor" not in line:
            continue
        for check in named_checks(line):
            if check not in checks:
                yield f"{name}:{number}: there is no check {check} in {_CHECKS}/"


def main():
    sources = [name for name in source_files([_CHECKS]) if name.endswith(".cc")]
    checks = {check for name in sources for check in _DEFINED.findall(text_of(name))}
    documents = [name for name in source_files(["."]) if name.endswith(".md")]
    found = [line for name in documents for line in unknown_checks(name, text_of(name), checks)]
    found += checks_without_symptom(text_of(_SYMPTOMS), checks)
    found += unlisted_checks(text_of(f"{_CHECKS}/checks.h"), text_of(f"{_CHECKS}/checks.cc"))
    print("\n".join(found + [f"{len(found)} faults in names of checks, {len(checks)} exist"]))
    return 1 if found or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
