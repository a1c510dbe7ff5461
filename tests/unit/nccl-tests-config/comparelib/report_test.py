import unittest

import samples
from comparelib import comparison, report, tables


def _points(session):
    return comparison.points(session, "all_reduce_perf")


def _table(times):
    session = samples.of_times(times)
    return report.build(session, _points(session))


class TableTest(unittest.TestCase):
    _TIMES = {"gdr": [{1 << 20: 10}], "ib": [{8: 5, 1 << 20: 25}]}

    def test_TwoTransports_ShowRatioOfSpeeds(self):
        self.assertEqual(tables.table(_table(self._TIMES)), """\
| size | gdr us | gdr GB/s | ib us | ib GB/s | gdr/ib | #wrong |
|-----:|-------:|---------:|------:|--------:|-------:|-------:|
|    8 |      - |        - |  5.00 |    0.00 |      - |      0 |
|   1M |  10.00 |   104.86 | 25.00 |   41.94 |   2.50 |      0 |""")

    def test_SeveralRounds_GiveTheMedianOfTheirRatiosAndTheSpread(self):
        # The ratios of the rounds are 2, 0.5 and 4; that of the median times would be 1.
        self.assertEqual(
            _table({"gdr": [{8: 10}, {8: 20}, {8: 100}], "ib": [{8: 20}, {8: 10}, {8: 400}]})[1],
            ["8", "20.00", "0.00", "20.00", "0.00", "2.00", "0.50-4.00", "tie", "0"])
        self.assertEqual(_table({"gdr": [{}, {8: 10}], "ib": [{8: 10}, {8: 10}]})[1][5:8],
                         ["1.00", "1.00-1.00", "?"])

    def test_Sizes_AreWrittenAndReadAsTheOptionsTakeThem(self):
        self.assertEqual([report.size_text(size) for size in (0, 8, 1000, 1024, 3 << 20, 8 << 30)],
                         ["0", "8", "1000", "1K", "3M", "8G"])
        self.assertEqual([report.size_of(text) for text in ("8", "128k", "1M", "1.5G")],
                         [8, 128 << 10, 1 << 20, 3 << 29])
        for text in ("", "M", "8x", "1T"):
            with self.assertRaises(ValueError):
                report.size_of(text)


class SentencesTest(unittest.TestCase):

    def test_Sentences_DescribeSidesControlAndRounds(self):
        side, five = "2.00 times its speed in the median over the sizes (2.00 to 2.00): ", 5
        for times, control, expected in (
                ({"gdr": [{8: 10, 1024: 10, 4096: 10}] * five, "ib": [{8: 20, 1024: 11, 4096: 10}] * five}, None, [
                    "gdr is faster than ib: 1.10 times its speed in the median over the sizes (1.00 to 2.00): 2 faster, 1 tie."]),
                ({"ib": [{8: 10}] * five, "ib#2": [{8: 10}] * 4 + [{8: 8}]}, "ib#2", [
                    "Control: ib measured against itself differs by up to 25.0 % in a round."]),
                ({"gdr": [{8: 1}] * 3, "ib": [{8: 2}] * 3}, None, [
                    f"gdr is faster than ib: {side}1 faster.", "The 3 rounds of one size in 4 agree by chance alone; --rounds 5 or more, and "
                    "--control, make the verdicts reliable."]),
                ({"gdr": [{8: 1}], "ib": [{8: 2}]}, None, [
                    f"gdr cannot be judged beside ib: {side}1 ?.", "No verdict from one round, whose spread is unknown: use --rounds 5 --control."]),
                ({"gdr": [{8: 1}], "ib": [{16: 2}]}, None, ["gdr has no result that ib has, too."])):
            with self.subTest(times):
                session = samples.of_times(times, control=control)
                points = _points(session)
                self.assertEqual(report.verdicts(session, points) + report.sentences(session, points), expected)

    def test_Verdict_IsThatOfAllSizesTogether(self):
        for times, verdict in (({8: 10, 1024: 10}, "is as fast as ib: "), ({8: 20, 1024: 10}, "is slower than ib: "),
                               ({8: 20, 1024: 5}, "is faster than ib at some sizes and slower at others: ")):
            session = samples.of_times({"gdr": [times] * 2, "ib": [{8: 10, 1024: 10}] * 2})
            self.assertIn(f"gdr {verdict}", report.verdicts(session, _points(session))[0])


class FactsTest(unittest.TestCase):

    def test_Facts_NameGpusModeHalfAndRounds(self):
        times = {"gdr": [{8: 1}] * 2, "ib": [{8: 1}] * 2}
        self.assertEqual(report.facts(samples.of_times(times, mode="processes")),
                         "2 x NVIDIA H200, 2 ranks, processes, out of place, medians of 2 rounds")
        self.assertIn("2 ranks, over the software HCA, out", report.facts(samples.of_times(times, softhca=True)))
        self.assertIn("8 ranks as 4 nodes",
                      report.facts(samples.of_times(times, ranks=8, ranks_per_node=2)))
        self.assertTrue(report.facts(samples.of_times({"ib": [{8: 1}]})).endswith("one run"))

    def test_Document_HasTablesCommandsOutcomeChannelsAndVersions(self):
        session = samples.of_times({"gdr": [{8: 1}], "ib": [{8: 1}]})
        text = report.document(session, {"all_reduce_perf": _points(session)}, ["2 runs"])
        for part in ("## all_reduce_perf\n", "| gdr/ib |", "\n```\nNCCL_NET=gdr all_reduce_perf\nNCCL_NET=ib ",
                     "## Outcome\n\n- 2 runs\n", "- all_reduce_perf gdr: network GDR; via NET/GDR/0/GDRDMA x1\n",
                     "- NCCL: 22803\n"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
