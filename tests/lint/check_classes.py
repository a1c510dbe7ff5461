#!/usr/bin/env python3
"""Fails where a class declares too many methods, or is defined in too many .cc files.

usage: check_classes.py
"""

import re
import sys
from pathlib import PurePath

from source_files import ROOT, source_files

MOST_METHODS, MOST_FILES = 30, 2
# (methods, .cc files) of the classes that are above. The numbers may only become smaller.
STILL_ABOVE = {
    ("softhca", "QueuePair"): (41, 2), ("softhca", "Runtime"): (31, 2), ("tools", "Session"): (32, 2),
}

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                    r"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*|\[\[.*?\]\]", re.S | re.M)
_CLASS = re.compile(r"(?<!enum )\b(?:class|struct|union)\s+(?:\w+::)*(\w+)(?:\s+final)?\s*(?::[^:].*)?$", re.S)
_METHOD = re.compile(r"(?:operator\s*\S+?|[~\w]+)\s*\((?!\s*\*)")
_DEFINED = re.compile(r"^(?!\s)[^;{}()=]*?\b(\w+)::(?:~?\w+|operator\s*[^\s\w(]+)\(", re.M)


def _is_method(statement):
    """Whether a member's declaration, up to its body or semicolon, is that of a function."""
    while re.search(r"<[^<>]*>", statement):
        statement = re.sub(r"<[^<>]*>", "", statement)
    if re.match(r"\s*(using|typedef|friend|static_assert|enum)\b", statement):
        return False
    found = _METHOD.search(statement)
    before = statement[:found.start()] if found else "="
    return "=" not in before and not re.search(r"=\s*delete\s*$", statement)


def methods(text):
    """How many methods each class of a file declares, private ones included."""
    counts, scopes, statement = {}, [], ""
    for token in re.split(r"([{};])", _NOISE.sub(" ", text)):
        if token not in ("{", "}", ";"):
            statement += re.sub(r"\b(public|protected|private)\s*:(?!:)", " ", token)
            continue
        in_class = bool(scopes) and scopes[-1] is not None
        if in_class and token != "}" and _is_method(statement):
            counts[scopes[-1]] += 1
        if token == "{":
            found = _CLASS.search(statement) if "=" not in statement else None
            scopes.append(found.group(1) if found else None)
            if found:
                counts.setdefault(found.group(1), 0)
        elif token == "}" and scopes:
            scopes.pop()
        statement = ""
    return counts


def defined(text):
    """The classes of which a .cc file defines a method."""
    return set(_DEFINED.findall(_NOISE.sub(" ", text)))


def findings(classes, still_above):
    """What speaks against the classes, by room and name: their numbers of methods and of .cc files."""
    for key, numbers in sorted(classes.items()):
        most = still_above.get(key, (MOST_METHODS, MOST_FILES))
        for number, limit, what in zip(numbers, most, ("methods", ".cc files")):
            if number > limit:
                yield f"{key[0]}: {key[1]} has {number} {what}, {limit} are allowed"
    for key, most in sorted(still_above.items()):
        needed = tuple(map(max, classes.get(key, (0, 0)), (MOST_METHODS, MOST_FILES)))
        if needed != most and not any(number > limit for number, limit in zip(needed, most)):
            yield f"{key[0]}: {key[1]} has become smaller: lower its row of STILL_ABOVE to {needed}"


def main():
    counts, files = {}, {}
    names = source_files(["base", "drivers", "topology", "transport", "plugin", "softhca", "tools"])
    for name in (one for one in names if PurePath(one).suffix in (".h", ".cc")):
        room, text = PurePath(name).parts[0], (ROOT / name).read_text(encoding="utf-8")
        for cls, count in methods(text).items():
            counts[room, cls] = max(count, counts.get((room, cls), 0))
        for cls in defined(text) if name.endswith(".cc") else ():
            files.setdefault((room, cls), set()).add(name)
    found = list(findings({key: (count, len(files.get(key, ()))) for key, count in counts.items()},
                          STILL_ABOVE))
    print("\n".join(found + [f"{len(found)} findings about {len(counts)} classes"]))
    return 1 if found or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
