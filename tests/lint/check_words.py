#!/usr/bin/env python3
"""Fails on retired words: in code, comments, strings, documents and file names.

usage: check_words.py [PATH...]    files or folders of the checkout; default: all of it
"""

import re
import sys
from pathlib import Path

from source_files import ROOT, source_files

# Pattern of the retired word, what to write instead. Matched without regard to case, after names such
# as IsToldOf and stand_in have been split into words.
_RETIRED = {
    r"stand[- ]?ins?": "fake, replacement",
    r"strangers?": "unauthenticated peer",
    r"mend(s|ed|ing)?": "fix",
    r"(un)?told|untold|tells?": "logged, reported, signalled, known",
    r"said": "logged, reported",
    r"refusals?": "registration failure",
    r"circumstances": "system facts",
    r"complaints?|complain(s|ed|ing)?": "diagnostic",
    r"remarks?": "info",
    r"(memory|registration) ways?": "registration path",
    r"laps?": "generation",
    r"(is|are|be|as) no rails?|not a rail|not rails": "excluded",
    r"(stands?|stood|standing) still": "deadlock, stall",
    r"nobody (knows|tells)|cannot be told|nowhere": "unknown, without",
    r"hears?|hearing|heard": "read the hello, receive",
    r"flown|flew|flies|fl(y|ying)|in flight as|flights?": "transfer in progress (software HCA)",
    r"bounced?(?! buffer)|bounces": "staged copy",
    r"seats?": "CPU affinity",
    r"house|household": "tree, project",
    r"thrice|hither|thither|albeit": "plain modern English",
}

# What these words mean in their own right, quotes of other programs, and former names in the form
# "was `name`"; matched first and skipped.
_ALLOWED = r"was `[\w -]+|in[- ]flight|warehouse|on the fly|overlaps?|laptops?|collapse[sd]?"

_SKIPPED = {"LICENSE", "tests/lint/check_words.py", "tests/unit/tests/lint/checks_test.py"}
_SKIPPED_SUFFIXES = {".xml", ".svg", ".png"}

_PATTERN = re.compile(
    rf"(?P<allowed>\b(?:{_ALLOWED})\b)|\b(?P<word>" + "|".join(_RETIRED) + r")\b", re.IGNORECASE)


def _words(text):
    """The text with names split: at camel case, underscores and digits."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[0-9])", " ", text)
    return text.replace("_", " ")


def _advice(word):
    return next(say for pattern, say in _RETIRED.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def findings(name, text):
    """Lines "name:line: 'word': write ..." for each retired word in a file of that name."""
    found = []
    lines = [("name", name)] + list(enumerate(text.split("\n"), 1))
    for number, line in lines:
        for match in _PATTERN.finditer(_words(line)):
            word = match["word"]
            if word is not None:
                found.append(f"{name}:{number}: '{word}': write {_advice(word)}")
    return found


def main(paths):
    found = []
    files = 0
    for name in source_files(paths or ["."]):
        if name in _SKIPPED or Path(name).suffix in _SKIPPED_SUFFIXES:
            continue
        files += 1
        found += findings(name, (ROOT / name).read_text(encoding="utf-8", errors="replace"))
    print("\n".join(found + [f"{len(found)} retired words in {files} files"]))
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
