"""Outputs of several releases of nccl-tests, in the formats that their sources print."""

import unittest

import samples
from comparelib import launch, perf_table, verdict

# Before 2.13 each program had columns of its own, and the last of a half was the largest deviation.
_OLD_ALL_REDUCE = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 
#
# Using devices
#   Rank  0 Pid  41022 on      host1 device  0 [0x06] NVIDIA H100
#   Rank  1 Pid  41022 on      host1 device  1 [0x07] NVIDIA H100
#
#                                                       out-of-place                       in-place          
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
           8             2     float     sum    22.31    0.00    0.00  1e-07    21.90    0.00    0.00  0e+00
          16             4     float     sum    23.00    0.00    0.00  4e-07    22.90    0.00    0.00  4e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.000696 
#
"""
_OLD_ALL_GATHER = """\
#       size         count      type     time   algbw   busbw  error     time   algbw   busbw  error
        1024           128     float    30.00    0.03    0.02  0e+00    31.00    0.03    0.02    N/A
"""
_OLD_BROADCAST = """\
#       size         count      type    root     time   algbw   busbw  error     time   algbw   busbw  error
        1024           256     float       0    30.00    0.03    0.03  0e+00    31.00    0.03    0.03  0e+00
"""
# 2.19 with -I 1 -S 1: four more columns in each half, and a timestamp at the end.
_SINGLE_ITERATIONS = """\
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    \
i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp
     1048576        262144     float     sum      -1   131.25    7.99    7.99       0   120.00   150.00   149.00     \
3.10   130.11    8.06    8.06       2   121.00   151.00   148.00     3.00  2026-07-09 16:00:00
"""
_CPU_TIME = """\
#       size         count      type   redop    root  cputime   algbw   busbw  #wrong  cputime   algbw   busbw  #wrong
           8             2     float     sum      -1     2.31    0.00    0.00       0     1.90    0.00    0.00       0
