"""The tables of a document that explain log lines: "| log line | cause | fix |" and their rows.

The first cell of a row has quotations of lines, separated by commas. A quotation is a code span, or
several with " ... " between them, and may end with a mark: (INFO), (TRACE), or (not ours) for a line
of another program.
"""

import re
from dataclasses import dataclass

_HEADER = re.compile(r"\| *log line *\|")
_RULE = re.compile(r"\|[ :|-]+\|$")
_SPAN = r"`[^`]+`"
_QUOTATION = re.compile(rf"(?P<spans>{_SPAN}(?: \.\.\. {_SPAN})*)(?: \((?P<mark>INFO|TRACE|not ours)\))?"
                        r"(?P<end>, |$)")
_CELLS = 3
_SHORTEST = 7  # characters


@dataclass
class Quotation:
    line: int     # of the document
    parts: tuple  # what the log line contains, in this order
    mark: str     # "" where the plugin prints the line at WARN

    def is_in(self, literals):
        """Whether the parts follow each other in the literals."""
        rest = list(literals)
        for part in self.parts:
            while rest and part not in rest[0]:
                del rest[0]
            if not rest:
                return False
            rest[0] = rest[0][rest[0].index(part) + len(part):]
        return True

    def __str__(self):
        return " ... ".join(f"`{part}`" for part in self.parts)


def _cells(row):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def _quotations(cell, number):
    """The quotations of a first cell; None where it holds anything else."""
    found = []
    position = 0
    while position < len(cell):
        match = _QUOTATION.match(cell, position)
        if not match:
            return None
        parts = tuple(part.strip("`") for part in re.findall(_SPAN, match["spans"]))
        found.append(Quotation(number, parts, match["mark"] or ""))
        position = match.end()
    return found


def _sort_key(cell):
    return re.sub(r"[^a-z0-9 ]", "", cell.lower()).strip()


def _findings_of_row(cells, quotations):
    if quotations is None:
        yield "the first cell is no list of quotations such as `a` ... `b` (INFO), `c`"
    if len(cells) != _CELLS or not all(cells):
        yield "a row has a log line, its cause and its fix"
    for quotation in quotations or []:
        if sum(len(part.strip()) for part in quotation.parts) < _SHORTEST:
            yield f"{quotation} is too short to find a line by"


def read_tables(text):
    """The quotations of all tables of log lines, and lines "number: what is wrong" about their rows."""
    quotations, found = [], []
    inside, last = False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if _HEADER.match(line):
            inside, last = True, ""
        elif not line.startswith("|"):
            inside = False
        elif inside and not _RULE.match(line):
            cells = _cells(line)
            of_row = _quotations(cells[0], number) if cells else None
            found += [f"{number}: {what}" for what in _findings_of_row(cells, of_row)]
            quotations += of_row or []
            if cells and _sort_key(cells[0]) < last:
                found.append(f"{number}: the rows of a table are in alphabetical order: move this one up")
            last = _sort_key(cells[0]) if cells else last
    return quotations, found
