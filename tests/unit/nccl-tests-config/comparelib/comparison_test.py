import unittest

import samples
from comparelib import comparison, rounds


class JudgedTest(unittest.TestCase):

    def test_Ratios_AreJudgedByTheirRoundsAndTheControl(self):
        noise = comparison.band([0.9, 1.05])  # as far as 1 / 0.9
        for ratios, band, verdict in (
                ([1.1, 1.2, 1.3], 0, "faster"), ([0.9, 0.8, 0.7], 0, "slower"),
                ([1.1, 1.2, 0.99], 0, "tie"), ([1.1, 1.2, 1.0], 0, "tie"),  # the rounds disagree
                ([1.09, 1.10, 1.12], noise, "tie"), ([1.09, 1.12, 1.13], noise, "faster"),
                ([0.91, 0.92, 0.93], noise, "tie"), ([0.85, 0.88, 0.89], noise, "slower"),
                ([2.0], 0, "?"), ([], 0, None)):
            with self.subTest(ratios):
                self.assertEqual(comparison.judged(ratios, band), verdict)


class PointsTest(unittest.TestCase):

    def points(self, session):
        return comparison.points(session, "all_reduce_perf")

    def test_Control_DecidesAboutTheOthersAndNotAboutItself(self):
        times = {"ib": [{8: 10}] * 3, "gdr": [{8: 9.5}] * 3, "ib#2": [{8: 9}, {8: 10}, {8: 10}]}
        self.assertEqual(self.points(samples.of_times(times, control="ib#2"))[0].verdict,
                         {"gdr": "tie", "ib#2": None})
        del times["ib#2"]
        self.assertEqual(self.points(samples.of_times(times))[0].verdict, {"gdr": "faster"})

    def test_WrongValues_TakeTheVerdict(self):
        session = samples.of_times({"gdr": [{8: 5}] * 2, "ib": [{8: 10}] * 2})
        session.runs[0] = samples.run("gdr", 0, {},
                                      samples.table({}, results=[samples.result(8, 5, 3)]))
        point = self.points(session)[0]
        self.assertEqual((point.verdict, point.series["gdr"].wrong), ({"gdr": "wrong"}, 3))

    def test_RunThatIsLeftOut_IsInNoSeries(self):
        session = samples.of_times({"gdr": [{8: 5}, {8: 6}], "ib": [{8: 10}] * 2})
        session.runs[0] = samples.run("gdr", 0, {8: 1}, left_out=["silent fallback"])
        point = self.points(session)[0]
        self.assertEqual(point.series["gdr"].time_us, [None, 6])
        self.assertEqual(point.speed["gdr"], rounds.Summary(10 / 6, 10 / 6, 10 / 6))

    def test_Sizes_OfOneSideHaveNoRatio_AndEmptyOnesAreLeftOut(self):
        points = self.points(
            samples.of_times({"gdr": [{0: 5, 8: 5}], "ib": [{0: 6, 8: 10, 16: 11}]}))
        self.assertEqual([(point.size, point.speed["gdr"] is None) for point in points],
                         [(8, False), (16, True)])
        self.assertIsNone(points[1].verdict["gdr"])

    def test_InPlace_TakesTheOtherHalf(self):
        session = samples.of_times({"gdr": [{8: 5}], "ib": [{8: 10}]})
        row = {**samples.result(8, 5), "in_place": samples.half(8, 4)}
        session.runs[0] = samples.run("gdr", 0, {}, samples.table({}, results=[row]))
        session.in_place = True
        self.assertEqual(self.points(session)[0].series["gdr"].time_us, [4.0])

    def test_Verdicts_AreCounted(self):
        points = self.points(samples.of_times({"gdr": [{8: 5, 16: 20, 32: 10}] * 2,
                                               "ib": [{8: 10, 16: 10, 32: 10}] * 2}))
        self.assertEqual(comparison.tally(points, "gdr"), "1 faster, 1 slower, 1 tie")
        self.assertEqual(comparison.overall(points, "gdr"), rounds.Summary(1, 0.5, 2))


if __name__ == "__main__":
    unittest.main()
