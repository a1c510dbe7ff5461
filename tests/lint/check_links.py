#!/usr/bin/env python3
"""Fails on links and paths in documents that lead to nothing: files, headings, paths in code spans, and functions in
blocks that name files.

usage: check_links.py [PATH...]    documents or folders of the checkout; default: all of it
"""

import re
import sys
from pathlib import Path

from source_files import ROOT, source_files

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A block "```files FOLDER/": files below the folder, each with functions, on its line or the next.
_FILES = re.compile(r"^```files (\S+)$(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_OR_FUNCTION = re.compile(r"(\w+/\w+\.(?:cc|h))|\b(\w+)\(\)")
_URL = re.compile(r"[a-z]+:")


def _without_fences(text):
    """The text with code blocks blanked out; lines keep their numbers."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def _anchor(heading):
    """The anchor that GitHub gives a heading: "## A `b`, c" has #a-b-c."""
    text = _LINK.sub(lambda link: link[0][1:link[0].index("]")], heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def _anchors(document):
    text = _without_fences(document.read_text(encoding="utf-8"))
    return {_anchor(heading) for heading in _HEADING.findall(text)}


def _broken_link(document, target):
    """What is wrong with a link of that document, or None."""
    if _URL.match(target):
        return None
    name, _, anchor = target.partition("#")
    file = (document.parent / name).resolve() if name else document
    if not file.exists():
        return f"link to {target}: no such file"
    if anchor and file.suffix == ".md" and anchor not in _anchors(file):
        return f"link to {target}: no such heading"
    return None


def _broken_path(root, folders, span):
    """What is wrong with a code span that looks like a path from the root, or None.

    Covers spans such as `base/log.h`, `tests/unit/` and `base/log` (for log.h or log.cc), also as
    the first word of a command; not build outputs, patterns, or paths that begin elsewhere.
    """
    word = span.split()[0] if span.split() else ""
    if not _PATH.fullmatch(word) or word.split("/")[0] not in folders:
        return None
    if (root / word).exists() or any((root / word).parent.glob(Path(word).name + ".*")):
        return None
    return f"path {word}: no such file"


def _broken_functions(text, root):
    """What is wrong with the files and functions of blocks that name them."""
    for folder, block in _FILES.findall(text):
        code = ""
        for file, function in _FILE_OR_FUNCTION.findall(block):
            if file:
                path = root / folder / file
                code = path.read_text(encoding="utf-8") if path.is_file() else ""
                if not code:
                    yield f"{folder}{file}: no such file"
            elif code and not re.search(rf"\b{function}\(", code):
                yield f"{function}(): not in the file that is named before it"


def findings(name, folders, root=ROOT):
    """Lines "name:line: what is wrong" for a document; folders are the tree's at its root."""
    document = root / name
    whole = document.read_text(encoding="utf-8")
    text = _without_fences(whole)
    found = [f"{name}: {what}" for what in _broken_functions(whole, root)]
    for number, line in enumerate(text.split("\n"), 1):
        wrong = [_broken_link(document, target) for target in _LINK.findall(line)]
        wrong += [_broken_path(root, folders, span) for span in _CODE_SPAN.findall(line)]
        found += [f"{name}:{number}: {what}" for what in wrong if what is not None]
    return found


def main(paths):
    folders = {name.split("/")[0] for name in source_files(["."]) if "/" in name}
    documents = [name for name in source_files(paths or ["."]) if name.endswith(".md")]
    found = [line for name in documents for line in findings(name, folders)]
    print("\n".join(found + [f"{len(found)} broken links or paths in {len(documents)} documents"]))
    return 1 if found or not documents else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
