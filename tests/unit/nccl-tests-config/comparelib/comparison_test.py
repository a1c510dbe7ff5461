import unittest

import samples
from comparelib import comparison, perf_table, rounds


class JudgedTest(unittest.TestCase):

    def test_RoundsThatAgree_GiveAVerdict(self):
        self.assertEqual(comparison.judged([1.1, 1.2, 1.3], 0), comparison.FASTER)
        self.assertEqual(comparison.judged([0.9, 0.8, 0.7], 0), comparison.SLOWER)

    def test_RoundsThatDisagree_AreATie(self):
        self.assertEqual(comparison.judged([1.1, 1.2, 0.99], 0), comparison.TIE)
        self.assertEqual(comparison.judged([1.1, 1.2, 1.0], 0), comparison.TIE)

    def test_DifferenceWithinTheControl_IsATie(self):
        noise = comparison.band([0.9, 1.05])  # as far as 1 / 0.9
        self.assertEqual(comparison.judged([1.09, 1.10, 1.12], noise), comparison.TIE)
        self.assertEqual(comparison.judged([1.09, 1.12, 1.13], noise), comparison.FASTER)
        self.assertEqual(comparison.judged([0.91, 0.92, 0.93], noise), comparison.TIE)
        self.assertEqual(comparison.judged([0.85, 0.88, 0.89], noise), comparison.SLOWER)

    def test_OneRound_HasNoVerdict(self):
        self.assertEqual(comparison.judged([2.0], 0), comparison.UNKNOWN)
        self.assertIsNone(comparison.judged([], 0))


class PointsTest(unittest.TestCase):

    def _point(self, times, **options):
        return comparison.points(samples.of_times(times, **options), "all_reduce_perf")[0]

    def test_Control_DecidesAboutTheOthersAndNotAboutItself(self):
        times = {"ib": [{8: 10}] * 3, "gdr": [{8: 9.5}] * 3, "ib#2": [{8: 9}, {8: 10}, {8: 10}]}
        point = self._point(times, control="ib#2")
        self.assertEqual(point.verdict, {"gdr": "tie", "ib#2": None})
        self.assertEqual(
            self._point({side: times[side] for side in ("ib", "gdr")}).verdict, {"gdr": "faster"})

    def test_WrongValues_TakeTheVerdict(self):
        session = samples.of_times({"gdr": [{8: 5}] * 2, "ib": [{8: 10}] * 2})
        bad = perf_table.parse(
            samples.TEXT.format(program="all_reduce_perf",
                                rows=samples.row(8, 5, 3),
                                end=samples.END))
        session.runs[0] = samples.run("gdr", 0, {}, table=bad)
        point = comparison.points(session, "all_reduce_perf")[0]
        self.assertEqual(point.verdict, {"gdr": "wrong"})
        self.assertEqual(point.series["gdr"].wrong, 3)

    def test_RunThatIsLeftOut_IsInNoSeries(self):
        session = samples.of_times({"gdr": [{8: 5}, {8: 6}], "ib": [{8: 10}] * 2})
        session.runs[0] = samples.run("gdr", 0, {8: 1}, left_out=["silent fallback"])
        point = comparison.points(session, "all_reduce_perf")[0]
        self.assertEqual(point.series["gdr"].time_us, [None, 6])
        self.assertEqual(point.speed["gdr"], rounds.Summary(10 / 6, 10 / 6, 10 / 6))

    def test_SizesOfOneSideOnly_HaveNoRatio(self):
        points = comparison.points(samples.of_times({
            "gdr": [{
                8: 5
            }],
            "ib": [{
                8: 10,
                16: 11
            }]
        }), "all_reduce_perf")
        self.assertEqual([(point.size, point.speed["gdr"] is None) for point in points],
                         [(8, False), (16, True)])
        self.assertIsNone(points[1].verdict["gdr"])

    def test_EmptyMessages_AreNoSize(self):
        points = comparison.points(samples.of_times({"gdr": [{0: 5, 8: 5}], "ib": [{0: 6, 8: 6}]}), "all_reduce_perf")
        self.assertEqual([point.size for point in points], [8])

    def test_InPlace_TakesTheOtherHalf(self):
        session = samples.of_times({"gdr": [{8: 5}], "ib": [{8: 10}]})
        row = "  8  2  float  sum  -1  5.0  0.0  0.0  0  4.0  0.0  0.0  0\n"
        session.runs[0] = samples.run("gdr", 0, {}, table=perf_table.parse(row))
        session.in_place = True
        self.assertEqual(
            comparison.points(session, "all_reduce_perf")[0].series["gdr"].time_us, [4.0])


class BandwidthTest(unittest.TestCase):

    def test_SmallMessages_GetTheBandwidthThatTheirTimeHas(self):
        # Four ranks: bus bandwidth is 1.5 times the algorithm bandwidth.
        rows = ("  8  2  float  sum  -1  10.0  0.00  0.00  0  10.0  0.00  0.00  0\n"
                "  1048576  2  float  sum  -1  100.0  10.49  15.73  0  10.0  1.0  1.0  0\n")
        table = perf_table.parse(rows)
        factor = comparison.bus_factor(table, False)
        self.assertAlmostEqual(factor, 1.5, 2)
        self.assertAlmostEqual(comparison.bus_bandwidth(8, table.rows[0].out_of_place, factor),
                               0.0012, 5)
        self.assertAlmostEqual(
            comparison.bus_bandwidth(1 << 20, table.rows[1].out_of_place, factor), 15.73, 2)

    def test_BandwidthThatIsNotOfThisSize_IsKept(self):
        measure = perf_table.Measure(10.0, 3.0, 4.5, 0)
        self.assertEqual(comparison.bus_bandwidth(8, measure, 1.5), 4.5)
        self.assertEqual(comparison.bus_bandwidth(8, measure, None), 4.5)


class TallyTest(unittest.TestCase):

    def test_Verdicts_AreCounted(self):
        session = samples.of_times({
            "gdr": [{
                8: 5,
                16: 20,
                32: 10
            }] * 2,
            "ib": [{
                8: 10,
                16: 10,
                32: 10
            }] * 2
        })
        points = comparison.points(session, "all_reduce_perf")
        self.assertEqual(comparison.tally(points, "gdr"), "1 faster, 1 slower, 1 tie")
        self.assertEqual(comparison.overall(points, "gdr"), rounds.Summary(1, 0.5, 2))


if __name__ == "__main__":
    unittest.main()
