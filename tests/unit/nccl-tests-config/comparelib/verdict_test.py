import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import launch, nccl_log, perf_table, verdict

_LOG = """\
NCCL version 2.28.3+cuda13.0
host1:41022:41030 [0] NCCL INFO NET/Plugin: Loaded net plugin GDR (v11)
host1:41022:41030 [0] NCCL INFO Using network GDR
host1:41022:41031 [1] NCCL INFO Using network GDR
host1:41022:41040 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/GDR/0/GDRDMA
host1:41022:41040 [0] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [receive] via NET/GDR/1(1)/GDRDMA/Shared
host1:41022:41041 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/GDR/0/GDRDMA
host1:41022:41041 [1] proxy.cc:12 NCCL WARN Something is slow
"""
_ROWS = " 8 2 float sum -1 9.5 0.00 0.00 0 9.4 0.00 0.00 0\n# Out of bounds values : 0 OK\n"


def _problems(log=_LOG, rows=_ROWS, network="GDR", gpudirect="auto", exit_code=0):
    outcome = launch.Outcome(exit_code, rows, log, 1.0)
    return verdict.problems(perf_table.parse(rows), nccl_log.parse(log), outcome, network,
                            gpudirect)


class VerdictTest(unittest.TestCase):

    def test_GoodRun_Judged_HasNoProblem(self):
        self.assertEqual(_problems(), [])
        self.assertEqual(_problems(gpudirect="on"), [])

    def test_OtherNetworkInLog_Judged_IsASilentFallback(self):
        self.assertRegex(_problems(network="IB")[0], "silent fallback.*GDR.*, not IB")

    def test_MixedNetworks_Judged_IsASilentFallback(self):
        mixed = _LOG.replace("[1] NCCL INFO Using network GDR",
                             "[1] NCCL INFO Using network Socket")
        self.assertRegex(_problems(log=mixed)[0], "silent fallback.*Socket")

    def test_NoNetworkInLog_Judged_IsAProblem(self):
        self.assertEqual(len(_problems(log="")), 2)

    def test_HostStagedChannels_WithGpuDirectAsked_AreAProblem(self):
        staged = _LOG.replace("[send] via NET/GDR/0/GDRDMA", "[send] via NET/GDR/0")
        self.assertEqual(_problems(log=staged), [])
        self.assertRegex(_problems(log=staged, gpudirect="on")[0], "^1 ends of channels do not")

    def test_GpuDirectChannels_WithGpuDirectOff_AreAProblem(self):
        self.assertRegex(_problems(gpudirect="off")[0], "^3 ends")

    def test_SocketChannels_WithGpuDirectAsked_AreFine(self):
        socket = _LOG.replace("GDR/0/GDRDMA", "Socket/0").replace(
            "GDR/1(1)/GDRDMA/Shared", "Socket/1").replace("network GDR", "network Socket")
        self.assertEqual(_problems(log=socket, network="Socket", gpudirect="on"), [])

    def test_WrongValues_Judged_AreAProblem(self):
        self.assertEqual(_problems(rows=_ROWS.replace("0.00 0\n", "0.00 7\n")),
                         ["7 wrong values at 8 B"])

    def test_NothingChecked_Judged_IsAProblem(self):
        rows = " 8 2 float sum -1 9.5 0.0 0.0 N/A 9.4 0.0 0.0 N/A"
        self.assertRegex(_problems(rows=rows)[0], "no value was checked")

    def test_SizePrintedTwice_Judged_IsAProblem(self):
        self.assertRegex(_problems(rows=_ROWS + _ROWS)[0], "more than once")

    def test_Plugin_MayNameAnyNetworkButNcclsOwn(self):
        self.assertEqual(_problems(network=None), [])
        socket = _LOG.replace("GDR", "Socket")
        self.assertRegex(
            _problems(log=socket, network=None)[0],
            "silent fallback.*Socket', not the plugin's network")
        mixed = _LOG.replace("[1] NCCL INFO Using network GDR", "[1] NCCL INFO Using network UCX")
        self.assertIn("the ranks used several networks: GDR, UCX", _problems(log=mixed,
                                                                             network=None))

    def test_WrongTransport_IsLeftOutButWrongValuesAreShown(self):
        table, log = perf_table.parse(_ROWS.replace("0.00 0\n", "0.00 7\n")), nccl_log.parse(_LOG)
        self.assertEqual(verdict.reasons_to_leave_out(table, log, "GDR", "auto"), [])
        self.assertEqual(len(verdict.reasons_to_leave_out(table, log, "IB", "auto")), 2)
        self.assertEqual(verdict.defects(table, launch.Outcome(1, "", "", 1.0)),
                         ["ended with exit code 1", "7 wrong values at 8 B"])

    def test_SeveralTypes_AreNoRepeatedSizes(self):
        self.assertEqual(_problems(rows=_ROWS + _ROWS.replace("float", "half")), [])

    def test_SizesThatAreRoundedToNothing_MayRepeat(self):
        empty = _ROWS.replace(" 8 2", " 0 0", 1)
        self.assertEqual(_problems(rows=empty + empty + _ROWS), [])

    def test_OutputBefore213_IsJudgedByItsClosingLine(self):
        header = "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
        row = "  8  2  float  sum  9.5  0.00  0.00  4e-07  9.4  0.00  0.00  0e+00\n"
        self.assertEqual(_problems(rows=header + row + "# Out of bounds values : 0 OK\n"), [])
        self.assertEqual(_problems(rows=header + row + "# Out of bounds values : 2 FAILED\n"),
                         ["2 values out of bounds"])
        self.assertRegex(
            _problems(rows=header + row)[0], "the line with the values out of bounds is missing")

    def test_ProgramThatFailedOrHung_Judged_IsAProblem(self):
        self.assertEqual(_problems(exit_code=3), ["ended with exit code 3"])
        self.assertEqual(_problems(exit_code=None), ["ran out of time after 1 s"])


if __name__ == "__main__":
    unittest.main()
