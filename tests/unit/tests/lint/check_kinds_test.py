"""Tests of tests/lint/check_kinds.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "lint"))

from check_kinds import faults  # noqa: E402

TABLE = "| kind | what it means | what to do |\n|---|---|---|\n"


class CheckKindsTest(unittest.TestCase):

    def test_each_kind_has_one_row_and_each_row_a_kind(self):
        acs, bar = 'GDR_FINDING_KIND(kAcs, "acs")  // text\n', 'GDR_FINDING_KIND(kBar, "bar")\n'
        cases = [
            (acs, TABLE + "| `acs` | x | y |\n", []),
            (acs + bar, TABLE + "| `acs` | x | y |\n\n" + TABLE + "| `bar` | x | y |\n", []),
            (acs + bar, TABLE + "| `acs` | x | y |\n\n| `bar` | not of a table |\n", ["bar has 0"]),
            (acs, TABLE + "| `acs` | x | y |\n| `acs` | x | y |\n", ["acs has 2"]),
            (acs, TABLE + "| `acs` | x | y |\n| `ats` | x | y |\n", ["no kind ats"]),
            (acs.replace('"acs"', '"Acs_"'), TABLE + "| `Acs_` | x | y |\n", ["not lower case"]),
            ("", "", ["has no kinds"]),
        ]
        for definitions, document, expected in cases:
            with self.subTest(document=document):
                found = list(faults(definitions, document))
                self.assertEqual(len(found), len(expected), found)
                for line, part in zip(found, expected):
                    self.assertIn(part, line)


if __name__ == "__main__":
    unittest.main()
