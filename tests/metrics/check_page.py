#!/usr/bin/env python3
"""Checks a page of metrics in Prometheus' text format, version 0.0.4: check_page.py FILE

The parser of Debian's python3-prometheus-client reads it, as a collector does. It is lenient, so what a
collector refuses is checked here.

Exit status: 0 nothing to object to, 1 objections, one in each line; 77 the parser is not installed.
"""

import collections
import re
import sys

try:
    from prometheus_client import parser
except ImportError:
    parser = None

_SKIPPED = 77


def _of_comments(text):
    """HELP and TYPE are there once for each metric, and its lines are one group."""
    names = [re.match(r"(?:# (?:HELP|TYPE) )?([^ {]+)", line)[1] for line in text.split("\n") if line]
    groups = [name for before, name in zip([None, *names], names) if name != before]
    for name, count in collections.Counter(groups).items():
        if count > 1:
            yield f"{name}: its lines are not one group"
        for what in ("HELP", "TYPE"):
            if len(re.findall(rf"(?m)^# {what} {re.escape(name)} \S", text)) != 1:
                yield f"{name}: not one {what}"


def objections(text):
    """What a collector or promtool would object to in the page, as texts."""
    found = [] if text.endswith("\n") else ["no line feed at the end"]
    try:
        families = list(parser.text_string_to_metric_families(text))
    except ValueError as error:
        return found + [f"prometheus_client cannot read it: {error}"]
    found += _of_comments(text)
    for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text):
        if name.endswith("_total") != (kind == "counter"):
            found.append(f"{name}: _total is the end of counters, and of nothing else")
    series = collections.Counter()
    for family in families:
        for sample in family.samples:
            series[sample.name, tuple(sorted(sample.labels.items()))] += 1
    found += [f"{name}: the series is there twice" for (name, _), count in series.items() if count > 1]
    return found if series else [*found, "no sample"]


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
