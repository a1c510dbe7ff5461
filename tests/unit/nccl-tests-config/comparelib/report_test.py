import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import perf_table, report


class ReportTest(unittest.TestCase):

    def _table(self):
        fast = perf_table.parse(" 1048576 2 float sum -1 10 2.0 2.0 0 1 1 1 0")
        slow = perf_table.parse(" 1048576 2 float sum -1 25 1.0 1.0 0 1 1 1 0\n"
                                " 8 2 float sum -1 5 0.0 0.0 0 1 1 1 N/A")
        return report.build({"gdr": [fast], "ib": [slow]}, "ib")

    def test_TwoTransports_AsText_ShowRatioOfSpeeds(self):
        lines = report.as_text(self._table()).splitlines()
        self.assertEqual(lines[1].split()[-1], "gdr/ib")
        self.assertEqual(lines[2].split(), ["8", "-", "-", "-", "-", "5.00", "0.00", "0.00", "0", "-"])
        self.assertEqual(lines[3].split()[0], "1M")
        self.assertEqual(lines[3].split()[-1], "2.50")
        self.assertEqual(len({len(line) for line in lines[1:]}), 1)

    def test_SeveralRepeats_Built_GiveTheMedianOfTheirRatios(self):
        def tables(*times):
            return [perf_table.parse(f" 8 2 float sum -1 {time} 1 1 0 {time} 1 1 0") for time in times]

        # The ratios of the repeats are 2, 0.5 and 4; that of the median times would be 1.
        lines = report.build({"gdr": tables(10, 20, 100), "ib": tables(20, 10, 400)}, "ib")[2]
        self.assertEqual(lines[0][1], "20.00")
        self.assertEqual(lines[0][-1], "2.00")

    def test_RepeatWithoutASize_Built_IsLeftOutOfItsRatio(self):
        empty = perf_table.parse("")
        row = perf_table.parse(" 8 2 float sum -1 10 1 1 0 10 1 1 0")
        lines = report.build({"gdr": [empty, row], "ib": [row, row]}, "ib")[2]
        self.assertEqual(lines[0][-1], "1.00")

    def test_TwoTransports_AsMarkdown_NameTheirColumns(self):
        lines = report.as_markdown(self._table()).splitlines()
        self.assertIn("| gdr time us |", lines[0])
        self.assertTrue(lines[0].endswith("| gdr/ib |"))
        self.assertEqual(len({line.count("|") for line in lines}), 1)


if __name__ == "__main__":
    unittest.main()
