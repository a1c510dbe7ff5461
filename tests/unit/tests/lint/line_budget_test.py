import unittest

import paths  # noqa: F401  (sets the module path)
import line_budget

_PAGE = """\
## The budget

| part | lines |
|---|--:|
| base, plugin | 36,000 |
| tests (C++, data) | 730 |
| docs, README | 9,000 |
| all | 160,000 |

`./run test`
"""
_LINES = {"base/log.cc": 1, "plugin/config/options.def": 2, "tests/data.xml": 4, "docs/plugin.md": 8,
          "README.md": 16, "run": 32}


class LineBudgetTest(unittest.TestCase):

    def test_Table_HasThePartsAndTheirBudgets(self):
        self.assertEqual(line_budget.rows(_PAGE),
                         [("base, plugin", 36000), ("tests (C++, data)", 730),
                          ("docs, README", 9000), ("all", 160000)])

    def test_Part_HasTheLinesOfItsFoldersAndDocuments(self):
        for part, lines in (("base, plugin", 3), ("tests (C++, data)", 4), ("docs, README", 24),
                            ("all", 63)):
            with self.subTest(part):
                self.assertEqual(line_budget.lines_of(part, _LINES), lines)


if __name__ == "__main__":
    unittest.main()
