import argparse
import collections
import contextlib
import io
import pathlib
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from arguments import Plugin
from bench_program import load

instructions = load("instructions")


class SideTest(unittest.TestCase):
    """Over fakes of the profiles, of which there is one for each entry of the table."""

    def side(self, *profiles):
        options = argparse.Namespace(plugin=Plugin("own", pathlib.Path("/own.so")), driver=pathlib.Path("/driver"), messages=10)
        found = iter([(collections.Counter(profile), {"calls": 10}) for profile in profiles])
        with mock.patch.object(instructions, "profile", lambda *_: next(found)):
            with contextlib.redirect_stdout(io.StringIO()):
                return instructions.measure_side(options, [("entry", "function", "calls")] * len(profiles))

    def test_Entries_AreAddedUpPerMessage(self):
        self.assertEqual(self.side({"own.so": 300, "libc.so.6": 50}, {"own.so": 100}), 40)

    def test_CodeInAnotherObject_HasNoFigure(self):
        """As few instructions as none, or as those of one entry alone, would be better than any plugin."""
        self.assertIsNone(self.side({"core.so": 300}, {"core.so": 100}))
        self.assertIsNone(self.side({"core.so": 300}, {"own.so": 100}))


if __name__ == "__main__":
    unittest.main()
