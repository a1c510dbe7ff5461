import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import perf_table

_OUTPUT = """\
# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  41022 on      host1 device  0 [0000:06:00] NVIDIA H200
#  Rank  1 Group  0 Pid  41022 on      host1 device  1 [0000:07:00] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    22.31    0.00    0.00       0    21.90    0.00    0.00       0
     1048576        262144     float     sum      -1   131.25    7.99    7.99       0   130.11    8.06    8.06       2
  1073741824     268435456     float     sum      -1  1.2e+07   0.089   0.089       0   123456   8.697   8.697       0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 5.39361
#
"""


class ParseTest(unittest.TestCase):

    def test_AllReduceOutput_Parsed_GivesEveryRowInOrder(self):
        table = perf_table.parse(_OUTPUT)
        self.assertEqual([row.size for row in table.rows], [8, 1 << 20, 1 << 30])
        self.assertEqual(table.rows[1].out_of_place, perf_table.Measure(131.25, 7.99, 7.99, 0))
        self.assertEqual(table.rows[1].in_place, perf_table.Measure(130.11, 8.06, 8.06, 2))
        self.assertEqual(table.rows[2].out_of_place.time_us, 1.2e7)

    def test_ClosingLines_Parsed_GiveErrorsAverageAndDevices(self):
        table = perf_table.parse(_OUTPUT)
        self.assertEqual(table.out_of_bounds, 1)
        self.assertEqual(table.average_busbw, 5.39361)
        self.assertEqual(table.devices, ["NVIDIA H200"] * 2)

    def test_WrongValues_InEitherHalf_AreAdded(self):
        self.assertEqual([row.wrong() for row in perf_table.parse(_OUTPUT).rows], [0, 2, 0])

    def test_UncheckedHalf_Parsed_IsNotCountedAsRight(self):
        row = "  64  16  float  sum  -1  7.50  0.01  0.01  N/A  7.60  0.01  0.01  N/A"
        parsed = perf_table.parse(row).rows[0]
        self.assertIsNone(parsed.wrong())
        half = row.replace("N/A", "4", 1)
        self.assertEqual(perf_table.parse(half).rows[0].wrong(), 4)

    def test_LineTaggedByMpirun_Parsed_GivesItsRow(self):
        tagged = "[1,0]<stdout>:        8    2  float  sum  -1  9.5  0.00  0.00  0  9.4  0.00  0.00  0"
        self.assertEqual(perf_table.parse(tagged).rows[0].in_place.time_us, 9.4)

    def test_LogLineBeforeRow_Parsed_GivesItsRow(self):
        mixed = "host:1:1 [0] NCCL INFO x        8    2  float  sum  -1  9.5  0.00  0.00  0  9.4 0.0 0.0 0"
        self.assertEqual(perf_table.parse(mixed).rows[0].size, 8)

    def test_LargeWrongCount_InScientificForm_IsRead(self):
        row = "  64  16  float  sum  -1  7.50  0.01  0.01  1.6e+07  7.60  0.01  0.01  0"
        self.assertEqual(perf_table.parse(row).rows[0].wrong(), 1.6e7)

    def test_HeadersAndNoise_Parsed_GiveNoRow(self):
        noise = "# size count type\n\nNCCL WARN 8 2 float\n  8 2 float sum -1 1.0 2.0\n"
        table = perf_table.parse(noise)
        self.assertEqual(table.rows, [])
        self.assertIsNone(table.out_of_bounds)


class MedianTest(unittest.TestCase):

    def _table(self, time_us, wrong):
        return perf_table.parse(f" 8 2 float sum -1 {time_us} 1.0 1.0 {wrong} 1.0 1.0 1.0 N/A")

    def test_ThreeRepeats_Merged_GiveMedianTimeAndSumOfWrong(self):
        merged = perf_table.median_rows([self._table(5, 0), self._table(99, 2), self._table(4, 1)])
        self.assertEqual(len(merged), 1)
        self.assertEqual(merged[0].out_of_place.time_us, 5)
        self.assertEqual(merged[0].out_of_place.wrong, 3)
        self.assertIsNone(merged[0].in_place.wrong)

    def test_RepeatThatStoppedEarly_Merged_KeepsTheOthersSizes(self):
        short = perf_table.PerfTable([], None, None, [])
        self.assertEqual(len(perf_table.median_rows([short, self._table(5, 0)])), 1)


if __name__ == "__main__":
    unittest.main()
