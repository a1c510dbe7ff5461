import unittest

import paths  # noqa: F401  (sets the module path)
import callgrind_file
import perftest_output

# main (driver) calls plugin's isend, which calls the HCA's post_send and itself.
_PROFILE = """\
version: 1
creator: callgrind-3.19.0
cmd: driver
positions: line
events: Ir
summary: 200

ob=(1) /build/bin/driver
fl=(1) driver.cc
fn=(1) sender_isend
10 7
+2 3
cob=(2) /build/lib/plugin.so
cfi=(2) send.cc
cfn=(2) isend
calls=1 +30
* 190

ob=(2)
fl=(2)
fn=(2)
40 50
-3 25
cob=(3) /build/softhca/libibverbs.so.1
cfn=(3) post_send
calls=1 5
40 100
* 15

ob=(3)
fn=(3)
5 60
* 40
"""

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


class CallgrindFileTest(unittest.TestCase):

    def test_Profile_AddedUp_CountsOwnInstructionsOnly(self):
        self.assertEqual(callgrind_file.self_cost_by_object(_PROFILE),
                         {"driver": 10, "plugin.so": 90, "libibverbs.so.1": 100})


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
