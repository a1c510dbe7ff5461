"""A plugin that an option names: NAME=FILE[:TABLE], or FILE[:TABLE], which has the name of the file."""

import argparse
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Plugin:
    """name, file, and the version of the table to use, or "newest"."""
    name: str
    file: pathlib.Path
    table: str = "newest"

    @classmethod
    def parse(cls, text):
        """The type of an option of argparse."""
        name, equals, rest = text.partition("=")
        if not equals:
            name, rest = "", text
        file, colon, table = rest.rpartition(":")
        if not colon or not (table.isdigit() or table == "newest"):
            if colon and not pathlib.Path(rest).exists():
                raise argparse.ArgumentTypeError(
                    f"{rest!r} does not exist, and {table!r} is no version of a table of {file!r}: that is a "
                    "number, or newest")
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
