"""What the programs of this folder measure, as their option --json writes it and `all` reads it."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config"))
from comparelib import rounds  # pylint: disable=wrong-import-position

OWN = "own"  # the side whose figure is compared with those of the others


@dataclasses.dataclass
class Figure:
    """One figure of every side that has it.

    samples: {side: its values, one a round}, with None for a round without a value. An exact figure is
    a count that repeats, so that one value is enough and its difference is no chance. The target is one
    of the side OWN: of its ratio to the side `target_of`, or, where that is None, of its own median.
    """
    title: str
    unit: str
    samples: dict[str, list[float | None]]
    more_is_better: bool = False
    exact: bool = False
    target: rounds.Target | None = None
    target_of: str | None = None

    def has_target(self):
        """Whether the target is one of these samples; those of peers have none."""
        return self.target is not None and OWN in self.samples

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


def write(file, program, figures):
    """Writes what the option --json is for."""
    record = {"program": program, "figures": [dataclasses.asdict(figure) for figure in figures]}
    pathlib.Path(file).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(file):
    """The figures of a file."""
    record = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    return [_figure(**data) for data in record["figures"]]


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
