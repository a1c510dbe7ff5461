import unittest

import paths  # noqa: F401  (sets the module path)
import perftest_output

_BANDWIDTH = """\
 Dual-port       : OFF          Device         : softhca0
 remote address: LID 0x01 QPN 0x0011 PSN 0x5c6a7
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    5000             13900.11            13843.24             0.013843
---------------------------------------------------------------------------------------
"""
_LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          1.21           9.50         1.33             1.35           0.12            1.80                    3.10
"""


class PerftestOutputTest(unittest.TestCase):

    def test_BandwidthOutput_Read_GivesTheRowOfTheSize(self):
        self.assertEqual(perftest_output.row(_BANDWIDTH, 1048576)[3], 13843.24)

    def test_LatencyOutput_Read_GivesTypicalTime(self):
        self.assertEqual(perftest_output.row(_LATENCY, 8)[4], 1.33)

    def test_SizeThatWasNotRun_Read_GivesNothing(self):
        self.assertIsNone(perftest_output.row(_LATENCY, 16))
        self.assertIsNone(perftest_output.row("", 8))


if __name__ == "__main__":
    unittest.main()
