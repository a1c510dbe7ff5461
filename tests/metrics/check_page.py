#!/usr/bin/env python3
"""Checks a page of metrics in Prometheus' text format, version 0.0.4: check_page.py FILE

The parser of Debian's python3-prometheus-client reads it, as a collector does. It is lenient, so the rest
of the format is checked here, with the rules of `promtool check metrics` about names, which tests can then
do without: HELP for each metric; _total for counters and for nothing else; the reserved suffixes and labels
of histograms and summaries; snake_case without colons; no type and no abbreviated or derived unit in a name.

Exit status: 0 nothing to object to, 1 objections, one in each line; 77 the parser is not installed.
"""

import re
import sys

try:
    from prometheus_client import parser
except ImportError:
    parser = None

_SKIPPED = 77
_LABEL = re.compile(r'([^=,{]+)="((?:[^"\\]|\\[\\n"])*)"')
_SERIES = re.compile(r'([^\s{]+)(\{.*\})?[ \t]+(\S+)(?:[ \t]+-?[0-9]+)?')
_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
# A unit has its full name, and is the base unit: seconds, bytes, ratio and so on.
_ABBREVIATED = set("s ms us ns sec b kb mb gb tb pb m h d".split())
_DERIVED = re.compile(r"(?:pico|nano|micro|milli|centi|deci|kilo|mega|giga|tera|peta|kibi|mebi|gibi|tebi)"
                      r"(?:seconds?|bytes?|meters?|grams?|celsius|volts?|amperes?|joules?)|minutes?|hours?|"
                      r"days?|weeks?|bits?|percent|fahrenheit")


def _name_objections(name, kind):
    words = name.split("_")
    if re.search("[A-Z]", name):
        yield "the name is not in snake_case"
    if ":" in name:
        yield "colons are for rules that record"
    if kind == "counter" and not name.endswith("_total"):
        yield "the name of a counter ends in _total"
    if kind != "counter" and name.endswith("_total"):
        yield "_total is for counters"
    if kind not in ("histogram", "summary") and words[-1] in ("count", "sum"):
        yield f"_{words[-1]} is for histograms and summaries"
    if kind != "histogram" and words[-1] == "bucket":
        yield "_bucket is for histograms"
    if kind in words:
        yield f"the name has the type, {kind}"
    for word in words:
        if word in _ABBREVIATED:
            yield f"the unit {word} is abbreviated"
        if _DERIVED.fullmatch(word):
            yield f"{word} is no base unit"


class _Page:
    def __init__(self, text):
        self.objections = []
        self._help, self._types, self._series = {}, {}, set()
        self._families = []  # in the order of their first lines
        if not text.endswith("\n"):
            self.objections.append("no line feed at the end")
        for number, line in enumerate(text.split("\n"), 1):
            for objection in self._read(line):
                self.objections.append(f"line {number}: {objection}: {line}")
        for name in self._families:
            if not self._help.get(name):
                self.objections.append(f"{name}: no HELP")
            if name not in self._types:
                self.objections.append(f"{name}: no TYPE")
            self.objections += [f"{name}: {what}" for what in _name_objections(name, self._types.get(name, ""))]

    def _enter(self, name):
        """A metric's lines are one group."""
        if self._families and self._families[-1] == name:
            return
        if name in self._families:
            yield f"{name} was complete before"
        else:
            self._families.append(name)

    def _read(self, line):
        comment = re.fullmatch(r"# (HELP|TYPE) (\S+) (.*)", line)
        if comment:
            what, name, value = comment.groups()
            yield from self._enter(name)
            known = self._help if what == "HELP" else self._types
            if name in known:
                yield f"second {what}"
            if any(series[0] == name for series in self._series):
                yield f"{what} follows a sample"
            if what == "TYPE" and value not in _TYPES:
                yield "no type"
            known[name] = value
        elif line and not line.startswith("#"):
            yield from self._read_series(line)

    def _read_series(self, line):
        parts = _SERIES.fullmatch(line)
        if not parts or not re.fullmatch("[a-zA-Z_:][a-zA-Z0-9_:]*", parts[1]):
            yield "cannot be read"
            return
        name = self._family_of(parts[1])
        yield from self._enter(name)
        inner = (parts[2] or "{}")[1:-1].rstrip(",")
        labels = [match.groups() for match in _LABEL.finditer(inner)]
        if ",".join(f'{label}="{value}"' for label, value in labels) != inner:
            yield "labels that cannot be read"
        names = [label for label, _ in labels]
        if len(set(names)) != len(names):
            yield "a label twice"
        for label in names:
            if not re.fullmatch("[a-z_][a-z0-9_]*", label) or label.startswith("__"):
                yield f"label {label} is not in snake_case, or reserved"
        if "le" in names and self._types.get(name) != "histogram":
            yield "label le is for histograms"
        if "quantile" in names and self._types.get(name) != "summary":
            yield "label quantile is for summaries"
        try:
            float(parts[3])
        except ValueError:
            yield "no number"
        series = (name, parts[1], tuple(sorted(labels)))
        if series in self._series:
            yield "the series is there twice"
        self._series.add(series)

    def _family_of(self, name):
        """Samples of histograms and summaries have suffixes of their own."""
        for suffix in ("_bucket", "_count", "_sum"):
            family = name.removesuffix(suffix)
            if family != name and self._types.get(family) in ("histogram", "summary"):
                return family
        return name


def objections(text):
    """What a collector or promtool would object to in the page, as texts."""
    found = _Page(text).objections
    try:
        samples = sum(len(family.samples) for family in parser.text_string_to_metric_families(text))
    except ValueError as error:
        return found + [f"prometheus_client cannot read it: {error}"]
    lines = sum(1 for line in text.split("\n") if line and not line.startswith("#"))
    if samples != lines:
        found.append(f"prometheus_client reads {samples} samples in {lines} lines")
    if lines == 0:
        found.append("no sample")
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if parser is None:
        print("prometheus_client (Debian package python3-prometheus-client) is not installed")
        return _SKIPPED
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        found = objections(file.read())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
