"""What the programs of this folder measure, as their option --json writes it and `all` reads it."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import argparse
import dataclasses
import errno
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config"))
from comparelib import rounds  # pylint: disable=wrong-import-position

FORMAT = 2
OWN = "own"  # the side whose figure is compared with those of the others


class Unreadable(Exception):
    """A file has no figures; the text says why."""


@dataclasses.dataclass
class Figure:
    """One figure of every side that has it.

    samples: {side: its values, one a round}, with None for a round without a value. An exact figure is
    a count that repeats, so that one value is enough and its difference is no chance. A steady one, such
    as memory, may differ a little, but not by how busy the machine is or how short the round. The target
    is one of the side OWN: of its ratio to the side `target_of`, or, where that is None, of its own median.
    """
    title: str
    unit: str
    samples: dict[str, list[float | None]]
    more_is_better: bool = False
    exact: bool = False
    steady: bool = False
    target: rounds.Target | None = None
    target_of: str | None = None

    def has_target(self):
        """Whether the target is one of these samples; those of peers have none."""
        return self.target is not None and OWN in self.samples

    def of_time(self):
        """Whether a short round or a busy machine changes the figure."""
        return not (self.exact or self.steady)

    def bound(self):
        """The target in the words of the table: "own <= 632", "ratio >= 0.95"."""
        bounds = f">= {self.target.at_least:g}" if self.target.at_most is None else f"<= {self.target.at_most:g}"
        return f"{'own' if self.target_of is None else 'ratio'} {bounds}"

    def judged(self):
        """The rounds.Summary of what the target bounds; None where no round has it."""
        own = self.samples[OWN]
        if self.target_of is not None:
            return rounds.ratio(own, self.samples.get(self.target_of, []))
        return rounds.summary(value for value in own if value is not None)

    def missed(self):
        """A sentence where the target is missed, else None. Without a value, nothing shows that it is met."""
        if not self.has_target():
            return None
        found = self.judged()
        if found is None:
            return f"{self.title}: no round has a value for the target {self.target}"
        if self.target.met(found):
            return None
        of = f" times that of {self.target_of}" if self.target_of else ""
        return f"{self.title}: {found.median:.3f}{of} is not {self.target}"


def write(path, program, figures):
    """Writes the file, or to the standard output for "-"."""
    write_record(path, {"format": FORMAT, "program": program,
                        "figures": [dataclasses.asdict(figure) for figure in figures]})


def write_record(path, record):
    """Writes what an option --json is for. That its file can be written was checked, but a disk may be full since."""
    text = json.dumps(record, indent=1) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"--json {path} cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def read(path):
    """The figures of a file."""
    try:
        record = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise Unreadable(f"{path} has the format {record['format']}, and {FORMAT} is wanted")
        return [_figure(**data) for data in record["figures"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{path} has no figures ({error})") from error


def _figure(target=None, **data):
    return Figure(target=rounds.Target(**target) if target else None, **data)


def merged(lists):
    """The figures of several runs; those of one title become one figure with the sides of all."""
    found = {}
    for figure in (figure for figures in lists for figure in figures):
        if figure.title in found:
            found[figure.title].samples.update(figure.samples)
        else:
            found[figure.title] = dataclasses.replace(figure, samples=dict(figure.samples))
    return list(found.values())


def writable(text):
    """The type of an option of argparse: a file that can be written, or "-". Nothing is written yet, but what cannot
    be written is an error before hours of measurement."""
    path = pathlib.Path(text)
    try:
        if text == "-":
            pass
        elif path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif path.exists():
            if not os.access(path, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            with tempfile.TemporaryFile(dir=path.resolve().parent):
                pass
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {error.strerror}") from error
    return path


def add_option(parser, what="the figures of every round"):
    parser.add_argument("--json", type=writable, metavar="FILE",
                        help=f"also write {what} to this file, or for - to the standard output, after the text")
