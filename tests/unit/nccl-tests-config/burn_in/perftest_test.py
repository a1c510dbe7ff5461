"""What perftest's programs print, and the words that start them."""

import os
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from burn_in import perftest
from burn_in.bench import Job
from burn_in.child import Outcome
from burn_in.failure import Failure
from ends import end

# As printed over the software HCA: by Debian 12's programs (perftest 4.5, which call themselves 6.06),
# and by those of perftest 24.01 (6.20). By its source, 26.04 prints the same columns, with "MiB".
_BANDWIDTH = """\
 WARNING: BW peak won't be measured in this run.
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Number of qps   : 1		Transport type : IB
4194304 is the size of messages
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]{more}
{row}
---------------------------------------------------------------------------------------
"""
_LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          2.23           55483.56      2.42     	       513.21      	3499.30		22006.65 		55483.56
"""
_OF_A_DURATION = "#bytes  #iterations  t_avg[usec]  tps average\n 8  1000  1.50  300000.00\n"
_BUSY = "Conflicting CPU frequency values detected: 1200.000000 != 3500.000000.\n"


def bandwidth(row, unit="Gb/sec", more=""):
    return _BANDWIDTH.format(row=row, unit=unit, more=more)


def job(kind="bandwidth", **fields):
    return Job("perftest", kind, end(0, **fields), end(1, **fields), "10.0.0.1", 4000)


class OutputTest(unittest.TestCase):

    def test_Result_Printed_IsRead(self):
        row = " 4194304    208              0.00               {}   		   0.000089"
        for kind, output, value in (
                ("bandwidth", bandwidth(row.format("2.98")), 2.98),
                ("bandwidth", bandwidth(row.format("1.8e+02")), 180),
                ("bandwidth", bandwidth(row.format("60.93") + "  3.5", more="   CPU_Util[%]"), 60.93),
                ("bandwidth", bandwidth(_BUSY + row.format("99.5")), 99.5),
                ("bandwidth", bandwidth(row.format("1000"), "MB/sec"), 8.388608),
                ("bandwidth", bandwidth(row.format("1000"), "MiB/sec"), 8.388608),
                ("latency", _LATENCY, 2.42)):
            with self.subTest(output):
                found = perftest.value(job(kind), Outcome(None), Outcome(0, output))
                self.assertAlmostEqual(found, value)

    def test_ResultThatIsMissingOrNoNumber_IsAFailureWithAFix(self):
        for kind, output, text in (
                ("bandwidth", "", "no result for messages of 4194304 bytes"),
                ("bandwidth", " 4194304    100    0.00    99.50    0.000250\n", "no result"),
                ("bandwidth", bandwidth(""), "no result"),
                ("bandwidth", bandwidth(" 4194304    100"), "no result"),
                ("bandwidth", bandwidth(" 65536    100    0.00    99.50    0.000250"), "no result"),
                ("bandwidth", bandwidth(" 4194304    100    0.00    99,50    0.000250"), "no result"),
                ("latency", _OF_A_DURATION, "no result for messages of 8 bytes"),
                *(("bandwidth", bandwidth(f" 4194304    100    0.00    {number}    0.000250"),
                   "printed the result") for number in ("inf", "nan", "-nan", "0.00", "-1"))):
            with self.subTest(output), self.assertRaisesRegex(Failure, text) as caught:
                perftest.value(job(kind), Outcome(0), Outcome(0, output))
            self.assertIn("--with perf", caught.exception.fix)

    def test_Error_Printed_HasItsCauseItsFixAndWhoseFaultItIs(self):
        # (errors of the end that connects, of the other one, text, fix, is_transfer)
        for errors, others, text, fix, is_transfer in (
                # What causes other errors comes before its consequences.
                ("ethernet_read_keys: Couldn't read remote address\n"
                 " Unable to read to socket/rdma_cm\n Failed to exchange data between server and clients\n",
                 "-----\nCouldn't allocate MR\nFailed to create MR\n Couldn't create IB resources\n",
                 "status 1: Couldn't allocate MR; Failed to create MR; Couldn't create IB resources",
                 "memory-lock", False),
                ("Failed to exchange data\n", "", "status 1: Failed to exchange data", "--with perf",
                 False),
                (_BUSY + "IB device nosuch not found\n", "", "status 1: IB device nosuch not found",
                 "rdma-devices", False),
                ("Couldn't connect to 10.0.0.1:4000\n", "", "Couldn't connect", "firewall", False),
                (" Port number 1 state is Down\n", "", "state is Down", "port-state", False),
                (" Found Incompatibility issue with GID types.\n",
                 " Found Incompatibility issue with GID types.\n",
                 "Found Incompatibility issue with GID types.", "roce-gids", True),
                ("Failed to modify QP 16384 to RTR\n", "", "Failed to modify QP", "ip-subnets", True),
                (" Completion with error at client\n Failed status 12: wr_id 0\n", "",
                 "Failed status 12", "did not acknowledge", True),
                (" Completion with error at client\n Failed status 10: wr_id 0\n", "",
                 "Failed status 10", "conformance", True),
                ("ib_write_bw: unrecognized option '--duration'\n", "", "unrecognized", "4.5", False),
                ("bad \x1b[31m text\n", "", "bad  [31m text", "--with perf", False),
                ("", "", "status 1: it printed no error", "--with perf", False)):
            with self.subTest(errors), self.assertRaises(Failure) as caught:
                perftest.value(job(), Outcome(1, "", others), Outcome(1, "", errors))
            self.assertEqual(caught.exception.text.count(text), 1)
            self.assertIn(fix, caught.exception.fix)
            self.assertEqual(caught.exception.is_transfer, is_transfer)

    def test_ErrorOfCuda_IsInTheOutput(self):
        with self.assertRaisesRegex(Failure, r"status 1: initializing CUDA; cuInit\(0\) returned 100"):
            perftest.value(job(), Outcome(1, "initializing CUDA\ncuInit(0) returned 100\n"), None)

    def test_EndThatDoesNotEndByItself_IsDescribed(self):
        for status, text in ((None, "ib_write_bw did not end in time: it"),
                             (-11, "ib_write_bw was ended by signal 11 (Segmentation fault): it")):
            with self.subTest(text), self.assertRaises(Failure) as caught:
                perftest.value(job(), Outcome(0), Outcome(status))
            self.assertIn(text, caught.exception.text)


class WordsTest(unittest.TestCase):

    def words(self, role, options=(), variables=None, **fields):
        with mock.patch.dict(os.environ, variables or {}, clear=True):
            return perftest.words(job(**fields), role, perftest.Tools("", cuda_options=list(options)))

    def test_BothEnds_HaveTheSameTestAtTheirOwnPorts(self):
        server = self.words("server")
        self.assertEqual(server, ["ib_write_bw", "-F", "--ib-dev=mlx5_0", "--ib-port=1", "--port=4000",
                                  "--size=4194304", "--duration=4", "--report_gbits"])
        self.assertEqual(self.words("client"),
                         ["ib_write_bw", "-F", "--ib-dev=mlx5_1", *server[3:], "10.0.0.1"])
        self.assertEqual(self.words("server", kind="latency")[-2:], ["--size=8", "--iters=1000"])

    def test_SettingsOfNccl_ArePassedOn(self):
        words = self.words("server", variables={"NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106",
                                                "NCCL_IB_SL": "-1", "NCCL_IB_PKEY": ""})
        self.assertEqual(words[-2:], ["--gid-index=3", "--tclass=106"])

    def test_MemoryOfAGpu_IsNamedByItsAddressWherePerftestCan(self):
        gpu = {"gpu": 5, "gpu_address": "0000:1b:00.0", "cuda": 2}
        for options, peermem, words in (
                (["--use_cuda"], True, ["--use_cuda=2"]),
                (["--use_cuda", "--use_cuda_bus_id"], True, ["--use_cuda_bus_id=0000:1b:00.0"]),
                (["--use_cuda", "--use_cuda_dmabuf"], True, ["--use_cuda=2"]),
                (["--use_cuda", "--use_cuda_dmabuf"], False, ["--use_cuda=2", "--use_cuda_dmabuf"])):
            with self.subTest(words), mock.patch("pathlib.Path.exists", return_value=peermem):
                self.assertEqual(self.words("server", options, **gpu)[8:], words)


if __name__ == "__main__":
    unittest.main()
