import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import unittest
from unittest import mock

import paths
from arguments import Plugin
from parts import PARTS, Setting


def load(program):
    """The program, whose name has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{program.name}", str(program))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses look for it there
    loader.exec_module(module)
    return module


class PartsTest(unittest.TestCase):
    def test_Options_AreThoseOfThePrograms(self):
        """Every program reads the words of its part up to the files, which are not there."""
        own, peer = (Plugin(name, pathlib.Path(f"/{name}.so"), "8") for name in ("own", "peer"))
        runs = [words for part in PARTS.values() for quick in (False, True)
                for words in part.runs(Setting(paths.ROOT, own, [peer], quick))]
        for words in runs:
            errors = io.StringIO()
            with self.subTest(words), mock.patch("sys.argv", [*words, "--json", "/a.json"]):
                with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
                    load(pathlib.Path(words[0])).parse_options()
                self.assertNotRegex(errors.getvalue(), "unrecognized|invalid|expected|required")


if __name__ == "__main__":
    unittest.main()
