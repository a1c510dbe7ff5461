"""What options of the programs take: numbers, and a plugin as NAME=FILE[:TABLE] or FILE[:TABLE]."""

import argparse
import dataclasses
import pathlib


def positive(text):
    """The type of an option of argparse: a whole number from 1 on, as of rounds."""
    return _above_zero(text, int, "a whole number from 1 on")


def positive_real(text):
    """The type of an option of argparse: a number above 0, as of seconds."""
    return _above_zero(text, float, "a number above 0")


def _above_zero(text, kind, wanted):
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return number


@dataclasses.dataclass(frozen=True)
class Plugin:
    """name, file, and the version of the table to use, or "newest"."""
    name: str
    file: pathlib.Path
    table: str = "newest"

    @classmethod
    def parse(cls, text):
        """The type of an option of argparse. Without a name, it has that of the file."""
        name, equals, rest = text.partition("=")
        if not equals:
            name, rest = "", text
        file, colon, table = rest.rpartition(":")
        if not colon or not (table.isdigit() or table == "newest"):
            file, table = rest, "newest"
        if not file:
            raise argparse.ArgumentTypeError(f"{text!r} names no file")
        path = pathlib.Path(file).resolve()
        return cls(name or path.name.split(".")[0], path, table)

    def __str__(self):
        """What parse() reads."""
        return f"{self.name}={self.file}:{self.table}"


def one_name(option, plugins):
    """A sentence where two plugins of an option, which is repeated, have one name; else None."""
    seen = {}
    for plugin in plugins:
        if plugin.name in seen:
            return (f"{option} {seen[plugin.name]} and {option} {plugin} have one name: give one of them another, by "
                    "NAME=FILE")
        seen[plugin.name] = plugin
    return None
