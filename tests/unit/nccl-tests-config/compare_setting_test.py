"""The table of compare_setting; tests/conformance/compare_setting_test.py runs all of it over the software HCA."""

import importlib.machinery
import importlib.util
import unittest

from paths import ROOT

_FILE = str(ROOT / "nccl-tests-config" / "compare_setting")
_LOADER = importlib.machinery.SourceFileLoader("compare_setting", _FILE)
compare_setting = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("compare_setting", _LOADER))
_LOADER.exec_module(compare_setting)


def _sendrecv(mib_s, us, **changes):
    """A report of `perf sendrecv` over the sizes 0 and 8."""
    return {
        "tool": "sendrecv", "checked": True, "verified": 100, "wrong": 0,
        "bandwidth": [{"bytes": 0, "average_mib_s": 0.0}, {"bytes": 8, "average_mib_s": mib_s}],
        "latency": [{"bytes": 0, "typical_us": us / 2}, {"bytes": 8, "typical_us": us}], **changes}


def _all_reduce(out_of_place, in_place):
    return {"tool": "all_reduce", "ranks": [{"rank": 0}, {"rank": 1}], "checked": True, "wrong": 0,
            "results": [{"bytes": 1024, "out_of_place": {"busbw_gb_s": out_of_place},
                         "in_place": {"busbw_gb_s": in_place}}]}


class TableTest(unittest.TestCase):

    def rows(self, first, second):
        return compare_setting.rows({"first": first, "second": second})[1:]

    def test_Rounds_GiveTheMediansOfSidesAndOfRatios(self):
        # The ratios of the rounds at 8 bytes are 0.5, 0.53 and 4 for bandwidth, and 1.25, 2 and 0.25 for latency.
        first = [_sendrecv(200, 4), _sendrecv(200, 3), _sendrecv(225, 900)]
        second = [_sendrecv(100, 5), _sendrecv(106, 6), _sendrecv(900, 225)]
        self.assertEqual(self.rows(first, second),
                         [["0", "0.00", "0.00", "-", "2.00", "3.00", "1.25"],
                          ["8", "200.00", "106.00", "0.53", "4.00", "6.00", "1.25"]])

    def test_FigureThatWasNotMeasured_HasNoColumns(self):
        self.assertEqual(
            self.rows([_sendrecv(1, 4, bandwidth=[])], [_sendrecv(1, 5, bandwidth=[])])[1],
            ["8", "4.00", "5.00", "1.25"])

    def test_AllReduce_ComparesBothBusBandwidths(self):
        self.assertEqual(self.rows([_all_reduce(10, 20)], [_all_reduce(5, 30)]),
                         [["1024", "10.00", "5.00", "0.50", "20.00", "30.00", "1.50"]])

    def test_LastLine_CountsAllRoundsOfBothSides(self):
        good, all_reduce = _sendrecv(1, 1), _all_reduce(1, 1)
        for first, second, line in (
                ([good, good], [good, good], "# 400 messages verified: 0 wrong"),
                ([_sendrecv(1, 1, wrong=2)], [_sendrecv(1, 1, wrong=7)], "# 200 messages verified: 9 wrong"),
                ([_sendrecv(1, 1, checked=False)], [good], "# nothing verified (--no-check)"),
                ([all_reduce], [all_reduce], "# 2 ranks, 1 sizes, 1 rounds of each side: 0 wrong")):
            self.assertEqual(compare_setting.verified_line({"first": first, "second": second}),
                             line)


if __name__ == "__main__":
    unittest.main()
