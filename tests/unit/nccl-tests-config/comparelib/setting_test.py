import copy
import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import setting


def _sendrecv(mib_s, us, wrong=0):
    """A report of `perf sendrecv` over the sizes 0 and 8."""
    return {"tool": "sendrecv",
            "bandwidth": [{"bytes": 0, "average_mib_s": 0.0, "peak_mib_s": 0.0},
                          {"bytes": 8, "average_mib_s": mib_s, "peak_mib_s": 9e9}],
            "latency": [{"bytes": 0, "typical_us": us / 2, "min_us": 0.0},
                        {"bytes": 8, "typical_us": us, "min_us": 0.0}],
            "checked": True, "verified": 100, "wrong": wrong}


def _all_reduce(out_of_place, in_place):
    return {"tool": "all_reduce", "ranks": [{"rank": 0}, {"rank": 1}],
            "results": [{"bytes": 1024, "out_of_place": {"busbw_gb_s": out_of_place},
                         "in_place": {"busbw_gb_s": in_place}}],
            "checked": True, "wrong": 0}


# The ratios of the rounds at 8 bytes are 0.5, 0.53 and 4 for bandwidth, and 1.25, 2 and 0.25 for latency.
_REPORTS = {"first": [_sendrecv(200, 4), _sendrecv(200, 3), _sendrecv(225, 900)],
            "second": [_sendrecv(100, 5), _sendrecv(106, 6), _sendrecv(900, 225)]}


class ParseTest(unittest.TestCase):

    def test_Staging_MeansThePluginsVariable(self):
        self.assertEqual(setting.parse("staging"), setting.Setting("GDR_NCCL_GPU_MEMORY", "staging"))

    def test_NameAndValue_AreSplitAtTheFirstEqualsSign(self):
        self.assertEqual(setting.parse("NCCL_IB_HCA==mlx5_0"),
                         setting.Setting("NCCL_IB_HCA", "=mlx5_0"))
        self.assertEqual(setting.parse("_a1="), setting.Setting("_a1", ""))
        self.assertEqual(str(setting.parse("A=b=c")), "A=b=c")

    def test_Malformed_IsRejectedNamingIt(self):
        for text in ("", "NAME", "=4", "1A=4", "A B=4", "A-B=4", " A=4"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, f'"{text}"'):
                setting.parse(text)


class TableTest(unittest.TestCase):

    def test_Rounds_GiveTheMedianOfEachSide(self):
        lines = setting.table(_REPORTS)
        self.assertEqual([size for size, _ in lines], [0, 8])
        bandwidth, latency = lines[1][1]
        self.assertEqual((bandwidth.first.median, bandwidth.second.median), (200, 106))
        self.assertEqual((latency.first.median, latency.second.median), (4, 6))

    def test_Ratio_IsSecondToFirst(self):
        self.assertEqual(setting.row_text(*setting.table(_REPORTS)[1]).split(),
                         ["8", "200.00", "106.00", "0.53", "4.00", "6.00", "1.25"])
        row = setting.as_json(_REPORTS)[1]
        self.assertEqual(row["bytes"], 8)
        self.assertEqual(row["average_mib_s"],
                         {"first": 200, "second": 106, "ratio": 0.53, "spread": {
                             "first": [200, 225], "second": [100, 900], "ratio": [0.5, 4]}})
        self.assertEqual(row["typical_us"]["ratio"], 1.25)

    def test_FirstIsZero_ThereIsNoRatio(self):
        self.assertEqual(setting.row_text(*setting.table(_REPORTS)[0]).split(),
                         ["0", "0.00", "0.00", "-", "2.00", "3.00", "1.25"])
        self.assertIsNone(setting.as_json(_REPORTS)[0]["average_mib_s"]["ratio"])

    def test_NotMeasured_HasNoColumns(self):
        reports = copy.deepcopy({side: found[:1] for side, found in _REPORTS.items()})
        for found in reports.values():
            found[0]["bandwidth"] = []
        self.assertEqual(setting.row_text(*setting.table(reports)[1]).split(),
                         ["8", "4.00", "5.00", "1.25"])
        self.assertNotIn("MiB", setting.header(setting.figures(reports["first"][0])))
        self.assertNotIn("average_mib_s", setting.as_json(reports)[1])

    def test_HeaderAndRow_LineUp(self):
        titles, columns = setting.header(setting.figures(_REPORTS["first"][0])).split("\n")
        self.assertEqual(titles[0], "#")
        self.assertEqual(len(titles), len(columns))
        self.assertEqual(len(columns), len(setting.row_text(*setting.table(_REPORTS)[1])))
        self.assertRegex(titles, r"BW average\[MiB/sec\] +t_typical\[usec\]$")

    def test_AllReduce_ComparesBothBusBandwidths(self):
        reports = {"first": [_all_reduce(10, 20)], "second": [_all_reduce(5, 30)]}
        self.assertEqual(setting.row_text(*setting.table(reports)[0]).split(),
                         ["1024", "10.00", "5.00", "0.50", "20.00", "30.00", "1.50"])
        self.assertEqual(setting.as_json(reports)[0]["in_place_busbw_gb_s"]["ratio"], 1.5)


class VerifiedLineTest(unittest.TestCase):

    def test_Sendrecv_CountsAllRounds(self):
        reports = copy.deepcopy(_REPORTS)
        self.assertEqual(setting.verified_line(reports), "# 600 messages verified: 0 wrong")
        reports["second"][1] = _sendrecv(1, 1, 7)
        reports["first"][2] = _sendrecv(1, 1, 2)
        self.assertEqual(setting.verified_line(reports), "# 600 messages verified: 9 wrong")

    def test_AllReduce_NamesRanksSizesAndRounds(self):
        reports = {"first": [_all_reduce(1, 1)], "second": [_all_reduce(1, 1)]}
        self.assertEqual(setting.verified_line(reports),
                         "# 2 ranks, 1 sizes, 1 rounds of each side: 0 wrong")

    def test_NotChecked_IsPrinted(self):
        reports = copy.deepcopy(_REPORTS)
        reports["first"][0]["checked"] = False
        self.assertEqual(setting.verified_line(reports), "# nothing verified (--no-check)")


if __name__ == "__main__":
    unittest.main()
