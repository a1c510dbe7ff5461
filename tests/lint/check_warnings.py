#!/usr/bin/env python3
"""Fails where docs/troubleshooting.md lacks a warning of the plugin, or has one that is not printed.

usage: check_warnings.py [--list]    --list prints each text that has to be documented, and where

What the plugin prints at WARN is written in one of these forms, which this check finds by a lexical
reading of the sources (cpp_statements.py):

  a statement with GDR_WARN or warn_once; with Severity::kWarning or kError of a Finding; or with a
  Code of an Error, or a call of a function whose name begins with fail, as the plugin logs
  the error of every call of NCCL that fails. Its own literals are the text.

  a function whose name ends with "text" or begins with "text_of", or that _TEXTS lists: it makes
  parts of such texts. Each statement with four words or more counts.

  a statement of the first kind without words of its own, such as GDR_WARN("%s", text.c_str()): the
  other statements of its function are the text. Where they have no words either, _PASSED_ON has to
  say where the text is made.

The document quotes each of them in a table of log lines (log_line_tables.py). The parts of a
quotation must follow each other in the literals of one statement.

What this does not see: a function that makes a part of a warning, is not named for it, and is not in
_TEXTS; and what is not in the sources, as the texts of strerror() and of exceptions are.
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
    r"\bGDR_WARN ?\(|\bwarn_once\(|\binvalid_argument\(|\bfail(?:_\w+)?\([^()]*\"\""
    r"|(?<![=!]= )(?:\bSeverity::k(?:Warning|Error)\b|\bkWarning,|\bCode::k\w+ ?,)")
_AT_INFO = re.compile(r"\bGDR_(?:INFO|TRACE) ?\(|\bnote_once\(|Code::kDeclined")
_INFO_FINDING = re.compile(r"Severity::kInfo")
_WORD = re.compile(r"(?<!\S)[^\sA-Za-z]*[A-Za-z][A-Za-z'_]+")
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")
_TEXT_FUNCTION = re.compile(r"text$|^text_of")
_OF_AN_ERROR = re.compile(r"error(?:\(\)|\.|->)|_text\(|: public")
_WORDS_OF_A_REPORT = 2
_WORDS_OF_A_TEXT = 4

# Functions and constants, beside those named for it, that make parts of warnings. "*": all of a file.
_TEXTS = {
    "drivers/cuda/cuda_driver.cc": {"export_dmabuf"},
    "drivers/verbs/verbs_api.cc": {"load_first"},
    "drivers/verbs/wc_text.cc": {"*"},
    "plugin/config/load.cc": {"check_range_family"},
    "plugin/config/not_applicable.cc": {"check_not_applicable"},
    "plugin/guarded.cc": {"fix_of"},
    "plugin/rail_warnings.cc": {"check_device", "check_rails"},
    "topology/nccl/gpudirect.cc": {"*"},
    "topology/rail_map.cc": {"*"},
    "topology/sources/nccl_xml.cc": {"*"},
    "topology/sources/nccl_xml_elements.cc": {"*"},
    "topology/sources/xml_file.cc": {"*"},
    "transport/connector.cc": {"plan_retry"},
    "transport/data/connection.cc": {"kProbeFailed", "kUnreachable"},
    "transport/data/copy_monitor.cc": {"*"},
    "transport/data/failure_log.cc": {"fatal_event", "path_lost"},
    "transport/data/pair_agreement.cc": {"check", "to_string"},
    "transport/data/peer_link.cc": {"on_socket_end"},
    "transport/data/queue_pair.cc": {"to_init", "to_ready_to_receive"},
    "transport/data/receive_comm.cc": {"kUnexpectedData", "on_completion", "take_chunk"},
    "transport/data/recovery_text.cc": {"*"},
    "transport/device/hca.cc": {"add_port", "add_unmatched_entries"},
    "transport/device/hca_filter.h": {"kExcluded"},
    "transport/device/name_list.cc": {"add_entry", "parse"},
    "transport/device/port_exclusion.cc": {"*"},
    "transport/device/socket_interface.cc": {"nothing_found", "parse"},
    "transport/memory/pinned_memory.cc": {"create"},
    "transport/memory/registrar.cc": {"check_staging_allowed", "stage_large_sends"},
    "transport/memory/registration_failure.cc": {"*"},
    "transport/pending_peers.cc": {"on_accept_failed", "refuse_version"},
}

# What has one of the forms and is not printed at WARN by the plugin: why. "*": all of a file.
_NOT_WARNED = {
    "the tools alone read such files": {
        "topology/nccl/release.cc": {"*"}, "topology/sources/hwloc.cc": {"*"},
        "topology/sources/hwloc_xml_check.cc": {"*"}, "topology/sources/nvidia_smi.cc": {"*"},
        "topology/sources/nvidia_smi_matrix.cc": {"*"}},
    "the plugin goes on with sysfs, and logs that at INFO": {
        "topology/live/read_machine.cc": {"read_by_hwloc"},
        "topology/sources/hwloc_library.cc": {"*"}},
    "it is a part of a line at INFO": {
        "plugin/device_table.cc": {"*"}, "topology/live/rail_agreement.cc": {"*"},
        "topology/live/rail_log.cc": {"*"}, "topology/nccl/graph_builder.cc": {"*"},
        "topology/nccl/paths.cc": {"*"}, "topology/nccl/routing.cc": {"*"},
        "transport/data/rail_use.cc": {"*"}, "transport/memory/registrar.cc": {"counts_text"}},
    "it names a connection and is part of each of its lines": {
        "transport/data/connection.cc": {"text"}, "transport/data/send_comm.cc": {"text"},
        "transport/data/ece_agreement.cc": {"text"}, "transport/memory/registrar.cc": {"pair_text"}},
}

# Functions that report a text which is made elsewhere, and is found there by one of the forms.
_PASSED_ON = {
    "base/finding.cc": {"log_findings"},  # each Finding
    "drivers/cuda/cuda_api.h": {"call_failed"},  # the name of a call of CUDA and of its error
    "plugin/config/load.cc": {"read"},  # the notes of device/name_list.cc
    "plugin/net.cc": {"invalid_argument"},  # its callers
    "topology/sources/xml_file.cc": {"error_at_offset"},  # the callers of error_at()
    "transport/data/connection.cc": {"begin_connecting", "log_moved_counters"},  # kUnreachable, take_text()
    "transport/data/failure_log.cc": {"write_line"},  # its callers
    "transport/data/rail_log.cc": {"write"},  # recovery_text.cc
    "transport/data/receive_comm.cc": {"fail_protocol"},  # its callers
    "transport/data/watcher.cc": {"on_fatal_event"},  # a name that libibverbs gives the event
    "transport/data/watcher.h": {"warn_once"},  # its callers
    "transport/memory/gpudirect.cc": {"register_by_dmabuf"},  # registration_failure.cc
    "transport/memory/registration_failure.cc": {"explain"},  # cause_of()
}


def _is_in(table, name, owner):
    return bool(table.get(name, set()) & {"*", owner})


def _words(literals):
    """How many words the sentences among the literals have; names such as "/dev/null" are none."""
    return sum(len(_WORD.findall(_FORMAT.sub(" ", literal))) for literal in literals if " " in literal)


def _is_warned(name, statement):
    return not (_AT_INFO.search(statement.code)
                or any(_is_in(files, name, statement.owner) for files in _NOT_WARNED.values()))


def _reports(statement):
    return bool(_REPORTS.search(statement.code))


def _passes_on(name, statement):
    """Whether the text that a statement reports is made elsewhere, where it is checked."""
    return (_is_in(_PASSED_ON, name, statement.owner) or not statement.owner
            or bool(_OF_AN_ERROR.search(statement.code)))


def warnings(name, text):
    """The statements of a source whose text is printed at WARN, and those whose text is unknown."""
    every = [one for one in statements(text) if _is_warned(name, one)]
    found, unknown = [], []
    for one in every:
        is_text = _TEXT_FUNCTION.search(one.owner) or _is_in(_TEXTS, name, one.owner)
        at_info = _INFO_FINDING.search(one.code) and not _reports(one)
        if is_text and not at_info and _words(one.literals) >= _WORDS_OF_A_TEXT:
            found.append(one)
        if not _reports(one):
            continue
        if _words(one.literals) >= _WORDS_OF_A_REPORT:
            found.append(one)
        elif not _passes_on(name, one):
            made = [other for other in every
                    if other.owner == one.owner and _words(other.literals) >= _WORDS_OF_A_REPORT]
            found += made
            unknown += [] if made else [one]
    return sorted({one.line: one for one in found}.values(), key=lambda one: one.line), unknown


def _quotable(literals):
    return max((_FORMAT.split(literal) for literal in literals), key=lambda parts: max(map(len, parts)))


def undocumented(name, text, quotations):
    """Lines "name:line: what is wrong" about the warnings of a source."""
    found, unknown = warnings(name, text)
    for one in unknown:
        yield (f"{name}:{one.line}: the text that {one.owner}() reports is made elsewhere: write it "
               f"here, or list {one.owner} in _PASSED_ON and what makes the text in _TEXTS of {_SELF}")
    for one in found:
        if not any(quotation.is_in(one.literals) for quotation in quotations if not quotation.mark):
            example = max(_quotable(one.literals), key=len).split(". Fix:")[0].strip()
            yield (f"{name}:{one.line}: this warning is missing in {DOCUMENT}: add a row to one of its "
                   f"tables: | `{example}` | cause | fix |")


def outdated(quotations, every):
    """Lines about quotations that no source prints; every: the literals of each statement."""
    for quotation in quotations:
        of_others = quotation.mark == "not ours"
        if not of_others and not any(quotation.is_in(literals) for literals in every):
            yield f"{DOCUMENT}:{quotation.line}: no source prints {quotation} any more"


def _missing_functions(sources):
    """Lines about names in the tables of this file that the sources do not have."""
    for table in [_TEXTS, _PASSED_ON, *_NOT_WARNED.values()]:
        for name, owners in table.items():
            there = {one.owner for one in statements(sources.get(name, ""))}
            yield from (f"{_SELF}: there is no {owner} in {name}" for owner in sorted(owners)
                        if owner not in there and not (owner == "*" and name in sources))


def main(arguments):
    names = [name for name in source_files(_FOLDERS) if name.endswith((".cc", ".h"))]
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    if arguments == ["--list"]:
        for name, text in sources.items():
            for one in warnings(name, text)[0]:
                print(f"{name}:{one.line}: " + " ... ".join(one.literals))
        return 0
    quotations, found = read_tables((ROOT / DOCUMENT).read_text(encoding="utf-8"))
    found = [f"{DOCUMENT}:{line}" for line in found] + list(_missing_functions(sources))
    for name, text in sources.items():
        found += undocumented(name, text, quotations)
    every = [one.literals for text in sources.values() for one in statements(text) if one.literals]
    found += outdated(quotations, every)
    count = sum(len(warnings(name, text)[0]) for name, text in sources.items())
    print("\n".join(found + [f"{len(found)} log lines undocumented or outdated, of {count} at WARN"]))
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
