"""Which rail is slow, and why."""

import unittest

import paths  # noqa: F401  (sets the module path)
from burn_in import plan, report, verdict
from burn_in.plan import Case
from burn_in.verdict import FAILURE, OK, UNKNOWN, Result
from ends import end, rail


def judged(cases, gbits, shares=""):
    results = [Result(case.subject(), case, rate) for case, rate in zip(cases, gbits)]
    verdict.judge(results, verdict.parse_shares(shares))
    return results


def gpu_case(path):
    one = end(0, gpu=0, path=path)
    return Case("loopback", one, one)


class BandwidthTest(unittest.TestCase):

    def test_OneRail_IsComparedWithItsLink(self):
        # (path, Gb/s of a link of 400, --expect, verdict)
        for path, gbits, shares, expected in (
                ("HOST", 360, "", OK), ("HOST", 359, "", FAILURE), ("PIX", 360, "", OK),
                ("PHB", 320, "", OK), ("PHB", 319, "", FAILURE), ("SYS", 120, "", OK),
                ("SYS", 119, "", FAILURE), ("NEW", 120, "", OK), ("NEW", 119, "", FAILURE),
                ("PIX", 199, "HOST=99,PIX=50", FAILURE), ("PIX", 200, "HOST=99,PIX=50", OK)):
            with self.subTest(f"{path} {gbits}"):
                self.assertEqual(judged([gpu_case(path)], [gbits], shares)[0].verdict, expected)

    def test_Pair_IsComparedWithTheSlowerPortAndTheWorsePath(self):
        pair = Case("local", end(0, gbits=200.0), end(1, gpu=0, path="PHB"))
        self.assertEqual(judged([pair], [160])[0].verdict, OK)
        self.assertIn("79 % of 200 Gb/s, and 80 % are expected (PHB)", judged([pair], [158])[0].text)

    def test_Shares_ThatCannotBeUsed_AreAnError(self):
        for text in ("PUX=90", "PIX", "PIX=", "PIX=0", "PIX=101", "PIX=9.5", "PIX=90,=3"):
            with self.subTest(text), self.assertRaises(ValueError):
                verdict.parse_shares(text)

    def test_Siblings_ShowARailWhoseLinkTrainedDownOrIsUnknown(self):
        # (rates of the links, Gb/s, verdicts)
        for links, gbits, expected in (
                ((400, 400, 100), (390, 390, 97), (OK, OK, FAILURE)),
                ((0, 0, 0), (390, 390, 330), (OK, OK, FAILURE)),
                ((0, 0, 0), (390, 390, 340), (OK, OK, OK)),
                ((0, 0), (390, 200), (OK, FAILURE)),
                ((0,), (390,), (UNKNOWN,))):
            with self.subTest(gbits):
                cases = plan.loopback([rail(i, gbits=link) for i, link in enumerate(links)])
                self.assertEqual(tuple(one.verdict for one in judged(cases, gbits)), expected)

    def test_OtherModelsAndPaths_AreNotSiblings(self):
        models = plan.loopback([rail(0), rail(1, model="0x15b3 0x101b", gbits=100.0)])
        for cases in (models, [gpu_case("PIX"), gpu_case("SYS")]):
            self.assertEqual([one.verdict for one in judged(cases, [400, 130])], [OK, OK])

    def test_DeviceOfSoftware_IsNotJudged(self):
        for second in (end(1), end(1, is_virtual=True)):
            one = judged([Case("local", end(0, is_virtual=True), second)], [1])[0]
            self.assertEqual(one.verdict, UNKNOWN)
            self.assertIn("device of software", one.text)


