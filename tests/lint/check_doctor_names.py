#!/usr/bin/env python3
"""Fails where a document names a check of `nccl-gdr doctor` that does not exist, where no symptom of
docs/troubleshooting.md names a check, where a check of checks.h is not in the table of checks.cc, and where
a kind of base/finding_kinds.def has not exactly one row in docs/troubleshooting.md, or a row no kind.

usage: check_doctor_names.py
"""

import collections
import re
import sys

from source_files import ROOT, source_files

_CHECKS = "tools/doctor/checks"
_DEFINED = re.compile(r"\.name = \"([a-z0-9-]+)\"")
_NAMED = re.compile(r"--check ([a-z0-9-]+(?:,[a-z0-9-]+)*)")
_KINDS = "base/finding_kinds.def"
_DOCUMENT = "docs/troubleshooting.md"
_SYMPTOMS_OF = re.compile(r"^## By symptom$(.*?)^## ", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(r"^Observations (run_\w+)\(", re.MULTILINE)
_LISTED = re.compile(r"\.run = (\w+)")
_KIND = re.compile(r'^GDR_FINDING_KIND\(k\w+, "([^"]+)"\)', re.MULTILINE)
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TABLES = re.compile(r"^\| kind \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", re.MULTILINE)
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_OPTION_OF_DOCTOR = re.compile(r"`(?:nccl-gdr doctor )?--check [a-z]")


def named_checks(text):
    """The names behind --check, of lists too."""
    return [name for names in _NAMED.findall(text) for name in names.split(",")]


def checks_without_symptom(text, checks):
    """Lines for the checks that no symptom of the document names."""
    symptoms = _SYMPTOMS_OF.search(text)
    named = set(named_checks(symptoms.group(1) if symptoms else ""))
    return [f"{_DOCUMENT}: no symptom names the check {check}" for check in sorted(checks - named)]


def unlisted_checks(header, source):
    """Lines for the functions of checks.h that the table of checks.cc lacks."""
    listed = set(_LISTED.findall(source))
    return [f"{_CHECKS}/checks.cc: {name}() of checks.h is not listed"
            for name in _DECLARED.findall(header) if name not in listed]


def faults_of_kinds(definitions, document):
    """Lines about the kinds of the definitions and the rows of the document."""
    kinds = _KIND.findall(definitions)
    rows = collections.Counter(_ROW.findall("".join(_TABLES.findall(document))))
    yield from (f"{_KINDS}: {kind} is not lower case with hyphens" for kind in kinds if not _ID.fullmatch(kind))
    yield from (f"{_DOCUMENT}: the kind {kind} has {rows[kind]} rows" for kind in kinds if rows[kind] != 1)
    yield from (f"{_DOCUMENT}: there is no kind {row} in {_KINDS}" for row in rows if row not in kinds)
    if not kinds:
        yield f"{_KINDS} has no kinds"


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
    checks = set(_DEFINED.findall(text_of(f"{_CHECKS}/checks.cc")))
    troubleshooting = text_of(_DOCUMENT)
    documents = [name for name in source_files(["."]) if name.endswith(".md")]
    found = [line for name in documents for line in unknown_checks(name, text_of(name), checks)]
    found += checks_without_symptom(troubleshooting, checks)
    found += unlisted_checks(text_of(f"{_CHECKS}/checks.h"), text_of(f"{_CHECKS}/checks.cc"))
    found += faults_of_kinds(text_of(_KINDS), troubleshooting)
    print("\n".join(found + [f"{len(found)} faults in names of checks and kinds, {len(checks)} checks exist"]))
    return 1 if found or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
