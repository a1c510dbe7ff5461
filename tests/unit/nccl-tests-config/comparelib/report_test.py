import unittest

import samples
from comparelib import comparison, report


def _table(session):
    return report.build(session, comparison.points(session, "all_reduce_perf"))


class ReportTest(unittest.TestCase):

    def _table(self):
        return _table(samples.of_times({"gdr": [{1 << 20: 10}], "ib": [{8: 5, 1 << 20: 25}]}))

    def test_TwoTransports_AsText_ShowRatioOfSpeeds(self):
        lines = report.as_text(self._table()).splitlines()
        self.assertEqual(lines[0].split(), ["gdr", "ib", "gdr/ib"])
        self.assertEqual(lines[1].split(),
                         ["size", "time", "us", "busbw", "time", "us", "busbw", "speed", "#wrong"])
        self.assertEqual(lines[2].split(), ["8", "-", "-", "5.00", "0.00", "-", "0"])
        self.assertEqual(lines[3].split(), ["1M", "10.00", "104.86", "25.00", "41.94", "2.50", "0"])
        self.assertEqual(len({len(line) for line in lines[1:]}), 1)

    def test_SeveralRounds_Built_GiveTheMedianOfTheirRatiosAndTheSpread(self):
        # The ratios of the rounds are 2, 0.5 and 4; that of the median times would be 1.
        lines = _table(
            samples.of_times({
                "gdr": [{
                    8: 10
                }, {
                    8: 20
                }, {
                    8: 100
                }],
                "ib": [{
                    8: 20
                }, {
                    8: 10
                }, {
                    8: 400
                }]
            }))[2]
        self.assertEqual(lines,
                         [["8", "20.00", "0.00", "20.00", "0.00", "2.00", "0.50-4.00", "tie", "0"]])

    def test_RoundWithoutASize_Built_IsLeftOutOfItsRatio(self):
        lines = _table(samples.of_times({"gdr": [{}, {8: 10}], "ib": [{8: 10}, {8: 10}]}))[2]
        self.assertEqual(lines[0][5:8], ["1.00", "1.00-1.00", "?"])

    def test_LongNames_KeepTheColumnsUnderThem(self):
        table = _table(samples.of_times({"a_very_long_name": [{8: 10}], "ib": [{8: 10}]}))
        top, heads, line = report.as_text(table).splitlines()
        self.assertEqual(len(heads), len(line))
        self.assertIn("a_very_long_name/ib", top)
        self.assertEqual(top.index("a_very_long_name") // 8, heads.index("time us") // 8)

    def test_TwoTransports_AsMarkdown_NameTheirColumns(self):
        lines = report.as_markdown(self._table()).splitlines()
        self.assertIn("| gdr time us |", lines[0])
        self.assertTrue(lines[0].endswith("| gdr/ib | #wrong |"))
        self.assertEqual(len({line.count("|") for line in lines}), 1)

    def test_Sizes_AreWrittenAsTheOptionsTakeThem(self):
        self.assertEqual([report.size_text(size) for size in (0, 8, 1000, 1024, 3 << 20, 8 << 30)],
                         ["0", "8", "1000", "1K", "3M", "8G"])


    def test_SizesOfOptions_AreReadAsNcclTestsDoes(self):
        self.assertEqual([report.size_of(text) for text in ("8", "128k", "1M", "1.5G")],
                         [8, 128 << 10, 1 << 20, 3 << 29])
        for text in ("", "M", "8x", "1T"):
            with self.assertRaises(ValueError):
                report.size_of(text)


class SentencesTest(unittest.TestCase):

    def _sentences(self, times, **options):
        session = samples.of_times(times, **options)
        return report.sentences(session, comparison.points(session, "all_reduce_perf"))

    def test_Side_IsDescribedByItsMedianSizeAndItsVerdicts(self):
        rounds = [{8: 10, 1024: 10, 4096: 10}] * 5
        text = self._sentences({"gdr": rounds, "ib": [{8: 20, 1024: 11, 4096: 10}] * 5})
        self.assertEqual(text, [
            "gdr has 1.10 times the speed of ib in the median over the sizes (1.00 to 2.00): "
            "2 faster, 1 tie."
        ])

    def test_Control_IsDescribedByItsLargestDifference(self):
        text = self._sentences({
            "ib": [{
                8: 10
            }] * 5,
            "ib#2": [{
                8: 10
            }] * 4 + [{
                8: 8
            }]
        },
                               control="ib#2")
        self.assertEqual(
            text, ["Control: ib measured against itself differs by up to 25.0 % in a round."])

    def test_FewRounds_AreWarnedOf(self):
        self.assertRegex(
            self._sentences({
                "gdr": [{
                    8: 1
                }] * 3,
                "ib": [{
                    8: 2
                }] * 3
            })[1], "The 3 rounds of one size in 4 agree by chance")

    def test_OneRound_HasNoVerdictAndSaysSo(self):
        self.assertEqual(self._sentences({"gdr": [{8: 1}], "ib": [{8: 2}]})[1:], [
            "No verdict from one round, whose spread is unknown: use --rounds 5 --control."])

    def test_SideWithoutCommonSizes_IsNamed(self):
        self.assertEqual(self._sentences({"gdr": [{8: 1}], "ib": [{16: 2}]}), [
            "gdr has no result that ib has, too."])


if __name__ == "__main__":
    unittest.main()