class ReasonTest(unittest.TestCase):

    def reason(self, cases, gbits, which=0):
        one = judged(cases, gbits)[which]
        self.assertEqual(one.verdict, FAILURE)
        self.assertTrue(one.fix)
        return one.text

    def test_SlowRail_HasTheLikelyReason(self):
        ring = plan.local([rail(0), rail(1), rail(2)])
        gpus = plan.local([rail(0, gpus=[0]), rail(1, gpus=[1])])
        degraded = plan.local([rail(0, pcie="width 8 of 16"), rail(1)])
        for cases, gbits, text in (
                (ring, (200, 390, 200), "rail 0 mlx5_0:1 is slow as the sender and as the receiver"),
                (ring, (200, 390, 390), "it is one of both ports or what is between them"),
                (degraded, (200, 200), "the PCIe link of mlx5_0 is degraded: width 8 of 16"),
                (plan.loopback([rail(0)]), (200,), "without the cable, it is PCIe")):
            with self.subTest(text):
                self.assertIn(text, self.reason(cases, gbits))
        self.assertIn("it is the path to the GPU", self.reason(gpus, (390, 200, 390, 390), 1))
        self.assertNotIn("the path to the GPU", self.reason(gpus, (200, 200, 390, 390), 1))

    def test_PairThatIsNotReached_IsAFaultWhereOthersShowIt(self):
        ring = plan.local([rail(i) for i in range(4)])
        # (whether a small message arrived; None: not known, verdicts of pairs where none did)
        for reached, expected in (
                ((True, False, True, True), [FAILURE]),
                ((False, False, True, True), [FAILURE, FAILURE]),  # rail 1 reaches none
                ((False, True, False, True), [UNKNOWN, UNKNOWN]),  # two fabrics without a connection
                ((False, False, False, False), [UNKNOWN] * 4),
                ((False, None, None, None), [UNKNOWN])):
            with self.subTest(reached):
                results = [Result("", case, is_reached=one) for case, one in zip(ring, reached)]
                verdict.judge(results, verdict.SHARES)
                lost = [one for one in results if one.is_reached is False]
                self.assertEqual([one.verdict for one in lost], expected)
                for one in lost:
                    self.assertEqual("keeps rails apart" in one.fix, one.verdict == UNKNOWN)

    def test_RailsOfTwoMachines_HaveToReachEachOther(self):
        one = Result("", plan.remote([rail(0)], [rail(0)])[0], is_reached=False)
        verdict.judge([one], verdict.SHARES)
        self.assertEqual(one.verdict, FAILURE)


class ReportTest(unittest.TestCase):

    def test_Text_HasATableAndEqualNotesOnce(self):
        results = judged(plan.local([rail(0), rail(1, is_virtual=True)]), (390.04, 380))
        results[0].latency_us = 1.93
        results.append(Result("rail 2 mlx5_2:1", verdict=FAILURE, text="the port is down", fix="look"))
        self.assertEqual(report.as_text(results), """\
| rails                              | memory      |  Gb/s | of link |  us | verdict |
|------------------------------------|-------------|------:|--------:|----:|---------|
| rail 0 mlx5_0:1 to rail 1 mlx5_1:1 | host memory | 390.0 |       - | 1.9 | unknown |
| rail 1 mlx5_1:1 to rail 0 mlx5_0:1 | host memory | 380.0 |       - |   - | unknown |
| rail 2 mlx5_2:1                    |             |     - |       - |   - | failure |

unknown: rail 0 mlx5_0:1 to rail 1 mlx5_1:1, host memory; rail 1 mlx5_1:1 to rail 0 mlx5_0:1, host memory
  a device of software has no rate of its own, so that this is not judged

failure: rail 2 mlx5_2:1
  the port is down
  Fix: look

1 failed, 2 unknown, 0 ok""")
        good = report.as_text(judged(plan.loopback([rail(0)]), (390,)))
        self.assertEqual(good.split("\n")[2:], [
            "| rail 0 mlx5_0:1 to itself | host memory | 390.0 |    98 % |  - | ok      |", "",
            "0 failed, 0 unknown, 1 ok"])

    def test_ExitStatus_IsThatOfTheWorstThatIsKnown(self):
        for verdicts, status in (((OK, UNKNOWN), 0), ((OK, FAILURE), 1), ((UNKNOWN,), 3), ((), 3)):
            self.assertEqual(verdict.exit_status([Result("", verdict=one) for one in verdicts]), status)


if __name__ == "__main__":
    unittest.main()