"""


class FormatTest(unittest.TestCase):

    def test_AllReduceBefore213_Parsed_HasNoRootAndNoCountOfWrongValues(self):
        table = perf_table.parse(_OLD_ALL_REDUCE)
        self.assertEqual([row.size for row in table.rows], [8, 16])
        self.assertEqual(table.rows[0].out_of_place, perf_table.Measure(22.31, 0.0, 0.0, None))
        self.assertEqual(table.rows[1].in_place.time_us, 22.9)
        self.assertTrue(table.deviations)
        self.assertEqual(table.out_of_bounds, 0)
        self.assertEqual(table.devices, ["NVIDIA H100"] * 2)
        self.assertEqual(table.notes, [])

    def test_OtherProgramsBefore213_Parsed_HaveTheirOwnColumns(self):
        self.assertEqual(perf_table.parse(_OLD_ALL_GATHER).rows[0].in_place.time_us, 31)
        self.assertEqual(perf_table.parse(_OLD_BROADCAST).rows[0].out_of_place.time_us, 30)
        self.assertEqual(perf_table.parse(_OLD_BROADCAST).rows[0].kind, "float")

    def test_ColumnsOfSingleIterations_AreNotTakenForTheSecondHalf(self):
        row = perf_table.parse(_SINGLE_ITERATIONS).rows[0]
        self.assertEqual(row.out_of_place, perf_table.Measure(131.25, 7.99, 7.99, 0))
        self.assertEqual(row.in_place, perf_table.Measure(130.11, 8.06, 8.06, 2))

    def test_CpuTime_IsMarked(self):
        self.assertTrue(perf_table.parse(_CPU_TIME).cpu_time)
        self.assertFalse(perf_table.parse(_SINGLE_ITERATIONS).cpu_time)

    def test_CurrentRelease_Parsed_NamesProgramVersionsAndHosts(self):
        table = perf_table.parse(samples.text({8: 20, 16: 21}))
        self.assertEqual((table.program, table.version, table.library),
                         ("all_reduce_perf", "2.19.6", "22803"))
        self.assertEqual(table.hosts, ["host1", "host2"])
        self.assertEqual(table.rows[1].kind, "float sum")

    def test_TypesAndOperators_AreKeptWithTheRow(self):
        table = perf_table.parse("  8  4  half  max  -1  7.5 0.0 0.0 0  7.6 0.0 0.0 0\n"
                                 "  8  8  int8  none  0  7.5 0.0 0.0 0  7.6 0.0 0.0 0\n")
        self.assertEqual([row.kind for row in table.rows], ["half max", "int8"])


    def test_OutputOfNcclGdrPerf_HasTheSameForm(self):
        table = perf_table.parse(
            "#       size        count     type  redop   root     time   algbw   busbw #wrong      time"
            "   algbw   busbw #wrong\n"
            "    16777216      4194304  float32    sum     -1   100837    0.17    0.17      0     66513"
            "    0.25    0.25      0\n"
            "# Out of bounds values : 0 OK\n# 2 ranks, 8 sizes: 0 wrong\n")
        self.assertEqual(table.rows[0].in_place, perf_table.Measure(66513, 0.25, 0.25, 0))
        self.assertEqual((table.rows[0].kind, table.out_of_bounds), ("float32 sum", 0))

    def test_RcclTests_MayAddColumnsAtTheEnd(self):
        table = perf_table.parse(
            "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
            "#wrong     algo     proto   nchannels\n     1048576        262144     float     sum      -1    76.26   13.75   "
            "25.78      0    76.43   13.72   25.72      0  Direct    SIMPLE          32\n")
        self.assertEqual(table.rows[0].in_place, perf_table.Measure(76.43, 13.72, 25.72, 0))


class TornTest(unittest.TestCase):

    def test_RowWithoutItsTimes_IsNamed(self):
        torn = samples.text({8: 20}, end="          16             4     float     sum      -1")
        table = perf_table.parse(torn)
        self.assertEqual(len(table.rows), 1)
        self.assertIn("the program ended while it measured 16 B", table.notes)
        self.assertIsNone(table.out_of_bounds)

    def test_FailureOfTheProgram_IsNamed(self):
        line = "gpu-1-1: Test NCCL failure common.cu:961 'unhandled system error / '\n"
        table = perf_table.parse(samples.text({8: 20}, end=line))
        self.assertEqual(table.notes,
                         ["Test NCCL failure common.cu:961 'unhandled system error / '"])

    def test_RowWithoutItsSecondHalf_KeepsTheFirst(self):
        first = samples.row(16, 21)[:-34]
        table = perf_table.parse(samples.text({8: 20}, end=first))
        self.assertEqual(table.rows[1].out_of_place.time_us, 21)
        self.assertIsNone(table.rows[1].in_place)
        self.assertEqual(table.notes, ["the row of 16 B ends after its first half"])

    def test_TimeThatIsNone_IsNoResult(self):
        row = "  8  2  float  sum  -1  {}  inf  inf  0  7.60  0.01  0.01  0"
        for time in ("nan", "0.00", "inf"):
            table = perf_table.parse(row.format(time))
            self.assertIsNone(table.rows[0].out_of_place, time)
            self.assertEqual(table.rows[0].in_place.time_us, 7.6)
            self.assertIn(f"at 8 B the time is {time}", table.notes)

    def test_RowsWithoutAHalf_AreLeftOutOfItsMedian(self):
        table = perf_table.parse("  8  2  float  sum  -1  nan  0.0  0.0  0  7.60  0.01  0.01  0")
        self.assertIsNone(perf_table.median_rows([table])[0].out_of_place)


class MixedTest(unittest.TestCase):
    """Rows whose parts have log lines or tags of mpirun between them, as in NVIDIA/nccl issue 1453."""

    _HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   " \
              "algbw   busbw #wrong\n"
    _END = "# Out of bounds values : 0 OK\n"
    _LEAD = "      524288        131072     float     sum      -1"
    _FIRST, _SECOND = "     386.7    1.36    2.54      0", "     227.0    2.31    4.33      7"
    _LOG = "host:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0\n"

    def assert_whole(self, text):
        table = perf_table.parse(self._HEADER + text + self._END)
        self.assertEqual((table.notes, table.lost), ([], []))
        row, = table.rows
        self.assertEqual(row.size, 524288)
        self.assertEqual(row.out_of_place, perf_table.Measure(386.7, 1.36, 2.54, 0))
        self.assertEqual(row.in_place, perf_table.Measure(227.0, 2.31, 4.33, 7))

    def test_LogBetweenTheParts_LosesNothing(self):
        lead, first, second, log = self._LEAD, self._FIRST, self._SECOND, self._LOG
        for text in (lead + log + first + second, lead + log + log + first + log + second,
                     lead + first + log + second, lead + first + "1" + log + log + second,
                     log + lead + first + second):
            with self.subTest(text):
                self.assert_whole(text + "\n")

    def test_TagsInsideTheLine_LoseNothing(self):
        lead, first, second = self._LEAD, self._FIRST, self._SECOND
        for tag in ("[0]", "[1,0]<stdout>:", "<stdout>:"):
            with self.subTest(tag):
                self.assert_whole(f"{tag}{lead}{tag}{first}{tag}{second}\n")
                self.assert_whole(f"{tag}{lead}{self._LOG}{tag}{first}{tag}{second}\n")
        self.assert_whole(f"0: {lead}\n0: {first}\n0: {second}\n")

    def test_RowThatNeverGetsItsNumbers_IsADefect(self):
        rest = samples.row(1 << 20, 800)
        table = perf_table.parse(self._HEADER + self._LEAD + self._LOG + rest + self._END)
        self.assertEqual([row.size for row in table.rows], [1 << 20])
        outcome = launch.Outcome(0, "", "", 1.0)
        self.assertEqual(verdict.defects(table, outcome), ["the row of 524288 B has no numbers"])
        table = perf_table.parse(self._HEADER + self._LEAD + self._FIRST + "\n" + rest + self._END)
        self.assertEqual(verdict.defects(table, outcome), ["the row of 524288 B ends after its first half"])

    def test_LogLines_AreNoRows(self):
        table = perf_table.parse(self._HEADER + self._LOG * 2 + "host:1:2 [0] NCCL INFO 16 coll channels, 16 collnet "
                                 "channels, 0 nvls channels, 16 p2p channels\n" + self._END)
        self.assertEqual((table.rows, table.lost, table.notes), ([], [], []))


class SectionsTest(unittest.TestCase):

    def test_LogOfTwoPrograms_IsSplitAtTheirFirstLines(self):
        both = "launching\n" + samples.text({8: 20}) + samples.text({8: 30}, "alltoall_perf")
        parts = [perf_table.parse(part) for part in perf_table.sections(both)]
        self.assertEqual([part.program for part in parts], ["all_reduce_perf", "alltoall_perf"])
        self.assertEqual([part.rows[0].out_of_place.time_us for part in parts], [20, 30])

    def test_OldOutputsInOneFile_AreSplitToo(self):
        self.assertEqual(len(perf_table.sections(_OLD_ALL_REDUCE * 3)), 3)

    def test_TextWithoutAStart_IsOneSection(self):
        self.assertEqual(perf_table.sections("a\nb\n"), ["a\nb\n"])


if __name__ == "__main__":
    unittest.main()
