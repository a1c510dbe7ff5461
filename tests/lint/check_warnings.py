#!/usr/bin/env python3
"""Fails where docs/troubleshooting.md lacks a warning of the plugin, or has one that is not printed.

usage: check_warnings.py [--list]    --list prints each text that has to be documented, and where

Every sentence in a literal of the folders below is taken for a text of a warning, since any error may
end as the reason of one: the plugin logs the error of each call of NCCL that fails. Excepted are lines
at INFO and TRACE, findings of Severity::kInfo, and what _NOT_WARNED lists. A sentence has four words;
in a statement that reports by itself (GDR_WARN, a Finding, the Code of an Error) two are enough.

The document quotes each of them in a table of log lines (log_line_tables.py). The parts of a
quotation must follow each other in the literals of one statement: what is between two of the
characters ; { and } (cpp_statements.py). Where a statement has two texts, as in a ? "b" : "c", one
quotation is enough.

What this does not see: shorter texts that a report takes from elsewhere, and what is not in the
sources, as the texts of strerror() and of exceptions are.
"""

import re
import sys

from cpp_statements import statements
from log_line_tables import read_tables
from source_files import ROOT, source_files

DOCUMENT = "docs/troubleshooting.md"
_SELF = "tests/lint/check_warnings.py"
_FOLDERS = ["base", "drivers", "plugin", "topology", "transport"]

_REPORTS = re.compile(
    r"\bGDR_WARN ?\(|\bwarn_once\(|\binvalid_argument\(|\bfail(?:_\w+)?\("
    r"|(?<![=!]= )(?:\bSeverity::k(?:Warning|Error)\b|\bkWarning,|\bCode::k\w+ ?,)")
_AT_INFO = re.compile(r"\bGDR_(?:INFO|TRACE) ?\(|\bnote_once\(|Code::kDeclined")
_INFO_FINDING = re.compile(r"\bSeverity::kInfo\b|\bkInfo,")
_WORD = re.compile(r"(?<!\S)[^\sA-Za-z]*[A-Za-z][A-Za-z'_]+")
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")
_WORDS_OF_A_REPORT = 2
_WORDS_OF_A_SENTENCE = 4

# What is not printed at WARN by the plugin: why, and the functions and constants. "*": all of a file.
_NOT_WARNED = {
    "the tools alone print it": {
        "plugin/config/markdown.cc": {"*"}, "topology/sources/hwloc.cc": {"*"}},
    "the plugin goes on with sysfs, and logs that at INFO": {
        "topology/live/read_machine.cc": {"read_by_hwloc"},
        "topology/sources/hwloc_library.cc": {"*"}},
    "it is a part of a line at INFO or TRACE": {
        "plugin/config/not_applicable.cc": {"kOwnFailover", "kSmallHandshake"},
        "plugin/device_table.cc": {"*"}, "plugin/plugin.cc": {"choose_standby"},
        "plugin/standby_rails.cc": {"*"}, "topology/gdr_level.cc": {"note_on_number"},
        "topology/live/rail_log.cc": {"*"},
        "transport/data/flush.cc": {"reconnect"}, "transport/data/rail_use.cc": {"*"},
        "transport/data/state_changes.cc": {"log_first_retry"},
        "transport/device/gid_selection.cc": {"unmet_preference"},
        "transport/device/peermem.cc": {"to_string"},
        "transport/memory/registrar.cc": {"counts_text"},
        "transport/pending_peers.cc": {"evict", "read_all"}},
    "it is written to the file of counters": {"plugin/stats_text.cc": {"*"}},
    "it names a connection and is part of each of its lines": {
        "transport/data/connection.cc": {"text"}, "transport/data/ece_agreement.cc": {"text"},
        "transport/data/send_comm_set_up.cc": {"text"},
        "transport/memory/registrar.cc": {"pair_text"}},
}


def _is_in(table, name, owner):
    return bool(table.get(name, set()) & {"*", owner})


def _words(literals):
    """How many words the sentences among the literals have; names such as "/dev/null" are none."""
    return sum(len(_WORD.findall(_FORMAT.sub(" ", literal))) for literal in literals if " " in literal)


def _reports(statement):
    return bool(_REPORTS.search(statement.code))


def _is_warned(name, statement):
    if any(_is_in(files, name, statement.owner) for files in _NOT_WARNED.values()):
        return False
    if _AT_INFO.search(statement.code):
        return False
    if _reports(statement):
        return _words(statement.literals) >= _WORDS_OF_A_REPORT
    return (_words(statement.literals) >= _WORDS_OF_A_SENTENCE
            and not _INFO_FINDING.search(statement.code))


def warnings(name, text):
    """The statements of a source that have texts of warnings."""
    return [one for one in statements(text) if _is_warned(name, one)]


def _quotable(literals):
    return max((_FORMAT.split(literal) for literal in literals), key=lambda parts: max(map(len, parts)))


def undocumented(name, text, quotations):
    """Lines "name:line: what is wrong" about the warnings of a source."""
    for one in warnings(name, text):
        if not any(quotation.is_in(one.literals) for quotation in quotations if not quotation.mark):
            longest = max(_quotable(one.literals), key=len)
            example = longest.split(". Fix:")[0].strip(" .,:;'\"") or longest
            yield (f"{name}:{one.line}: this warning is missing in {DOCUMENT}: add a row to one of its "
                   f"tables: | `{example}` | cause | fix |. Where it is never printed at WARN, list "
                   f"{one.owner or 'it'} in _NOT_WARNED of {_SELF}")


def outdated(quotations, every):
    """Lines about quotations that no source prints; every: the literals of each statement."""
    for quotation in quotations:
        of_others = quotation.mark == "not ours"
        if not of_others and not any(quotation.is_in(literals) for literals in every):
            yield f"{DOCUMENT}:{quotation.line}: no source prints {quotation} any more"


def missing_functions(sources):
    """Lines about names in the tables of this file that the sources do not have."""
    for table in _NOT_WARNED.values():
        for name, owners in table.items():
            there = {one.owner for one in statements(sources.get(name, ""))}
            yield from (f"{_SELF}: there is no {owner} in {name}" for owner in sorted(owners)
                        if owner not in there and not (owner == "*" and name in sources))


def main(arguments):
    names = [name for name in source_files(_FOLDERS) if name.endswith((".cc", ".h"))]
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    if arguments == ["--list"]:
        for name, text in sources.items():
            for one in warnings(name, text):
                print(f"{name}:{one.line}: " + " ... ".join(one.literals))
        return 0
    quotations, found = read_tables((ROOT / DOCUMENT).read_text(encoding="utf-8"))
    found = [f"{DOCUMENT}:{line}" for line in found] + list(missing_functions(sources))
    for name, text in sources.items():
        found += undocumented(name, text, quotations)
    every = [one.literals for text in sources.values() for one in statements(text) if one.literals]
    found += outdated(quotations, every)
    count = sum(len(warnings(name, text)) for name, text in sources.items())
    print("\n".join(found + [f"{len(found)} log lines undocumented or outdated, of {count} at WARN"]))
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
